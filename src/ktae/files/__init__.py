"""Files: written whole or not at all, typed ones, and names that may be folders."""
