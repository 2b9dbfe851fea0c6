"""The result of held-out pairs: numbers, JSON, and a table for a notebook."""

from __future__ import annotations

import html
from typing import Any, NamedTuple

import numpy as np

from ktae.files.text import columns_of_text, counted
from ktae.inference import Interval
from ktae.validity import repeats

COLUMNS = ("held-out", "95 %", "permuted", "95 % ")
"""What `Score.cells` are."""


class Score(NamedTuple):
    """How well one estimator, or one baseline, orders held-out pairs."""

    name: str
    auc: Interval
    """Mean over groups of the share of pairs whose correct rollout scores higher; ties are half."""
    permuted: Interval
    """The same with labels permuted within groups: .5 but for chance."""
    auc_g: np.ndarray
    """(n_groups,) the share in each group."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "auc": self.auc.value,
            "interval": [self.auc.low, self.auc.high],
            "permuted": self.permuted.value,
            "permuted_interval": [self.permuted.low, self.permuted.high],
        }

    def cells(self) -> tuple[str, str, str, str]:
        """What a table shows: both means, and their intervals."""
        (mean, low, high), (p_mean, p_low, p_high) = self.auc, self.permuted
        return (
            f"{mean:.3f}", f"{low:.3f} to {high:.3f}",
            f"{p_mean:.3f}", f"{p_low:.3f} to {p_high:.3f}",
        )  # fmt: skip


class HeldOut(NamedTuple):
    """What `held_out_pairs` returns."""

    estimators: tuple[Score, ...]
    baselines: tuple[Score, ...]
    """`shorter`, and `majority` where responses state answers."""
    groups: int
    """That were looked at."""
    rollouts: int
    """Distinct ones in them."""
    pairs: int
    permutations: int
    """Of each group's labels."""
    left_out: dict[str, int]
    """Groups and rollouts that were not looked at, by the reason."""
    too_small: tuple[str, ...]
    """The labels of mixed groups with too few distinct rollouts of a class."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "estimators": [score.as_dict() for score in self.estimators],
            "baselines": [score.as_dict() for score in self.baselines],
            "groups": self.groups,
            "rollouts": self.rollouts,
            "pairs": self.pairs,
            "permutations": self.permutations,
            "left_out": self.left_out,
            "too_small": list(self.too_small),
        }

    def ranked(self) -> list[Score]:
        """The estimators, best first."""
        # Stable: of equal ones the first that was named comes first, here and in the advice.
        return sorted(self.estimators, key=lambda score: -score.auc.value)

    def counts(self) -> list[str]:
        """What was looked at, and what was left out, in words."""
        looked_at = ", ".join(
            [
                counted(self.groups, "group"),
                counted(self.rollouts, "distinct rollout"),
                counted(self.pairs, "held-out pair"),
            ]
        )
        return [looked_at, *repeats.in_words(self.left_out)]

    def __repr__(self) -> str:
        """The table of `ktae validate`."""
        rows = [("", *COLUMNS), *((x.name, *x.cells()) for x in (*self.ranked(), *self.baselines))]
        return "\n".join([*columns_of_text(rows), *self.counts()])

    def _repr_html_(self) -> str:
        """The table of `ktae validate`, for a notebook."""
        head = "".join(f"<th>{name}</th>" for name in ("", *COLUMNS))
        rows = [_row(score, "") for score in self.ranked()]
        rows += [_row(score, ' style="color: #777"') for score in self.baselines]
        counts = "<br>".join(map(html.escape, self.counts()))
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
            f"<p>{counts}</p>"
        )


def _row(score: Score, style: str) -> str:
    cells = "".join(f"<td>{cell}</td>" for cell in score.cells())
    return f"<tr{style}><th>{html.escape(score.name)}</th>{cells}</tr>"
