"""A forest plot of held-out pairs: one row an estimator, with its interval."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ktae.files import plots
from ktae.files.text import counted
from ktae.validity.scores import HeldOut, Score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REAL, PERMUTED, BASELINE = "#0b6e4f", "#9a9a9a", "#7a5195"


def write_forest(held_out: HeldOut, path: Path) -> None:
    """Write the plot as PNG or SVG.

    Raises:
        InputError: the file cannot be written.
    """
    plots.save(forest(held_out), path)


def forest(held_out: HeldOut) -> Figure:
    """The plot; a notebook shows it where it is the last value of a cell."""
    from matplotlib.figure import Figure

    ranked = held_out.ranked()[::-1]
    rows = [(score, BASELINE) for score in reversed(held_out.baselines)]
    rows += [(score, REAL) for score in ranked]
    figure = Figure(figsize=(7, 1.2 + 0.34 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    for y, (score, colour) in enumerate(rows):
        _draw(axes, score, y, colour, label="" if y < len(rows) - 1 else "held-out pairs")
    axes.axvline(0.5, color="black", linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(rows)), [score.name for score, _ in rows])
    axes.set_xlabel("share of held-out pairs whose correct rollout scores higher (95 %)")
    axes.set_title(
        f"{counted(held_out.groups, 'group')}, {counted(held_out.pairs, 'pair')}", fontsize=10
    )
    figure.legend(loc="outside lower right", ncols=2, frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _draw(axes: object, score: Score, y: int, colour: str, label: str) -> None:
    for interval, shift, shade, mark, name in (
        (score.auc, 0.0, colour, "o", label),
        (score.permuted, -0.24, PERMUTED, ".", label and "labels permuted"),
    ):
        mean, low, high = interval
        axes.errorbar(  # type: ignore[attr-defined]
            mean, y + shift, xerr=[[max(mean - low, 0)], [max(high - mean, 0)]],
            fmt=mark, color=shade, capsize=2, label=name or None,
        )  # fmt: skip
