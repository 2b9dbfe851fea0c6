"""Figures of means with their 95 % intervals, as SVG.

Colours are Okabe and Ito's, which colour-blind readers can tell apart; markers differ as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ktae.inference import Interval
from ktae_lab import svg

if TYPE_CHECKING:
    from ktae_lab.study.contrasts import Compared

LOOKS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#E69F00", "v"))
MOST_BESIDE = 4
"""Panels beside each other."""


class Mark(NamedTuple):
    """A mean with its interval; those of one series look alike."""

    series: str
    interval: Interval


Panels = Mapping[str, Mapping[str, Sequence[Mark]]]
"""By the panel's title, and in it by the line's name."""


def differences(study: str, compared: Sequence[Compared], path: Path) -> None:
    """Write what a study compared, a panel for each outcome and task; nothing, of too few pairs."""
    panels: dict[str, dict[str, list[Mark]]] = {}
    for difference in compared:
        treatment, baseline, outcome, task = difference.comparison
        if difference.interval is not None:
            panel = panels.setdefault(" · ".join(filter(None, (outcome, task))), {})
            series = "shown (Holm)" if difference.shown else "not shown"
            panel[f"{treatment} - {baseline}"] = [Mark(series, difference.interval)]
    if panels:
        forest(panels, f"{study}: difference, mean and 95 % interval", path)


def forest(panels: Panels, title: str, path: Path, *, around: float | None = 0.0) -> None:
    """Write an SVG with a panel for each title, and in it a line for each name.

    Args:
        panels: what to draw. All panels have the lines of all.
        title: of the legend.
        path: of the SVG.
        around: where a vertical line stands; None: nowhere.
    """
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    every = [marks for lines in panels.values() for marks in lines.values()]
    series = list(dict.fromkeys(mark.series for marks in every for mark in marks))
    beside = min(len(panels), MOST_BESIDE)
    rows = -(-len(panels) // beside)
    size = (1.8 + 3.6 * beside, 0.9 + rows * (0.4 + 0.36 * len(names)))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, beside, squeeze=False, sharey=True, sharex=around is not None)
    for axis, (heading, lines) in zip(axes.flat, panels.items(), strict=False):
        for y, name in enumerate(names):
            for mark in lines.get(name, ()):
                color, marker = LOOKS[series.index(mark.series) % len(LOOKS)]
                # Series stand a little above and below the line's place.
                at = y + 0.26 * (series.index(mark.series) / max(1, len(series) - 1) - 0.5)
                mean, low, high = mark.interval
                axis.plot([low, high], [at, at], color=color, linewidth=2)
                axis.plot(mean, at, marker=marker, linestyle="", color=color, label=mark.series)
        if around is not None:
            axis.axvline(around, color="#6e6e6e", linewidth=0.8)
        axis.set_title(heading, fontsize=10, loc="left", parse_math=False)
        axis.locator_params(axis="x", nbins=5)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    axes[0, 0].set_yticks(range(len(names)), names)
    axes[0, 0].set_ylim(len(names) - 0.4, -0.6)
    # Each series once, from whatever panel has it.
    by_label: dict[str, Any] = {}
    for axis in axes.flat:
        by_label |= dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(
        by_label.values(), by_label.keys(), title=title, loc="outside lower center",
        ncols=len(series), frameon=False, fontsize=9,
    )  # fmt: skip
    svg.save(figure, path)
