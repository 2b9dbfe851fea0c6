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
    turns that a group's rollouts took in the same state, after the same observation, are one set.
    The credit of a turn that is alone in its state is 0, and so is all credit of a group whose
    rewards do not differ. The trainer adds the rollout advantage (`ktae.turns` says what a turn
    is). A rollout of one turn has its GRPO advantage once more.

    With `gamma=1` and `scale_by_std=False` the mean credit under permuted labels is exactly 0. So
    it is with the deviation where no rollout comes back to a state. Below 1 γ favours the turns
    that are near to the end, whatever the labels.

    Source: Feng, Xue, Liu and An 2025, "Group-in-Group Policy Optimization for LLM Agent Training"
    (GiGPO), arXiv:2505.10978, its step-level advantage; its authors' code
    (github.com/langfengQ/verl-agent, `gigpo/core_gigpo.py` and the scripts beside it); and
    Trinity-RFT's `gigpo` advantage. Nothing of either code was taken over.
    """

    gamma: Share = 0.95
    """γ, what a reward is worth a turn earlier."""

    omega: AboveZero = 1.0
    """ω, the credit's weight beside the rollout advantage."""

    scale_by_std: bool = True
    """Divide by the standard deviation of the returns in a state; False: by nothing."""

    # Where the sources leave something open, or disagree:
    # - γ is 0.95 in the paper and its scripts, and 1 in Trinity by default.
    # - The paper divides by the deviation or by 1. The released function divides by nothing by
    #   default, its scripts choose either; Trinity divides by nothing by default. With 1 the
    #   paper's is the leave-one-out advantage, up to a factor.
    # - The deviation is the sample's (n - 1), plus 1e-6, in both codes. Trinity adds 1e-6 to the 1
    #   as well; here nothing is added to it.
    # - A state is the environment's observation, without what was before, and compared exactly;
    #   the later release may compare by similarity (difflib's ratio of at least 0.95). Trinity
    #   leaves the state to the user, as a hash. Here it is the observation's tokens, or what the
    #   user's `normalise` makes of their text.
    # - States are compared within the group of a prompt, as in the paper and the authors' code.
    #   Trinity compares over the whole batch, so that its hash has to tell tasks apart.
    # - A rollout that comes back to a state is in it once for each turn there, in both codes.
    # - Rewards of single turns are added up in both codes, and a penalty for invalid actions is
    #   among them in the authors'. Here the reward is the rollout's, and comes at its end.
    # - Where all rewards of a group are equal the codes still compare γ^k, and so tell short
    #   rollouts from long ones. Here, as with all estimators, such a group has no credit.
    # - The rollout advantage is the trainer's. By default the authors' code takes its mean and
    #   deviation over all turns, in which long rollouts weigh more.

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
