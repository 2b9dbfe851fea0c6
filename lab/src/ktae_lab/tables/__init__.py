"""The tables and figures of the pages, from the committed results."""
