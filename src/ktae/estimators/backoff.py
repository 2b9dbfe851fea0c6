"""Backoff: a token's credit is the evidence of all units of one to three tokens around it."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from typing_extensions import override

from ktae import counting
from ktae.arrays import Array, is_tensor, namespace
from ktae.batch import Batch
from ktae.counting import Counts
from ktae.counting.units import NGRAMS
from ktae.estimators.base import AboveZero, Estimator


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Backoff(Estimator):
    """Credit 0.3 Σ e(u) over the tokens, bigrams and trigrams u that the token is part of.

    The evidence of a unit of k tokens is e = z · d · (d / D)^(k - 1), less its mean over all
    permutations of the outcomes. z is the permutation z-score of the unit's presence
    (`PresenceZ`), d = -log₁₀ p the digits of Fisher's one-sided p-value in its direction, and D
    the digits that a unit of all correct and no incorrect responses would have. So a longer unit
    needs stronger evidence, since there are more of them; without it the credit falls back to
    shorter ones. The evidence goes to all tokens of a unit. Before a response's first token there
    are marks, which are part of its first units.

    The mean credit under permuted labels is exactly 0. It takes outcomes alone, no graded rewards.

    Source: ours; chosen on the worlds of `ktae.bench`. The name is that of n-gram models that fall
    back to shorter contexts (Katz 1987); here all contexts are added up.
    """

    scale: AboveZero = 0.3
    """The credit's weight beside the rollout advantage."""

    @override
    def credit(self, batch: Batch) -> Array:
        return counting.credit(batch, self._of_tokens, NGRAMS)

    def _of_tokens(self, *counts: Counts) -> Array:
        """(N,) the credit of each token, by the counts of tokens, bigrams and trigrams."""
        credit, longer, trigram = (
            (self.scale * _evidence(of_unit, order))[of_unit.index]
            for order, of_unit in enumerate(counts, 1)
        )
        longer += trigram
        credit += longer
        # A unit is counted at its last token; its credit goes to those before in the response, too.
        lengths = counts[0].lengths
        first = (lengths.cumsum(0) - lengths)[lengths > 0]
        trigram[first] = 0.0
        longer[:-1] += trigram[1:]
        longer[first] = 0.0
        credit[:-1] += longer[1:]
        return credit


def _evidence(counts: Counts, order: int) -> Array:
    """(K,) float32 evidence of each unit of `order` tokens."""
    xp = namespace(counts.index)
    a, b, n_correct, n_incorrect = (xp.asarray(x, dtype=xp.int64) for x in counts.table)
    evidence = xp.zeros_like(counts.responses, dtype=xp.float32)
    # Groups of the same size and accuracy share a table.
    base = int(n_incorrect.max()) + 1
    code = n_correct * base + n_incorrect
    for number in xp.unique(code).tolist():
        rows = code == number
        table = evidence_table(number // base, number % base, order)
        if is_tensor(evidence):
            table = xp.as_tensor(table, device=evidence.device)
        evidence[rows] = table[a[rows], b[rows]]
    return evidence


@functools.lru_cache(maxsize=1 << 12)
def evidence_table(n_correct: int, n_incorrect: int, order: int) -> np.ndarray:
    """(n_correct + 1, n_incorrect + 1) float32: evidence of a unit in (a, b) of the responses.

    It is 0 of a unit in no or in all responses, and where these are of one class.
    """
    n, table = n_correct + n_incorrect, np.zeros((n_correct + 1, n_incorrect + 1), dtype=np.float32)
    if not n_correct or not n_incorrect:
        return table
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])

    def log_choose(n: int, k: np.ndarray | int) -> np.ndarray:
        return np.asarray(log_factorial[n] - log_factorial[k] - log_factorial[n - k])

    mean, most = n_correct / n, float(log_choose(n, n_correct)) / math.log(10)
    for m in range(1, n):
        a = np.arange(max(0, m - n_incorrect), min(m, n_correct) + 1)
        log_p = log_choose(n_correct, a) + log_choose(n_incorrect, m - a) - log_choose(n, m)
        probability = np.exp(log_p)
        z = (a - m * mean) / np.sqrt(m * (n - m) / (n - 1) * mean * (1 - mean))
        at_most, at_least = probability.cumsum(), probability[::-1].cumsum()[::-1]
        digits = -np.log10(np.where(z > 0, at_least, at_most).clip(max=1.0))
        evidence = z * digits * (digits / most) ** (order - 1)
        table[a, m - a] = evidence - probability @ evidence
    return table
