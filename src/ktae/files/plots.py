"""Figures as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ktae.files.atomic import atomic_write


def save(figure: Any, path: Path, *, dpi: int = 120, svg_text: bool = False) -> None:
    """Write a matplotlib figure, as PNG or SVG by the path's suffix.

    An SVG has no date and no random names, so that the same figure is the same file.

    Args:
        figure: the figure.
        path: the file.
        dpi: of a PNG, dots an inch.
        svg_text: an SVG keeps its text as text, in the reader's fonts, and not as outlines.

    Raises:
        InputError: the file cannot be written.
    """
    from matplotlib import rc_context

    kind = path.suffix.lstrip(".")
    settings = {"svg.hashsalt": "ktae", "svg.fonttype": "none" if svg_text else "path"}
    metadata = {"Date": None} if kind == "svg" else None
    with atomic_write(path) as temporary, rc_context(settings):
        figure.savefig(temporary, format=kind, dpi=dpi, metadata=metadata)
