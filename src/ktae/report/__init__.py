"""Why did this token get this value? One HTML file, or a cell of a notebook, or the terminal."""

from ktae.report.build import Inline, show, write_report

__all__ = ["Inline", "show", "write_report"]
