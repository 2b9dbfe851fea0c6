"""What the estimator did in a training step, as numbers beside TRL's own."""

from __future__ import annotations

from typing import NamedTuple

import torch
from accelerate.utils import gather

from ktae.config import KTAEConfig
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
    correct: torch.Tensor
    """(m,) 1, 0, or NaN for unknown."""
    groups: torch.Tensor
    """(m,)"""
    own: slice
    """Which of the m rollouts are this process's."""
    terms: torch.Tensor
    """(m, T) key-token terms."""


def step_metrics(
    batch: Estimated, rollout_advantages: torch.Tensor, config: KTAEConfig
) -> dict[str, float]:
    """Metrics over all processes' rollouts; every process has to call it.

    `rollout_advantages` is (n,), of this process's rollouts. Tokens are those the policy wrote.
    """
    terms, mask = batch.terms[batch.own], batch.mask[batch.own].bool()
    correct = batch.correct[batch.own].to(terms.device)
    advantages = rollout_advantages.unsqueeze(1)
    flipped = (advantages * (advantages + terms) < 0) & mask
    known = ~correct.isnan()
    pairs, significant = _significant(batch, config)
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
    return metrics | _quantiles(terms.abs()[mask], config.term_scale / 2)


def _significant(batch: Estimated, config: KTAEConfig) -> tuple[int, int]:
    """How many (group, token) pairs were tested, and how many have p < 0.05."""
    tested = batch.groups < batch.groups.min() + GROUPS_TESTED
    arrays = (batch.token_ids, batch.mask, batch.correct, batch.groups)
    ids, mask, correct, groups = (x[tested.to(x.device)].cpu() for x in arrays)
    table = key_token_table(ids, mask, correct, groups, config)
    return len(table.p_value), int((table.p_value < 0.05).sum())


def _skipped(batch: Estimated) -> list[torch.Tensor]:
    """This process's rollouts in groups that are all correct, all incorrect, or not known to be
    either, whose terms are 0; and all of its rollouts."""
    group = batch.groups.to(batch.correct.device)
    n_true, n_false = (
        torch.zeros(int(group.max()) + 1, device=group.device).index_add_(0, group, flag.float())
        for flag in (batch.correct == 1, batch.correct == 0)
    )
    n_true, n_false = n_true[group[batch.own]], n_false[group[batch.own]]
    return [
        ((n_true > 0) & (n_false == 0)).sum(),
        ((n_true == 0) & (n_false > 0)).sum(),
        ((n_true == 0) & (n_false == 0)).sum(),
        torch.tensor(len(n_true)),
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
