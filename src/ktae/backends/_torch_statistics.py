"""Fisher's test, information gain and effect size for many contingency tables at once, in tensors.

The same formulas as `ktae.statistics`, which explains them and names their sources.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from ktae.arrays import LARGEST
from ktae.statistics import Formula

LN_2 = math.log(2)

BYTES_PER_TABLE = 64
"""Extra memory for each table of the same margins that Fisher's test compares with."""


class GroupTotals(NamedTuple):
    """The margins of all of a group's contingency tables, (n_groups,) float64 each. With graded
    scores n_true is their sum, and a rollout of score r adds the share r of its tokens to the
    correct ones'."""

    n_true: torch.Tensor
    n_false: torch.Tensor
    length_true: torch.Tensor
    length_false: torch.Tensor
    variance: torch.Tensor
    """Of the scores, divided by n. Exactly 0 where all are equal."""


def group_totals(
    group: torch.Tensor, scores: torch.Tensor, tokens: torch.Tensor, n_groups: int | None = None
) -> GroupTotals:
    """The totals over the rollouts that have tokens.

    Args:
        group: (n,) int64, from 0.
        scores: (n,) float64.
        tokens: (n,) how many of each rollout's tokens count: 0 for those of unknown correctness.
        n_groups: how many; the host waits for the device to learn it if it is not given.
    """
    if n_groups is None:
        n_groups = int(group[-1]) + 1
    counts = (tokens > 0).double()

    def total(values: torch.Tensor) -> torch.Tensor:
        return values.new_zeros(n_groups).index_add_(0, group, values)

    n = total(counts)
    n_true = total(scores * counts)
    length_true = total(scores * tokens)
    # From a score of the group, so that equal scores leave no rounding.
    origin = scores.new_full((n_groups,), -torch.inf)
    origin.scatter_reduce_(0, group, torch.where(tokens > 0, scores, -torch.inf), "amax")
    shifted = (scores - origin.clamp(min=-LARGEST).gather(0, group)) * counts
    mean = total(shifted) / n.clamp(min=1)
    variance = total((shifted - mean.gather(0, group)) ** 2 * counts) / n.clamp(min=1)
    return GroupTotals(
        n_true, n - n_true, length_true, total(tokens.double()) - length_true, variance
    )


