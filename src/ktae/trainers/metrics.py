"""What the estimator did in a training step, as numbers: one name in every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from ktae.credit import credit_table
from ktae.estimators import Estimator
from ktae.inference import ALPHA
from ktae.tables import table_estimator

PREFIX = "credit/"
"""Begins the name of each metric in a tracker and in `metrics.jsonl`."""

QUANTILES = (0.5, 0.9, 0.99)
BINS = 1000
GROUPS_TESTED = 64
"""Groups of a process whose p-values are looked at in each step, to bound the time."""

Combine = Callable[[torch.Tensor], torch.Tensor]
"""From this process's tensor to that over all processes, elementwise."""


class Seen(NamedTuple):
    """A batch of one process as the estimator saw it: m rollouts of whole groups, n of them own."""

    token_ids: torch.Tensor
    """(m, T)"""
    mask: torch.Tensor
    """(m, T)"""
    evidence: torch.Tensor
    """(m,) what the estimator got for `correct`: scores if it is graded."""
    correct: torch.Tensor
    """(m,) 1, 0, or NaN for unknown."""
    groups: torch.Tensor
    """(m,) integers from 0 on."""
    credit: torch.Tensor
    """(m, T)"""
    own: slice
    """Which of the m rollouts are this process's; the others belong to its groups."""

    def counted_credit(self, rollout_advantages: torch.Tensor) -> tuple[torch.Tensor, int]:
        """Each counted token's |credit|, one after another; and how many of these tokens have an
        advantage of another sign than their rollout's."""
        credit, counted = self.credit[self.own], self.mask[self.own] != 0
        added = _picked(credit, counted)
        base = _picked(rollout_advantages.to(credit).unsqueeze(1).expand_as(counted), counted)
        return added.abs(), int((base * (base + added) < 0).sum())

    def skipped(self) -> list[int]:
        """Rollouts in groups of equal scores, whose credit is 0: all correct, none correct, none
        known; and all rollouts."""
        group, correct = self.groups.cpu().numpy(), self.correct.cpu().numpy()
        has_tokens = self.mask.any(dim=1).cpu().numpy()
        evidence = np.where(has_tokens, self.evidence.double().cpu().numpy(), np.nan)
        n_groups = group.max(initial=-1) + 1
        low, high = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
        # Neither looks at NaN. Where no score is known, low stays above high.
        np.fmin.at(low, group, evidence)
        np.fmax.at(high, group, evidence)
        has_true = np.isin(np.arange(n_groups), group[correct == 1])
        kinds = ((low == high) & has_true, (low == high) & ~has_true, low > high)
        group = group[self.own]
        return [*(int(kind[group].sum()) for kind in kinds), len(group)]

    def significant(self, estimator: Estimator) -> tuple[int, int]:
        """How many (group, token) pairs were tested, and how many have p < 0.05."""
        if not len(self.groups):
            return 0, 0
        tested = (self.groups < self.groups.min() + GROUPS_TESTED).cpu()
        arrays = (self.token_ids, self.mask, self.correct, self.groups)
        ids, mask, correct, groups = (x[tested.to(x.device)].cpu() for x in arrays)
        table = credit_table(ids, mask, correct, groups, table_estimator(estimator))
        return len(table.p_value), int((table.p_value < ALPHA).sum())

    def only(self, kept: torch.Tensor) -> Seen:
        """Of the process's own rollouts those where (m,) `kept` is true."""
        *arrays, _ = self
        return Seen(*(x[kept.to(x.device)] for x in arrays), own=slice(None))  # type: ignore[misc]


def step_metrics(
    seen: Seen,
    rollout_advantages: torch.Tensor,
    estimator: Estimator,
    *,
    total: Combine = lambda sums: sums,
    largest: Combine = lambda values: values,
) -> dict[str, float]:
    """Metrics over all processes' rollouts, by names that begin with `PREFIX`; every process has to
    call it. docs/trl.md says what each of them is. `seen` and the (n,) advantages are of this
    process's own rollouts; `total` sums over processes, `largest` takes the largest.
    """
    absolute, flips = seen.counted_credit(rollout_advantages)
    sums = [float(absolute.sum(dtype=torch.float64)), flips, len(absolute)]
    sums += [*seen.skipped(), *seen.significant(estimator)]
    totals = total(absolute.new_tensor(sums, dtype=torch.float64)).tolist()
    sum_abs, n_flips, n_tokens, *skipped, rollouts, pairs, significant = totals
    peak = absolute.amax(dim=0, keepdim=True) if len(absolute) else absolute.new_zeros(1)
    bound = float(largest(peak))
    metrics = {
        "mean_abs": sum_abs / max(n_tokens, 1),
        "sign_flips": n_flips / max(n_tokens, 1),
        "significant_tokens_sampled": significant / max(pairs, 1),
    }
    for why, n in zip(("all_correct", "all_incorrect", "unknown"), skipped, strict=True):
        metrics[f"skipped/{why}"] = n / max(rollouts, 1)
    # Quantiles over processes without gathering the tokens: of a histogram, whose bins are a
    # thousandth of the largest |credit| wide.
    # On the host: a GPU's histogram is refused where training has to be deterministic.
    counts = torch.histc(absolute.cpu(), bins=BINS, min=0, max=bound or 1.0)
    share = total(counts.to(absolute.device).double()).cumsum(0) / max(n_tokens, 1)
    for q in QUANTILES:
        middle = (int((share < q).sum()) + 0.5) / BINS * bound
        metrics[f"abs_p{100 * q:.0f}"] = middle if n_tokens else 0.0
    metrics = {PREFIX + name: value for name, value in metrics.items()}
    return metrics | verdict_metrics(seen.correct[seen.own], total=total)


def verdict_metrics(
    correct: torch.Tensor, *, total: Combine = lambda sums: sums
) -> dict[str, float]:
    """Those of `step_metrics` that need no estimator: `correct` and `unknown`."""
    known = ~correct.isnan()
    sums = [x.sum().double() for x in (correct == 1, known, torch.ones_like(known))]
    n_correct, n_known, rollouts = total(torch.stack(sums)).tolist()
    metrics = {f"{PREFIX}unknown": 1 - n_known / max(rollouts, 1)}
    if n_known:  # 0 would say that all were wrong, once a trainer has averaged it
        metrics[f"{PREFIX}correct"] = n_correct / n_known
    return metrics


def _picked(values: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """`values[counted]`, for which NumPy takes a sixth of torch's time on a CPU."""
    if values.device.type == "cpu":
        return torch.from_numpy(values.numpy()[counted.numpy()])
    return values[counted]
