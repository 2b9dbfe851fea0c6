"""What the estimator did in a training step, as numbers: one name in every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from ktae.credit import credit_table
from ktae.estimators import Estimator, table_estimator
from ktae.inference import LEVEL

PREFIX = "credit/"
"""Begins the name of each metric in a tracker and in `metrics.jsonl`."""

QUANTILES = (0.5, 0.9, 0.99)
BINS = 1000
GROUPS_TESTED = 64
"""Groups of a process whose p-values are looked at in each step, to bound the time."""
ROWS_AT_ONCE = 1024

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


def step_metrics(
    seen: Seen,
    rollout_advantages: torch.Tensor,
    estimator: Estimator,
    *,
    total: Combine = lambda sums: sums,
    largest: Combine = lambda values: values,
) -> dict[str, float]:
    """Metrics over all processes' rollouts; every process has to call it.

    Args:
        seen: the batch of this process.
        rollout_advantages: (n,) of its own rollouts, or (n, T).
        estimator: what gave the credit.
        total: sums over processes.
        largest: the largest over processes.

    Returns:
        By name, which begins with `PREFIX`: `mean_abs` and quantiles of |credit|, these to a
        thousandth of the largest; `sign_flips`, the share of tokens whose advantage changed its
        sign; `correct`, the share of the rollouts of known correctness, left out where none is
        known, since trainers average what is logged; `unknown`, the share of rollouts of unknown
        correctness; `skipped/...`, the share of rollouts whose groups give no credit, by reason;
        `significant_tokens_sampled`, the share of pairs (group, token) with p < .05 in the first 64
        groups of each process.
    """
    sums = torch.stack([*_token_sums(seen, rollout_advantages), *_rollout_sums(seen)])
    tested = torch.tensor(_significant(seen, estimator), dtype=torch.float64)
    both = total(torch.cat([sums, tested.to(sums.device)])).tolist()
    absolute, flips, tokens, n_correct, n_known, *skipped, rollouts, pairs, significant = both
    bound = float(largest(_own_credit(seen).abs().amax().reshape(1))) if len(seen.groups) else 0.0
    metrics = {
        "mean_abs": absolute / max(tokens, 1),
        "sign_flips": flips / max(tokens, 1),
        **_verdicts(n_correct, n_known, rollouts),
        "significant_tokens_sampled": significant / max(pairs, 1),
    }
    for why, n in zip(("all_correct", "all_incorrect", "unknown"), skipped, strict=True):
        metrics[f"skipped/{why}"] = n / max(rollouts, 1)
    metrics |= _quantiles(seen, bound, total)
    return {PREFIX + name: value for name, value in metrics.items()}


def verdict_metrics(
    correct: torch.Tensor, *, total: Combine = lambda sums: sums
) -> dict[str, float]:
    """Those of `step_metrics` that need no estimator: `correct` and `unknown`.

    Args:
        correct: (n,) 1, 0, or NaN for unknown, of this process's rollouts.
        total: sums over processes.
    """
    known = ~correct.isnan()
    sums = [x.sum().double() for x in (correct == 1, known, torch.ones_like(known))]
    found = _verdicts(*total(torch.stack(sums)).tolist())
    return {PREFIX + name: value for name, value in found.items()}


def _verdicts(n_correct: float, n_known: float, rollouts: float) -> dict[str, float]:
    found = {"unknown": 1 - n_known / max(rollouts, 1)}
    return found | ({"correct": n_correct / n_known} if n_known else {})


def _own_credit(seen: Seen) -> torch.Tensor:
    credit = seen.credit[seen.own]
    return credit if credit.numel() else credit.new_zeros(1, 1)


def _token_sums(seen: Seen, rollout_advantages: torch.Tensor) -> list[torch.Tensor]:
    """Sum of |credit|, sign flips and number of the tokens: some rows at a time, since a step may
    have fifty million."""
    credit, mask = seen.credit[seen.own], seen.mask[seen.own]
    sums = torch.zeros(3, dtype=torch.float64, device=credit.device)
    for start in range(0, len(credit), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        own, counted = credit[rows], mask[rows] != 0
        base = rollout_advantages[rows].to(own)
        base = base.unsqueeze(1) if base.dim() == 1 else base
        flipped = (base * (base + own) < 0) & counted
        sums += torch.stack([x.sum().double() for x in (own.abs() * counted, flipped, counted)])
    return list(sums)


def _rollout_sums(seen: Seen) -> list[torch.Tensor]:
    """Correct and known rollouts; those in groups of equal scores, whose credit is 0: all correct,
    none correct, none known; and all rollouts."""
    group = seen.groups.to(seen.credit.device)
    correct, evidence = seen.correct.to(group.device), seen.evidence.to(group.device)
    without_tokens = ~(seen.mask != 0).any(dim=1).to(group.device)
    evidence = evidence.double().masked_fill(without_tokens, torch.nan)
    n_groups = int(group.max()) + 1 if len(group) else 0

    def extreme(how: str, start: float) -> torch.Tensor:
        scores = evidence.nan_to_num(nan=start)
        ends = torch.full((n_groups,), start, device=group.device, dtype=torch.float64)
        return ends.scatter_reduce_(0, group, scores, how)

    low, high = extreme("amin", float("inf")), extreme("amax", -float("inf"))
    is_true = torch.zeros(n_groups, device=group.device, dtype=torch.float64)
    is_true.index_add_(0, group, (correct == 1).double())
    own = group[seen.own]
    equal, known = (low == high)[own], (low <= high)[own]
    correct = correct[seen.own]
    sums = (
        correct == 1, ~correct.isnan(), equal & (is_true[own] > 0), equal & (is_true[own] == 0),
        ~known, torch.ones_like(known),
    )  # fmt: skip
    return [x.sum().double() for x in sums]


def _significant(seen: Seen, estimator: Estimator) -> tuple[int, int]:
    """How many (group, token) pairs were tested, and how many have p < 0.05."""
    if not len(seen.groups):
        return 0, 0
    tested = (seen.groups < seen.groups.min() + GROUPS_TESTED).cpu()
    arrays = (seen.token_ids, seen.mask, seen.correct, seen.groups)
    ids, mask, correct, groups = (x[tested.to(x.device)].cpu() for x in arrays)
    table = credit_table(ids, mask, correct, groups, table_estimator(estimator))
    return len(table.p_value), int((table.p_value < LEVEL).sum())


def _quantiles(seen: Seen, bound: float, total: Combine) -> dict[str, float]:
    """Of |credit| over all processes' tokens, each to a thousandth of the largest."""
    credit, mask = seen.credit[seen.own], seen.mask[seen.own]
    counts = torch.zeros(BINS, dtype=torch.float64, device=credit.device)
    for start in range(0, len(credit), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        own = credit[rows].abs()[mask[rows] != 0].float()
        counts += torch.histc(own, bins=BINS, min=0, max=bound or 1.0).double()
    share = total(counts).cumsum(0)
    share = share / share[-1].clamp(min=1)
    return {
        f"abs_p{100 * q:.0f}": (int((share < q).sum()) + 0.5) / BINS * bound
        if share[-1] > 0
        else 0.0
        for q in QUANTILES
    }
