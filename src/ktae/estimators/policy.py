"""Weights by what the policy itself said of a token: its probability, or its entropy there.

They need what TRL and verl have and no dump holds: `token_credit(..., policy={"log_probs": ...})`.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from typing_extensions import override

from ktae.arrays import Array
from ktae.batch import Batch
from ktae.errors import InputError
from ktae.estimators.base import AdvantageEstimator, FromZero, GradedEstimator, Share
from ktae.rollout_advantages import rollout_advantages

SMALL = 1e-8
"""Added to entropies, as the paper's remark 2.1 has it, so that none is 0."""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class AdvantageReweighting(GradedEstimator, AdvantageEstimator):
    """Credit -α (1 - π) A: a token of probability π has (1 - α + α π) A, A its rollout's advantage.

    Improbable tokens have large gradients and dominate the update; this makes theirs smaller. It
    looks at no verdict of a token, and its mean under permuted labels is exactly 0.

    Source: Yang et al. 2025, "Do Not Let Low-Probability Tokens Over-Dominate in RL for LLMs",
    arXiv:2505.12929, and its code (github.com/zhyang2226/AR-Lopti, `both_linear`).
    """

    alpha: Share = 0.2
    """α, from 0 (nothing) to 1 (the advantage times π)."""

    needs_policy = frozenset({"log_probs"})

    @override
    def credit(self, batch: Batch) -> Array:
        known_bt, log_probs_n, row_n, _ = values_of_policy(batch, "log_probs")
        credit_bt = np.zeros(known_bt.shape, dtype=np.float32)
        credit_bt[known_bt] = self.alpha * (np.exp(log_probs_n) - 1) * self.advantages(batch)[row_n]
        return credit_bt


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class EntropyWeights(AdvantageEstimator):
    """Credit Ã - A: the advantage Ã of rewards weighted by entropy, less the rollout's own A.

    At place t, d of the group's correct rollouts are that long, and h of the incorrect ones. A
    token of a correct rollout has the reward 1 + α₂ d H / Σ H over these d; one of an incorrect
    rollout has -1 - α₂ h (1/H) / Σ (1/H) over those h. So uncertain tokens of correct rollouts
    gain, and certain tokens of incorrect ones lose.

    Source: Tan et al. 2025, "GTPO and GRPO-S: Token and Sequence-Level Reward Shaping with Policy
    Entropy", arXiv:2508.04349, its GTPO; the abstract and two replications' notes were at hand.
    """

    alpha2: FromZero = 0.1
    """α₂, the weight of the entropy beside the verdict's 1."""

    # The paper's versions differ in what rewards are normalised over. Here it is the whole group,
    # so that α₂ = 0 gives GRPO's sign; entropies are not clipped.

    needs_policy = frozenset({"entropies"})

    @override
    def credit(self, batch: Batch) -> Array:
        known_bt, entropy_n, row_n, place_n = values_of_policy(batch, "entropies")
        group_n, is_correct_n = batch.group_b[row_n], batch.evidence[row_n] == 1
        sign_n = np.where(is_correct_n, 1.0, -1.0)
        share_n = (entropy_n + SMALL) ** sign_n
        # A cell is a place of one class of a group: d or h tokens.
        cell_n = (2 * group_n + is_correct_n) * batch.mask.shape[1] + place_n
        relative_n = np.bincount(cell_n)[cell_n] * share_n / np.bincount(cell_n, share_n)[cell_n]
        reward_n = sign_n * (1 + self.alpha2 * relative_n)
        base = "grpo" if self.scale_by_std else "dr_grpo"
        shaped_n = rollout_advantages(base, reward_n, np.ones(len(row_n)), group_n)
        advantage_n = self.advantages(batch)[row_n]
        credit_bt = np.zeros(known_bt.shape, dtype=np.float32)
        credit_bt[known_bt] = np.where(advantage_n == 0, 0, shaped_n - advantage_n)
        return credit_bt


def values_of_policy(batch: Batch, name: str) -> tuple[np.ndarray, ...]:
    """(B, T) which tokens get credit, and (N,) their log-probabilities or entropies, rows, and
    places among their row's, from 0."""
    if batch.look_up_unknown:
        raise InputError("weights by the policy tell nothing of held-out rollouts' verdicts")
    batch.check_token_ids()
    known_bt = batch.counted() & batch.known()[:, None]
    values_bt, sign = getattr(batch, name), -1.0 if name == "log_probs" else 1.0
    values_n = sign * values_bt[known_bt].astype(np.float64)
    # Rounding leaves probabilities a little above 1; the logarithm of 0 is -inf.
    bad = np.flatnonzero(~(values_n > -1e-3) | ((values_n == np.inf) & (name == "entropies")))
    if len(bad):
        row, column = np.argwhere(known_bt)[bad[0]]
        expected = "a log-probability, up to 0" if sign < 0 else "a finite entropy, from 0"
        value = values_bt[row, column]
        raise InputError(f"{name}[{row}, {column}] is {value}; expected {expected}")
    row_n, length_b = np.nonzero(known_bt)[0], known_bt.sum(axis=1)
    place_n = np.arange(len(row_n)) - (np.cumsum(length_b) - length_b)[row_n]
    return known_bt, sign * values_n.clip(0), row_n, place_n
