"""What the estimator did in a training step, as numbers beside TRL's own."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import torch
from accelerate.utils import gather

from ktae.config import KTAEConfig
from ktae.custom import Estimator
from ktae.estimator import key_token_table

QUANTILES = (0.5, 0.9, 0.99)
BINS = 1000
GROUPS_TESTED = 64
"""Groups of a process whose p-values are looked at in each step, to bound the time."""


class Estimated(NamedTuple):
    """A batch of one process as the estimator saw it."""

    token_ids: torch.Tensor
    """(m, T) of the m rollouts of the groups that this process's rows belong to."""
    mask: torch.Tensor
    """(m, T)"""
    evidence: torch.Tensor
    """(m,) what the estimator got for `correct`: scores with a graded config."""
    correct: torch.Tensor
    """(m,) 1, 0, or NaN for unknown."""
    groups: torch.Tensor
    """(m,)"""
    own: slice
    """Which of the m rollouts are this process's."""
    terms: torch.Tensor
    """(m, T) key-token terms."""


def step_metrics(
    batch: Estimated, rollout_advantages: torch.Tensor, estimator: Estimator
) -> dict[str, float]:
    """Metrics over all processes' rollouts; every process has to call it.

    `rollout_advantages` is (n,), of this process's rollouts. Tokens are those the policy wrote.
    """
    terms, mask = batch.terms[batch.own], batch.mask[batch.own].bool()
    correct = batch.correct[batch.own].to(terms.device)
    advantages = rollout_advantages.unsqueeze(1)
    flipped = (advantages * (advantages + terms) < 0) & mask
    known = ~correct.isnan()
    pairs, significant = _significant(batch, table_config(estimator))
    sums = [
        terms.abs().sum(), flipped.sum(), mask.sum(), (correct == 1).sum(), known.sum(),
        torch.tensor(significant), torch.tensor(pairs), *_skipped(batch),
    ]  # fmt: skip
    totals = _sum_over_processes(torch.stack([x.double().to(terms.device) for x in sums]))
    term_abs, flips, tokens, n_correct, n_known, significant, pairs, *skipped = totals.tolist()
    metrics = {
        "term_abs": term_abs / max(tokens, 1),
        "sign_flips": flips / max(tokens, 1),
        "significant_tokens": significant / max(pairs, 1),
        "correct": n_correct / max(n_known, 1),
    }
    rollouts = max(skipped.pop(), 1)
    reasons = ("all_correct", "all_incorrect", "unknown")
    metrics |= {f"skipped/{why}": n / rollouts for why, n in zip(reasons, skipped, strict=True)}
    absolute = terms.abs()[mask]
    return metrics | _quantiles(absolute, _largest(batch, absolute, estimator) or 1.0)


def table_config(estimator: Estimator) -> KTAEConfig:
    """Of the key-token table, which is of verdicts; the paper's beside a function of the user's."""
    if isinstance(estimator, KTAEConfig):
        return dataclasses.replace(estimator, graded=False)
    return KTAEConfig.paper()


def _largest(batch: Estimated, absolute: torch.Tensor, estimator: Estimator) -> float:
    """What no |term| exceeds: a config's bound, or the largest of all processes' terms."""
    if isinstance(estimator, KTAEConfig):
        bound: float = estimator.largest_term(int(torch.bincount(batch.groups).max()))
        return bound
    own = absolute.max() if len(absolute) else absolute.new_zeros(())
    return float(gather(own.reshape(1)).max())


def _significant(batch: Estimated, config: KTAEConfig) -> tuple[int, int]:
    """How many (group, token) pairs were tested, and how many have p < 0.05."""
    tested = batch.groups < batch.groups.min() + GROUPS_TESTED
    arrays = (batch.token_ids, batch.mask, batch.correct, batch.groups)
    ids, mask, correct, groups = (x[tested.to(x.device)].cpu() for x in arrays)
    table = key_token_table(ids, mask, correct, groups, config)
    return len(table.p_value), int((table.p_value < 0.05).sum())


def _skipped(batch: Estimated) -> list[torch.Tensor]:
    """This process's rollouts in groups of equal scores, whose terms are 0: all correct, none
    correct, none known; and all of its rollouts."""
    group = batch.groups.to(batch.correct.device)
    n_groups = int(group.max()) + 1

    def extreme(how: str, start: float) -> torch.Tensor:
        scores = batch.evidence.double().nan_to_num(nan=start)
        ends = torch.full((n_groups,), start, device=group.device, dtype=torch.float64)
        return ends.scatter_reduce_(0, group, scores, how)

    low, high = extreme("amin", float("inf")), extreme("amax", -float("inf"))
    is_true = torch.zeros(n_groups, device=group.device).index_add_(
        0, group, (batch.correct == 1).float()
    )
    own = group[batch.own]
    equal, known = (low == high)[own], (low <= high)[own]
    return [
        (equal & (is_true[own] > 0)).sum(),
        (equal & (is_true[own] == 0)).sum(),
        (~known).sum(),
        torch.tensor(len(own)),
    ]


def _quantiles(values: torch.Tensor, largest: float) -> dict[str, float]:
    """Of all processes' values from 0 to `largest`, each to a thousandth of that."""
    counts = torch.histc(values.float(), bins=BINS, min=0, max=largest).double()
    share = _sum_over_processes(counts).cumsum(0)
    share = share / share[-1].clamp(min=1)
    return {
        f"term_abs_p{100 * q:.0f}": (int((share < q).sum()) + 0.5) / BINS * largest
        if share[-1] > 0
        else 0.0
        for q in QUANTILES
    }


def _sum_over_processes(values: torch.Tensor) -> torch.Tensor:
    total: torch.Tensor = gather(values.unsqueeze(0)).sum(dim=0)
    return total
