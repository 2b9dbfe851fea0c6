"""Files: written whole or not at all, typed ones, figures, and names that may be folders."""
