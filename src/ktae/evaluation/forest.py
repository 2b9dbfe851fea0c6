"""The forest plot of `ktae compare`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ktae.evaluation.comparison import POOLED, Comparison, title
from ktae.files import plots


def draw(comparisons: Sequence[Comparison], path: Path, *, name_a: str, name_b: str) -> None:
    """One line a comparison: the difference in points and its 95 % interval, as PNG or SVG.

    Raises:
        InputError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.4 + 0.45 * len(comparisons)), layout="constrained")
    axis = figure.subplots()
    for y, comparison in enumerate(comparisons):
        value, low, high = (100 * x for x in comparison.difference)
        color = "#08519c" if comparison.shown else "#737373"
        axis.plot([low, high], [y, y], color=color, linewidth=2)
        marker = "D" if comparison.name == POOLED else "s"
        axis.plot(value, y, marker=marker, color=color, markersize=7)
    axis.axvline(0, color="black", linewidth=0.8)
    labels = [f"{title(c.name)} (n = {c.problems})" for c in comparisons]
    axis.set_yticks(range(len(comparisons)), labels, parse_math=False)  # $ is a sign like others
    axis.invert_yaxis()
    axis.set_xlabel(
        f"accuracy of {name_b} minus that of {name_a}, points, 95 % interval", parse_math=False
    )
    axis.set_title("blue: a difference is shown at the 5 % level (Holm)", fontsize=9, loc="left")
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    plots.save(figure, path)
