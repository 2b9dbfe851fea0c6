"""Anchor states: turns that a group took in the same state are compared with each other.

Source: Feng, Xue, Liu and An 2025, "Group-in-Group Policy Optimization for LLM Agent Training"
(GiGPO), arXiv:2505.10978, its step-level advantage; the code that its authors released
(github.com/langfengQ/verl-agent, `gigpo/core_gigpo.py` and the scripts beside it); and
Trinity-RFT's `gigpo` advantage. Nothing of either code was taken over.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from typing_extensions import override

from ktae.arrays import LARGEST, Array
from ktae.batch import Batch, ScoreRange, differ
from ktae.estimators.base import (
    Estimator,
    require_bool,
    require_normalise,
    require_number,
)
from ktae.rollout_advantages import EPSILON
from ktae.turns import Normalise, find_turns, state_hashes, turn_hashes


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class AnchorStates(Estimator):
    """Credit ω (R - mean) / (std + 1e-6) at all tokens of a turn; the moments are of its state's R.

    A turn's return is R = γ^k r, r its rollout's reward and k the turns that come after it. The
    turns that a group's rollouts took in the same state, after the same observation, are one set.
    The credit of a turn that is alone in its state is 0, and so is all credit of a group whose
    rewards do not differ. The trainer adds the rollout advantage (`ktae.turns` says what a turn
    is). A rollout of one turn has its GRPO advantage once more.

    With `gamma=1` and `scale_by_std=False` the mean credit under permuted labels is exactly 0. So
    it is with the deviation where no rollout comes back to a state. Below 1 γ favours the turns
    that are near to the end, whatever the labels.
    """

    gamma: float = 0.95
    """γ, what a reward is worth a turn earlier; from 0 to 1."""

    omega: float = 1.0
    """ω, the credit's weight beside the rollout advantage; above 0."""

    scale_by_std: bool = True
    """Divide by the standard deviation of the returns in a state; False: by nothing."""

    normalise: Normalise | None = None
    """A function of an observation's text: states are equal where what it gives is equal. None:
    where their token ids are."""

    graded_rewards: bool = False
    """Take correctness as a number and not as a verdict. Without it, anything but 0, 1 and NaN is
    an error."""

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "gamma", require_number("gamma", self.gamma, 0, 1))
        object.__setattr__(self, "omega", require_number("omega", self.omega, 1 / LARGEST))
        require_bool("scale_by_std", self.scale_by_std)
        require_bool("graded_rewards", self.graded_rewards)
        require_normalise(self.normalise)

    @property
    @override
    def score_range(self) -> ScoreRange:
        return (-LARGEST, LARGEST) if self.graded_rewards else None

    @property
    @override
    def needs_vocabulary(self) -> bool:
        return self.normalise is not None

    @property
    @override
    def on_host(self) -> bool:
        return True

    @property
    @override
    def one_value_a_token(self) -> bool:
        return False

    @override
    def credit(self, batch: Batch) -> Array:
        batch.check_token_ids()
        counted_bt, turns = batch.counted(), find_turns(batch.mask)
        group_n = batch.group_b[turns.row]
        states_n = state_hashes(turns, batch.token_ids, batch.vocabulary, self.normalise)
        state_n = _numbered(group_n, states_n)
        contrast_b = differ(*batch.score_bounds()) & counted_bt.any(axis=1)
        known_n = (contrast_b & batch.known())[turns.row]
        reward_n = np.where(known_n, batch.evidence[turns.row], 0.0)
        return_n = np.where(known_n, self.gamma**turns.left * reward_n, 0.0)
        credit_n = self.omega * _standardised(return_n, known_n, state_n, self.scale_by_std)
        if batch.look_up_unknown:
            # The mean of the known turns that are the same ones in the same state.
            hashes_n = turn_hashes(turns, batch.token_ids, counted_bt)
            done_n = _numbered(state_n, hashes_n)
            mean_n = np.bincount(done_n, credit_n)[done_n]
            mean_n /= np.bincount(done_n, known_n)[done_n].clip(1)
            credit_n = np.where(batch.known()[turns.row], credit_n, mean_n)
        credit_bt = np.zeros(batch.token_ids.shape, dtype=np.float32)
        credit_bt[batch.mask != 0] = turns.per_token(credit_n)
        credit_bt[~counted_bt] = 0
        return credit_bt


def _numbered(first_n: np.ndarray, second_n: np.ndarray) -> np.ndarray:
    """(N,) the number of each distinct pair, from 0."""
    pairs = np.rec.fromarrays([first_n, second_n])
    numbers: np.ndarray = np.unique(pairs, return_inverse=True)[1]
    return numbers


def _standardised(
    values_n: np.ndarray, known_n: np.ndarray, set_n: np.ndarray, scale_by_std: bool
) -> np.ndarray:
    """(N,) the values less the mean of their set's known ones, over the deviation; else 0."""
    count = np.bincount(set_n, known_n)
    mean = np.bincount(set_n, values_n) / count.clip(1)
    rest_n = np.where(known_n, values_n - mean[set_n], 0.0)
    if scale_by_std:
        rest_n /= (np.sqrt(np.bincount(set_n, rest_n**2) / (count - 1).clip(1)) + EPSILON)[set_n]
    return rest_n
