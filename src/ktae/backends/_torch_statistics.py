"""Fisher's test, information gain and effect size for many contingency tables at once, in tensors.

The same formulas as `ktae.statistics`, which explains them and names their sources.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

LN_2 = math.log(2)

BYTES_PER_TABLE = 64
"""Extra memory for each table of the same margins that Fisher's test compares with."""


class PairSettings(NamedTuple):
    """The part of `KTAEConfig` that the strength of association depends on."""

    h1: float
    h2: float
    point: bool
    normalize: bool


def judge_pairs(
    a: torch.Tensor,
    b: torch.Tensor,
    n_true: torch.Tensor,
    n_false: torch.Tensor,
    settings: PairSettings,
    *,
    memory_bytes: int,
) -> torch.Tensor:
    """(n, 2) float64 strength and effect size of n tables; 0 where one class is empty.

    `a`, `b`, `n_true`, `n_false` are (n,) int64. The tables are taken in chunks that keep the
    extra memory under `memory_bytes`.
    """
    out = torch.zeros(len(a), 2, dtype=torch.float64, device=a.device)
    if len(a) == 0:
        return out
    log_factorial = _log_factorials(int((n_true + n_false).max()), a.device)
    support = int(torch.minimum(torch.minimum(n_true, n_false), a + b).max()) + 1
    at_once = max(1, memory_bytes // (BYTES_PER_TABLE * support))
    for start in range(0, len(a), at_once):
        stop = start + at_once
        a_, b_, n_true_, n_false_ = (x[start:stop] for x in (a, b, n_true, n_false))
        chunk = (a_, b_, n_true_, n_false_)
        p = fisher_p_value(
            *chunk, support=support, log_factorial=log_factorial, point=settings.point
        )
        fisher = torch.where(p == 1, 0.0, torch.exp(-2 * p))
        strength = settings.h1 * fisher + settings.h2 * information_gain(*chunk)
        if settings.normalize:
            strength = strength / (settings.h1 + settings.h2)
        both = torch.stack((strength, effect_size(*chunk)), dim=1)
        mixed = (n_true_ > 0) & (n_false_ > 0)
        out[start:stop] = torch.where(mixed.unsqueeze(1), both, 0.0)
    return out


def _log_factorials(n: int, device: torch.device) -> torch.Tensor:
    return torch.lgamma(torch.arange(1, n + 2, dtype=torch.float64, device=device))


def fisher_p_value(
    a: torch.Tensor,
    b: torch.Tensor,
    n_true: torch.Tensor,
    n_false: torch.Tensor,
    *,
    support: int,
    log_factorial: torch.Tensor,
    point: bool,
) -> torch.Tensor:
    """(n,) float64, of the tables [[a, b], [n_true - a, n_false - b]].

    `support` is at least the number of tables that any of these margins allow, and
    `log_factorial[i]` is log(i!). Weights relative to the table's own differ from exact ties by
    far less than the slack of 1e-7; where every table counts the result is exactly 1.
    """
    k = a + b
    low, high = (k - n_false).clamp(min=0), torch.minimum(k, n_true)

    def log_weight(x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        k_, n_true_, n_false_ = (v.view(shape) for v in (k, n_true, n_false))
        cells = (x, n_true_ - x, k_ - x, n_false_ - k_ + x)
        return -sum(log_factorial[cell] for cell in cells)

    x = low.unsqueeze(1) + torch.arange(support, device=a.device)
    exists = x <= high.unsqueeze(1)
    x = torch.minimum(x, high.unsqueeze(1))
    weight = torch.exp(log_weight(x, (-1, 1)) - log_weight(a, (-1,)).unsqueeze(1))
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
        x, y = x.double(), y.double()
        return (torch.xlogy(x + y, x + y) - torch.xlogy(x, x) - torch.xlogy(y, y)) / LN_2

    c, d = n_true - a, n_false - b
    gain = n_times_entropy(n_true, n_false) - n_times_entropy(a, b) - n_times_entropy(c, d)
    gain = torch.where(c + d == 0, 0.0, gain)  # every rollout has the token: exactly 0
    return gain.clamp(min=0) / (n_true + n_false).clamp(min=1)


def effect_size(
    a: torch.Tensor, b: torch.Tensor, n_true: torch.Tensor, n_false: torch.Tensor
) -> torch.Tensor:
    """(n,) float64: asin √(a / n_true) - asin √(b / n_false)."""
    share_true = a.double() / n_true.clamp(min=1)
    share_false = b.double() / n_false.clamp(min=1)
    return torch.asin(torch.sqrt(share_true)) - torch.asin(torch.sqrt(share_false))
