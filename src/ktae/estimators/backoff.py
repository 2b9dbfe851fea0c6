"""Backoff: a token's credit is the evidence of all units of one to three tokens around it."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from typing_extensions import override

from ktae.arrays import MAX_TOKEN_ID, Array
from ktae.backends.units import finished, mixed
from ktae.batch import Batch
from ktae.estimators.base import AboveZero, Estimator

ORDERS = (1, 2, 3)
"""Tokens of a unit."""

N_MARKS = max(ORDERS) - 1
START, END = MAX_TOKEN_ID + 1, MAX_TOKEN_ID + 2
"""Marks before a response's first token and after its last one."""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Backoff(Estimator):
    """Credit 0.3 Σ e(u) over the tokens, bigrams and trigrams u that the token is part of.

    The evidence of a unit of k tokens is e = z · d · (d / D)^(k - 1), less the mean of that over
    all permutations of the outcomes. z is the permutation z-score of the unit's presence
    (`PresenceZ`), d = -log₁₀ p the digits of Fisher's one-sided p-value in its direction, and D
    the digits that a unit of all correct and no incorrect responses would have. So a longer unit
    needs stronger evidence, since there are more of them; where it has none, it adds next to
    nothing and the credit falls back to shorter ones. The evidence of a bigram goes to both of its
    tokens and that of a trigram to all three, since the token that decided may be the first. Before
    a response's first token and after its last one there are marks, which are part of units.

    The mean credit under permuted labels is exactly 0: each unit's is. It takes outcomes alone, no
    graded rewards.

    Source: ours; chosen on the worlds of `ktae.bench`. The name is that of n-gram models that fall
    back to shorter contexts (Katz 1987); here all contexts are added up.
    """

    scale: AboveZero = 0.3
    """The credit's weight beside the rollout advantage."""

    on_host = True

    @override
    def credit(self, batch: Batch) -> Array:
        batch.check_token_ids()
        counted_bt = batch.counted()
        length_b = counted_bt.sum(axis=1)
        # Each response's tokens in a row, with marks on both sides: what follows looks past ends.
        row = np.repeat(np.arange(len(length_b)), np.where(length_b, length_b + 2 * N_MARKS, 0))
        ends = np.cumsum(np.bincount(row, minlength=len(length_b)))
        place = np.arange(len(row)) - (ends - length_b - 2 * N_MARKS)[row]
        is_token = (place >= N_MARKS) & (place < N_MARKS + length_b[row])
        tokens = np.where(place < N_MARKS, START, END)
        tokens[is_token] = batch.token_ids[counted_bt]
        credit = np.zeros(len(row))
        state = np.zeros(len(row), dtype=np.uint64)
        for order in ORDERS:
            state = mixed(state, np.roll(tokens, order - 1).astype(np.uint64))
            # A unit counts where it begins and ends in the same response.
            evidence = _evidence(batch, row, finished(state), place >= order - 1, order)
            for ahead in range(order):
                credit += np.roll(evidence, -ahead)
        gets_credit = batch.known() | batch.look_up_unknown
        credit_bt = np.zeros(counted_bt.shape, dtype=np.float32)
        credit_bt[counted_bt] = self.scale * credit[is_token]
        credit_bt[~gets_credit] = 0.0
        return credit_bt


def _evidence(
    batch: Batch, row: np.ndarray, key: np.ndarray, is_unit: np.ndarray, order: int
) -> np.ndarray:
    """(N,) the evidence of the units with these keys, each in its row's group."""
    n_rows = len(batch.group_b)
    group = batch.group_b[row]
    unit = np.unique(
        key.astype(np.int64) * (group.max(initial=0) + 1) + group, return_inverse=True
    )[1]
    n_units = unit.max(initial=-1) + 1
    is_evidence_b = batch.known() & (np.bincount(row, minlength=n_rows) > 0)
    correct_b = np.where(is_evidence_b, batch.evidence, 0.0)
    n_b, n_true_b = np.bincount(batch.group_b, is_evidence_b), np.bincount(batch.group_b, correct_b)
    pairs = np.unique(unit[is_unit] * n_rows + row[is_unit])
    of_unit, of_row = pairs // n_rows, pairs % n_rows
    m = np.bincount(of_unit, is_evidence_b[of_row], n_units).astype(int)
    a = np.bincount(of_unit, correct_b[of_row], n_units).astype(int)
    group_u = np.zeros(n_units, dtype=int)
    group_u[unit] = group
    margins = np.stack([n_true_b[group_u].astype(int), n_b[group_u].astype(int), m], axis=1)
    distinct, which = np.unique(margins, axis=0, return_inverse=True)
    value = np.zeros(n_units)
    by_margins = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which))
    for (n_true, n, m_i), units in zip(
        distinct.tolist(), np.split(by_margins, ends[:-1]), strict=True
    ):
        value[units] = unit_evidence(n_true, n, m_i, order)[a[units]]
    return np.where(is_unit, value[unit], 0.0)


@functools.lru_cache(maxsize=1 << 16)
def unit_evidence(n_true: int, n: int, m: int, order: int) -> np.ndarray:
    """(n_true + 1,) float64, the evidence of a unit that `a` correct responses contain, for each a.

    It is 0 where a is impossible, and throughout where m or n_true is 0 or n.

    Args:
        n_true: correct responses of the group.
        n: responses of the group.
        m: responses that contain the unit.
        order: tokens of the unit.
    """
    values = np.zeros(n_true + 1)
    if not (0 < n_true < n and 0 < m < n):
        return values
    a = np.arange(max(0, m - (n - n_true)), min(m, n_true) + 1)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])

    def log_choose(n: int, k: np.ndarray | int) -> np.ndarray:
        return np.asarray(log_factorial[n] - log_factorial[k] - log_factorial[n - k])

    log_p = log_choose(n_true, a) + log_choose(n - n_true, m - a) - log_choose(n, m)
    probability = np.exp(log_p)
    mean = n_true / n
    z = (a - m * mean) / np.sqrt(m * (n - m) / (n - 1) * mean * (1 - mean))
    at_most, at_least = probability.cumsum(), probability[::-1].cumsum()[::-1]
    digits = -np.log10(np.where(z > 0, at_least, at_most).clip(max=1.0))
    most = float(log_choose(n, n_true)) / math.log(10)
    evidence = z * digits * (digits / most) ** (order - 1)
    values[a] = evidence - probability @ evidence
    values.flags.writeable = False
    return values
