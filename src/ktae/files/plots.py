"""Figures: the forest plot of several commands, and how a figure becomes a file."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ktae.files.atomic import atomic_write

KINDS = (".png", ".svg", ".pdf")
"""How the name of a picture's file may end."""


class Mark(NamedTuple):
    """A value and its interval in a forest plot."""

    y: float
    """Its row, from 0 at the top; between two rows for what is shown in smaller type."""
    interval: Sequence[float]
    """Value, low and high."""
    colour: str
    shape: str = "o"
    legend: str | None = None


def forest(
    labels: Sequence[str], marks: Sequence[Mark], *, line: float, xlabel: str, title: str
) -> Any:
    """A forest plot: one row a label, and a vertical line where nothing is shown."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.3 + 0.4 * len(labels)), layout="constrained")
    axes = figure.add_subplot()
    for y, (value, low, high), colour, shape, legend in marks:
        sides = [[max(value - low, 0)], [max(high - value, 0)]]
        axes.errorbar(value, y, xerr=sides, fmt=shape, color=colour, capsize=2, label=legend)
    axes.axvline(line, color="black", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(labels)), labels, parse_math=False)  # $ is a sign like others
    axes.invert_yaxis()
    axes.set_xlabel("\n".join(textwrap.wrap(xlabel, 90)), parse_math=False)
    axes.set_title(title, fontsize=9, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    if any(mark.legend for mark in marks):
        figure.legend(loc="outside lower right", ncols=2, frameon=False, fontsize=8)
    return figure


def save(figure: Any, path: Path) -> None:
    """Write a matplotlib figure, of one of `KINDS` by the path's suffix.

    It has no date and no random names, so that the same figure is the same file.
    """
    from matplotlib import rc_context

    kind = path.suffix.lstrip(".")
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    # Text stays text: TrueType in PDF (Type 42, which editors read), and words in SVG.
    settings = {"svg.hashsalt": "ktae", "svg.fonttype": "none", "pdf.fonttype": 42}
    with atomic_write(path) as temporary, rc_context(settings):
        figure.savefig(temporary, format=kind, dpi=120, metadata=metadata)
