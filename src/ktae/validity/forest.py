"""A forest plot of held-out pairs: one row an estimator, with its interval."""

from __future__ import annotations

from typing import Any

from ktae.files import plots
from ktae.files.text import counted
from ktae.validity.scores import HeldOut

REAL, PERMUTED, BASELINE = "#0b6e4f", "#9a9a9a", "#7a5195"


def forest(held_out: HeldOut) -> Any:
    """The plot, a matplotlib figure; a notebook shows it where it is the last value of a cell."""
    ranked = held_out.ranked()
    rows = [*ranked, *held_out.baselines]
    marks = []
    for y, score in enumerate(rows):
        colour = REAL if y < len(ranked) else BASELINE
        marks += [
            plots.Mark(y, score.auc, colour, legend=None if y else "held-out pairs"),
            # A little below the real one, so that the two intervals do not cover each other.
            plots.Mark(y + 0.24, score.permuted, PERMUTED, ".", None if y else "labels permuted"),
        ]
    return plots.forest(
        [score.name for score in rows],
        marks,
        line=0.5,
        xlabel="share of held-out pairs whose correct rollout scores higher (95 %)",
        title=f"{counted(held_out.groups, 'group')}, {counted(held_out.pairs, 'pair')}",
    )
