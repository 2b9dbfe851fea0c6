"""How a figure becomes a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ktae.files.atomic import atomic_write

KINDS = (".png", ".svg", ".pdf")  # how the name of a picture's file may end


def save(figure: Any, path: Path) -> None:
    """Write a matplotlib figure; without a date, so that the same figure is the same file."""
    from matplotlib import rc_context

    kind = path.suffix.lstrip(".")
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    # Text stays text: TrueType in PDF, and words in SVG.
    settings = {"svg.hashsalt": "ktae", "svg.fonttype": "none", "pdf.fonttype": 42}
    with atomic_write(path) as temporary, rc_context(settings):
        figure.savefig(temporary, format=kind, dpi=120, metadata=metadata)