def strength_and_effect(
    a: torch.Tensor,
    b: torch.Tensor,
    n_true: torch.Tensor,
    n_false: torch.Tensor,
    formula: Formula,
    *,
    memory_bytes: int,
) -> torch.Tensor:
    """(n, 2) float64 strength and effect size of n tables; 0 where one class is empty.

    `a`, `b`, `n_true`, `n_false` are (n,) counts, or fractions with graded scores. The tables are
    taken in chunks that keep the extra memory under `memory_bytes`.
    """
    a, b, n_true, n_false = (x.double() for x in (a, b, n_true, n_false))
    out = torch.zeros(len(a), 2, dtype=torch.float64, device=a.device)
    if len(a) == 0:
        return out
    support = int(torch.minimum(torch.minimum(n_true, n_false), a + b).max()) + 2
    at_once = max(1, memory_bytes // (BYTES_PER_TABLE * support))
    for start in range(0, len(a), at_once):
        stop = start + at_once
        a_, b_, n_true_, n_false_ = (x[start:stop] for x in (a, b, n_true, n_false))
        chunk = (a_, b_, n_true_, n_false_)
        p = fisher_p_value(*chunk, support=support, point=formula.point)
        fisher = torch.where(p == 1, 0.0, torch.exp(-2 * p))
        strength = formula.h1 * fisher + formula.h2 * information_gain(*chunk)
        strength *= formula.value_scale
        both = torch.stack((strength, effect_size(*chunk)), dim=1)
        mixed = (n_true_ > 0) & (n_false_ > 0)
        out[start:stop] = torch.where(mixed.unsqueeze(1), both, 0.0)
    return out


def fisher_p_value(
    a: torch.Tensor,
    b: torch.Tensor,
    n_true: torch.Tensor,
    n_false: torch.Tensor,
    *,
    support: int,
    point: bool,
) -> torch.Tensor:
    """(n,) float64, of the tables [[a, b], [n_true - a, n_false - b]].

    `support` is at least the number of tables that any of these margins allow. Weights relative to
    the table's own differ from exact ties by far less than the slack of 1e-7; where every table
    counts the result is exactly 1.
    """
    k = a + b
    low, high = (k - n_false).clamp(min=0), torch.minimum(k, n_true)
    first = a - torch.floor(a - low + 1e-9)  # sums of fractions may miss a table by their rounding

    def log_weight(x: torch.Tensor, k: Any, n_true: Any, n_false: Any) -> torch.Tensor:
        cells = (x, n_true - x, k - x, n_false - k + x)
        return -sum(torch.lgamma(cell.clamp(min=0) + 1) for cell in cells)

    margins = (k, n_true, n_false)
    x = first.unsqueeze(1) + torch.arange(support, device=a.device)
    exists = x <= high.unsqueeze(1) + 1e-9
    x = torch.minimum(x, high.unsqueeze(1))
    own = log_weight(a, *margins).unsqueeze(1)
    weight = torch.exp(log_weight(x, *(v.unsqueeze(1) for v in margins)) - own)
    weight = torch.where(exists, weight, 0.0)
    total = weight.sum(1)
    if point:
        return 1 / total
    as_extreme = weight <= 1 + 1e-7
    p = torch.where(as_extreme, weight, 0.0).sum(1) / total
    return torch.where(as_extreme.all(1), 1.0, p)


def information_gain(
    a: torch.Tensor, b: torch.Tensor, n_true: torch.Tensor, n_false: torch.Tensor
) -> torch.Tensor:
    """(n,) float64 bits, never negative."""

    def n_times_entropy(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x, y = x.clamp(min=0), y.clamp(min=0)  # sums of fractions may round to below
        return (torch.xlogy(x + y, x + y) - torch.xlogy(x, x) - torch.xlogy(y, y)) / LN_2

    c, d = n_true - a, n_false - b
    gain = n_times_entropy(n_true, n_false) - n_times_entropy(a, b) - n_times_entropy(c, d)
    n = n_true + n_false
    gain = torch.where(a + b == n, 0.0, gain)  # every rollout has the token: exactly 0
    return gain.clamp(min=0) / n.clamp(min=1)


def effect_size(
    a: torch.Tensor, b: torch.Tensor, n_true: torch.Tensor, n_false: torch.Tensor
) -> torch.Tensor:
    """(n,) float64: asin √(a / n_true) - asin √(b / n_false)."""
    share_true, share_false = (
        torch.where(n > 0, x / n, 0.0).clamp(0, 1) for x, n in ((a, n_true), (b, n_false))
    )
    return torch.asin(torch.sqrt(share_true)) - torch.asin(torch.sqrt(share_false))


def presence_z(
    score_sum: torch.Tensor,
    m: torch.Tensor,
    n: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
) -> torch.Tensor:
    """(n,) float64; 0 where every rollout has the token or all scores are equal."""
    spread = m * (n - m) / (n - 1).clamp(min=1) * variance
    z = (score_sum - m * mean) / torch.where(spread > 0, spread, 1.0).sqrt()
    return torch.where(spread > 0, z, 0.0)


def sharpened(
    z: torch.Tensor,
    m: torch.Tensor,
    n: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
) -> torch.Tensor:
    """(n,) float64; 0 where every rollout has the token or all verdicts are equal."""
    tells = (m < n) & (variance > 0)
    skewness = (1 - 2 * mean) / torch.where(tells, variance, 1.0).sqrt()
    spread = torch.where(tells, m * (n - m), 1.0).sqrt() * (n - 2).clamp(min=1)
    others = (n - 1).clamp(min=1)
    expected = torch.where(n > 2, skewness * (n - 2 * m) * others.sqrt() / spread, 0.0)
    return torch.where(tells, (z**3 - expected) / others, 0.0)
