"""The result of held-out pairs: numbers, JSON and a table."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from ktae.files.text import counted
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

    def in_words(self) -> str:
        """The mean and its interval, as in `.71 (.64 to .78)`."""
        mean, low, high = (f"{x:.2f}".removeprefix("0") for x in self.auc)
        return f"{mean} ({low} to {high})"

    def cells(self) -> tuple[str, ...]:
        """What a table shows: both means, and their intervals."""
        intervals = (self.auc, self.permuted)
        pairs = ((f"{x.value:.3f}", f"{x.low:.3f} to {x.high:.3f}") for x in intervals)
        return tuple(itertools.chain(*pairs))


class HeldOut(NamedTuple):
    """What `held_out_pairs` returns."""

    estimators: tuple[Score, ...]
    baselines: tuple[Score, ...]
    """`shorter`, and `majority` where responses state answers."""
    groups: int
    """Groups that were looked at."""
    rollouts: int
    """Distinct rollouts in them."""
    pairs: int
    permutations: int
    """How often each group's labels are permuted."""
    left_out: dict[str, int]
    """Groups and rollouts that were not looked at, by the reason."""
    too_small: tuple[str, ...]
    """The labels of mixed groups with too few distinct rollouts of a class."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return self._asdict() | {
            "estimators": [score.as_dict() for score in self.estimators],
            "baselines": [score.as_dict() for score in self.baselines],
            "too_small": list(self.too_small),
        }

    def ranked(self) -> list[Score]:
        """The estimators, best first."""
        # Stable: of equal ones the first that was named comes first, here and in the advice.
        return sorted(self.estimators, key=lambda score: -score.auc.value)

    def counts(self) -> list[str]:
        """What was looked at, and what was left out, in words."""
        numbers = (self.groups, self.rollouts, self.pairs)
        names = ("group", "distinct rollout", "held-out pair")
        return [", ".join(map(counted, numbers, names)), *repeats.in_words(self.left_out)]

    def __repr__(self) -> str:
        """The table of `ktae validate`."""
        rows = [("", *COLUMNS), *((x.name, *x.cells()) for x in (*self.ranked(), *self.baselines))]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        names = [row[0].ljust(widths[0]) for row in rows]
        cells = [map(str.rjust, row[1:], widths[1:]) for row in rows]
        lines = ["  ".join([x, *y]) for x, y in zip(names, cells, strict=True)]
        return "\n".join([*lines, *self.counts()])
