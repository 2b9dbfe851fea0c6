"""What the estimator did in a training step, as numbers: one name in every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ktae.arrays import Array, on_host
from ktae.estimators import Estimator

PREFIX = "credit/"
"""Begins the name of each metric in a tracker and in `metrics.jsonl`."""

QUANTILES = (0.5, 0.9, 0.99)
BINS = 1000

Gather = Callable[[np.ndarray], np.ndarray]
"""From this process's (n,) numbers to those of all processes, (processes, n)."""


def alone(values: np.ndarray) -> np.ndarray:
    """The numbers of a single process."""
    return values[None]


class Scored(NamedTuple):
    """A batch of one process as the estimator saw it: m rollouts of whole groups, n of them own."""

    token_ids: Array  # (m, T), an array or a tensor, and so are the next five
    mask: Array  # (m, T)
    evidence: Array  # (m,) what the estimator got for correctness: scores if it is graded
    correct: Array  # (m,) 1, 0, or NaN for unknown
    groups: Array  # (m,) integers from 0 on
    credit: Array  # (m, T) float32
    estimator: Estimator
    seconds: float  # that the credit took
    own: Any = slice(None)  # which are this process's; the others belong to its groups

    def skipped(self) -> list[int]:
        """Rollouts in groups of equal scores, whose credit is 0: all correct, none correct, none
        known; and all rollouts."""
        group, correct, evidence = map(on_host, (self.groups, self.correct, self.evidence))
        evidence = np.where(on_host(self.mask).any(axis=1), evidence.astype(np.float64), np.nan)
        n_groups = group.max(initial=-1) + 1
        low, high = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
        # Neither looks at NaN. Where no score is known, low stays above high.
        np.fmin.at(low, group, evidence)
        np.fmax.at(high, group, evidence)
        has_correct = np.isin(np.arange(n_groups), group[correct == 1])
        kinds = ((low == high) & has_correct, (low == high) & ~has_correct, low > high)
        group = group[self.own]
        return [*(int(kind[group].sum()) for kind in kinds), len(group)]

    def metrics(
        self,
        rollout_advantages: Array,
        *,
        padding: np.ndarray | None = None,
        gather: Gather = alone,
    ) -> dict[str, float]:
        """Metrics over all processes' rollouts, by names that begin with `PREFIX`; every process
        has to call it. docs/trl.md says what each of them is.

        `rollout_advantages` are (n,) of this process's own rollouts, and `padding` (n,) says which
        do not count.
        """
        base = on_host(rollout_advantages)
        if padding is not None and padding.any():
            rows = np.flatnonzero(~padding)
            counted = self._replace(**{x: getattr(self, x)[rows] for x in self._fields[:6]})
            return counted.metrics(base[rows], gather=gather)
        counted_bt = on_host(self.mask[self.own]) != 0
        added = on_host(self.credit[self.own])[counted_bt]
        base = np.repeat(base.astype(added.dtype), counted_bt.sum(axis=1))
        absolute, flips = np.abs(added), int((base * (base + added) < 0).sum())
        sums = [absolute.sum(dtype=np.float64), flips, len(absolute)]
        totals = gather(np.array([*sums, *self.skipped()], dtype=np.float64)).sum(axis=0)
        sum_abs, n_flips, n_tokens, *skipped, rollouts = totals.tolist()
        bound = float(gather(np.array([absolute.max(initial=0)])).max())
        metrics = {
            "mean_abs": sum_abs / max(n_tokens, 1),
            "sign_flips": n_flips / max(n_tokens, 1),
        }
        for why, n in zip(("all_correct", "all_incorrect", "unknown"), skipped, strict=True):
            metrics[f"skipped/{why}"] = n / max(rollouts, 1)
        # Quantiles over processes without gathering the tokens: of a histogram, whose bins are a
        # thousandth of the largest |credit| wide.
        counts, _ = np.histogram(absolute, BINS, (0.0, bound or 1.0))
        share = np.cumsum(gather(counts.astype(np.float64)).sum(axis=0)) / max(n_tokens, 1)
        for q in QUANTILES:
            middle = (int((share < q).sum()) + 0.5) / BINS * bound
            metrics[f"abs_p{100 * q:.0f}"] = middle if n_tokens else 0.0
        metrics["seconds"] = self.seconds
        metrics = {PREFIX + name: value for name, value in metrics.items()}
        return metrics | verdict_metrics(self.correct[self.own], gather)


def verdict_metrics(correct: Array, gather: Gather = alone) -> dict[str, float]:
    """The metrics that need no estimator: `correct` and `unknown`."""
    correct = on_host(correct)
    sums = [(correct == 1).sum(), (~np.isnan(correct)).sum(), len(correct)]
    n_correct, n_known, rollouts = gather(np.array(sums, dtype=np.float64)).sum(axis=0).tolist()
    metrics = {f"{PREFIX}unknown": 1 - n_known / max(rollouts, 1)}
    if n_known:  # 0 would say that all were incorrect, once a trainer has averaged it
        metrics[f"{PREFIX}correct"] = n_correct / n_known
    return metrics
