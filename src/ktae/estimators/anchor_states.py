"""Anchor states: turns that a group took in the same state are compared with each other."""

from __future__ import annotations

import dataclasses

import numpy as np
from typing_extensions import override

from ktae.batch import Batch, differ
from ktae.estimators.base import AboveZero, GradedEstimator, Share, TurnEstimator, impute_by_key
from ktae.rollout_advantages import rollout_advantages
from ktae.turns import ODD, Turns, turn_hashes


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class AnchorStates(GradedEstimator, TurnEstimator):
    """Credit ω (R - mean) / (std + 1e-6) at all tokens of a turn; the moments are of its state's R.

    A turn's return is R = γ^k r, r its rollout's reward and k the turns that come after it. The
    turns that a group's rollouts took after the same observation are one set; the credit of a turn
    that is alone in its set is 0, and so is all credit of a group whose rewards do not differ.

    With `gamma=1` and `scale_by_std=False` the mean credit under permuted labels is exactly 0, and
    with the deviation where no rollout comes back to a state. γ < 1 favours turns near the end.

    Source: Feng, Xue, Liu and An 2025, "Group-in-Group Policy Optimization for LLM Agent Training"
    (GiGPO), arXiv:2505.10978, its step-level advantage; its authors' code
    (github.com/langfengQ/verl-agent, `gigpo/core_gigpo.py`); Trinity-RFT's `gigpo` advantage.
    """

    gamma: Share = 0.95
    """γ, what a reward is worth a turn earlier."""

    omega: AboveZero = 1.0
    """ω, the credit's weight beside the rollout advantage."""

    scale_by_std: bool = True
    """Divide by the standard deviation of the returns in a state; False: by nothing."""

    # Sources differ in γ, the deviation and what a state is. Here states are compared exactly and
    # within the group, the deviation has n - 1 and 1e-6, and groups of equal rewards get nothing.

    @override
    def turn_credit(self, batch: Batch, turns: Turns) -> np.ndarray:
        state_n = self.states(batch, turns)
        is_evidence_b = differ(*batch.score_bounds()) & batch.is_evidence()
        reward_n = np.where(is_evidence_b, batch.evidence, 0.0)[turns.row]
        # GRPO's advantage of turns, with the state for the group.
        credit_n: np.ndarray = self.omega * rollout_advantages(
            "grpo" if self.scale_by_std else "dr_grpo",
            self.gamma**turns.left * reward_n,
            is_evidence_b[turns.row],
            np.unique(state_n, return_inverse=True)[1],
        )
        if batch.look_up_unknown:  # the same turn in the same state
            done_n = state_n * ODD + turn_hashes(turns, batch.token_ids, batch.counted())
            credit_n = impute_by_key(credit_n, batch.known()[turns.row], done_n)
        return credit_n
