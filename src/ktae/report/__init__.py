"""Why did this token get this value? One HTML file, or a cell of a notebook, or the terminal."""

from typing import TYPE_CHECKING, Any

from ktae.rollouts.options import ReadOptions

if TYPE_CHECKING:
    from ktae.report.page import Inline, show, write_report

__all__ = ["Inline", "ReadOptions", "show", "write_report"]


def __getattr__(name: str) -> Any:
    """The page's names, imported when they are asked for: the terminal needs none of it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ktae.report import page

    return getattr(page, name)
