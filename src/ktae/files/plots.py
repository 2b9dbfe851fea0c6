"""Figures as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ktae.files.atomic import atomic_write


def save(figure: Any, path: Path) -> None:
    """Write a matplotlib figure, as PNG or SVG by the path's suffix.

    An SVG has no date and no random names, so that the same figure is the same file.

    Args:
        figure: the figure.
        path: the file.

    Raises:
        InputError: the file cannot be written.
    """
    from matplotlib import rc_context

    kind = path.suffix.lstrip(".")
    metadata = {"Date": None} if kind == "svg" else None
    with atomic_write(path) as temporary, rc_context({"svg.hashsalt": "ktae"}):
        figure.savefig(temporary, format=kind, dpi=120, metadata=metadata)
