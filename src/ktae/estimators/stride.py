"""STRIDE: n-grams that tell correct from incorrect responses, where the policy was uncertain."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
from typing_extensions import override

from ktae import counting
from ktae.arrays import Array
from ktae.batch import Batch
from ktae.counting import Counts
from ktae.counting.units import NGRAMS
from ktae.estimators.base import AboveZero, Estimator
from ktae.estimators.policy import values_of_policy


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Stride(Estimator):
    """Credit ω · mean(d(g) s(g)) over the n-grams g that a token is part of.

    The preference d(g) is the share of the group's correct responses that contain g, less that of
    the incorrect ones: from -1 to 1. The saliency s(g) is the policy's mean entropy at the tokens
    of this occurrence, over its mean at all tokens of the group. So credit goes to what correct, or
    below 0 incorrect, responses have in common, where the policy was uncertain.

    The mean credit under permuted labels is exactly 0, since that of d is and entropies know no
    label.

    Source: Zhao et al. 2026, "STRIDE: Strategic Trajectory Reasoning via Discriminative Estimation
    for Verifiable Reinforcement Learning", arXiv:2606.15866. **Only its abstract was at hand: this
    is an estimator of that description, and not the paper's formulas.**
    """

    unit: Literal["token", "bigram", "trigram"] = "trigram"
    """The n-grams; at the beginning of a response they are shorter."""

    omega: AboveZero = 1.0
    """ω, the weight beside the response's advantage."""

    # The abstract leaves open n, the preference, the saliency and how values get to tokens. A
    # ratio for the preference would not have mean 0 under permuted labels.

    needs_policy = frozenset({"entropies"})
    on_host = True

    @override
    def credit(self, batch: Batch) -> Array:
        known_bt, entropy_n, row_n, place_n = values_of_policy(batch, "entropies")
        left_n, group_n = np.bincount(row_n)[row_n] - 1 - place_n, batch.group_b[row_n]
        total_n = np.bincount(group_n, entropy_n)[group_n]
        relative_n = entropy_n * np.bincount(group_n)[group_n] / np.where(total_n > 0, total_n, 1)

        def preference(counts: Counts) -> Array:
            correct, incorrect, n_correct, n_incorrect = counts.table
            difference = correct / n_correct.clip(1) - incorrect / n_incorrect.clip(1)
            return np.where(counts.comparable(), difference, 0.0)[counts.index]

        preference_bt = counting.credit(batch, preference, [self.unit])
        n = 1 + NGRAMS.index(self.unit)
        value_n = preference_bt[known_bt] * _mean_with_before(relative_n, place_n, n)
        credit_n = _mean_with_before(value_n[::-1], left_n[::-1], n)[::-1]
        credit_bt = np.zeros(known_bt.shape, dtype=np.float32)
        credit_bt[known_bt] = self.omega * credit_n
        return credit_bt


def _mean_with_before(value_n: np.ndarray, place_n: np.ndarray, n: int) -> np.ndarray:
    """(N,) the mean of each value and up to n - 1 values before it in the same response."""
    mean_n = np.zeros(len(value_n))
    for back in range(n):
        mean_n += np.where(place_n >= back, np.roll(value_n, back), 0.0)
    mean_n /= np.minimum(place_n + 1, n)
    return mean_n
