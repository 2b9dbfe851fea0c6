"""STRIDE: n-grams that tell correct from incorrect responses, where the policy was uncertain."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import numpy as np
from typing_extensions import override

from ktae.arrays import Array
from ktae.batch import Batch, group_total
from ktae.counting.units import mixed
from ktae.estimators.base import AboveZero, Between, Estimator
from ktae.estimators.policy import values_of_policy
from ktae.rollout_advantages import rollout_advantages


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Stride(Estimator):
    """Credit ω · mean(d(g) s(g)) over the n-grams g that a token is part of.

    The preference d(g) is the share of the group's correct responses that contain g, less that of
    the incorrect ones: from -1 to 1. The saliency s(g) is the policy's mean entropy at the tokens
    of this occurrence, over its mean at all tokens of the group. So credit goes to what correct, or
    below 0 incorrect, responses have in common, where the policy was uncertain.

    The mean credit under permuted labels is exactly 0, since that of d is and entropies know no
    label. A group whose labels do not differ, or that has no entropy, has credit 0.

    Source: Zhao et al. 2026, "STRIDE: Strategic Trajectory Reasoning via Discriminative Estimation
    for Verifiable Reinforcement Learning", arXiv:2606.15866. **Only its abstract was at hand: this
    is an estimator of that description, and not the paper's formulas.**
    """

    n: Annotated[int, Between(1, 100)] = 3
    """Tokens of an n-gram; fewer at the beginning of a response."""

    omega: AboveZero = 1.0
    """ω, the weight beside the response's advantage."""

    # The abstract speaks of "the outcome-discriminative preference of each n-gram strategic
    # pattern", combined "with reasoning saliency entropy to identify decision-relevant strategic
    # patterns", which "are assigned differentiated advantage values". It leaves open, and here is
    # chosen:
    # - n, and the preference: of a ratio of shares the mean under permuted labels is not 0.
    # - The saliency: the next token's entropy over the group's mean, as a weight without threshold.
    # - How values get to tokens: each has the mean of its n-grams, added to the advantage.

    needs_policy = frozenset({"entropies"})
    on_host = True

    @override
    def credit(self, batch: Batch) -> Array:
        known_bt, entropy_n = values_of_policy(batch, "entropies")
        row_n, length_b = np.nonzero(known_bt)[0], known_bt.sum(axis=1)
        place_n = np.arange(len(row_n)) - (np.cumsum(length_b) - length_b)[row_n]
        left_n, group_n = length_b[row_n] - 1 - place_n, batch.group_b[row_n]
        ids_n, key_n = batch.token_ids[known_bt].astype(np.int64), mixed(0 * group_n, group_n)
        for back in range(self.n):
            key_n = mixed(key_n, np.where(place_n >= back, np.roll(ids_n, back), -1))
        total_n = np.bincount(group_n, entropy_n)[group_n]
        relative_n = entropy_n * np.bincount(group_n)[group_n] / np.where(total_n > 0, total_n, 1)
        value_n = _preference(key_n, row_n, batch) * _mean_with_before(relative_n, place_n, self.n)
        credit_n = _mean_with_before(value_n[::-1], left_n[::-1], self.n)[::-1]
        credit_bt = np.zeros(known_bt.shape, dtype=np.float32)
        credit_bt[known_bt] = self.omega * credit_n
        return credit_bt


def _preference(key_n: np.ndarray, row_n: np.ndarray, batch: Batch) -> np.ndarray:
    """(N,) d of the n-grams with these keys; 0 where the labels of a group do not differ."""
    n_rows, part_b = len(batch.evidence), batch.is_evidence()
    number_n = np.unique(key_n, return_inverse=True)[1]
    pair_p = np.unique(number_n * n_rows + row_n)  # each response once
    label_b = np.where(part_b, batch.evidence, 0.0)
    contrast_b = rollout_advantages("dr_grpo", label_b, part_b, batch.group_b)
    spread_b = group_total(contrast_b**2, batch.group_b)
    # One over the number of correct responses, and minus one over that of incorrect ones.
    weight_b = contrast_b / np.where(spread_b > 0, spread_b, 1)
    return np.bincount(pair_p // n_rows, weight_b[pair_p % n_rows])[number_n]


def _mean_with_before(value_n: np.ndarray, place_n: np.ndarray, n: int) -> np.ndarray:
    """(N,) the mean of each value and up to n - 1 values before it in the same response."""
    mean_n = np.zeros(len(value_n))
    for back in range(n):
        mean_n += np.where(place_n >= back, np.roll(value_n, back), 0.0)
    mean_n /= np.minimum(place_n + 1, n)
    return mean_n
