"""Credit by turn where single turns are rewarded: MT-GRPO, and an unbiased form of it."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np
from typing_extensions import override

from ktae.arrays import ArrayLike, on_host
from ktae.batch import Batch, finite_per_rollout
from ktae.errors import InputError
from ktae.estimators.base import AboveZero, Share, TurnEstimator
from ktae.rollout_advantages import rollout_advantages
from ktae.turns import Turns, find_turns


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class TurnRewards(TurnEstimator):
    """Credit ω (G - mean G) at all tokens of a turn, G = Σ_{l≥k} γ^(l-k) r_l its return.

    r_l are the rewards of the response's turns (`turn_rewards=`). The mean is over the n turns of
    the same number in the group, or over those taken in the same state (`unit`). The baseline does
    not depend on when the policy decides to stop: a turn's expected gradient is the true one times
    (n - 1) / n, since its own return is in the mean. A turn that is compared with no other gets 0,
    and so do responses of unknown correctness, which take no part.

    The credit is added to the advantage of the outcome: keep the turn rewards out of that reward.

    Source: the bias and its remedy are described in verl's issue 7244 ("a turn-level baseline that
    stays unbiased under variable turn counts"); derived anew in `tests/estimators`.
    """

    unit: Literal["turn", "state"] = "turn"
    """Which turns are compared: those of the same number, or those taken in the same state."""

    gamma: Share = 1.0
    """γ, what a reward is worth a turn earlier."""

    omega: AboveZero = 1.0
    """ω, the weight beside the advantage of the outcome."""

    scale_by_std: bool = False
    """Divide by the standard deviation (n - 1) of what is compared, plus 1e-6."""

    needs_turn_rewards = True
    each_reward = False  # whether single rewards are compared instead of returns

    @override
    def turn_credit(self, batch: Batch, turns: Turns) -> np.ndarray:
        assert batch.turn_rewards is not None
        compared_n = self.states(batch, turns)
        if self.unit == "turn":
            compared_n = turns.number + batch.group_b[turns.row] * (turns.number.max(initial=0) + 1)
        part_n = batch.is_evidence()[turns.row]
        set_n = np.unique(compared_n, return_inverse=True)[1]
        base = "grpo" if self.scale_by_std else "dr_grpo"

        def compared(value_n: np.ndarray) -> np.ndarray:
            value_n = np.where(part_n, value_n, 0.0)
            return np.asarray(rollout_advantages(base, value_n, part_n, set_n))

        def returns(value_n: np.ndarray) -> np.ndarray:
            return_bk = np.zeros_like(batch.turn_rewards)
            return_bk[turns.row, turns.number] = value_n
            for k in range(return_bk.shape[1] - 2, -1, -1):
                return_bk[:, k] += self.gamma * return_bk[:, k + 1]
            return np.asarray(return_bk[turns.row, turns.number])

        reward_n = batch.turn_rewards[turns.row, turns.number]
        value_n = returns(compared(reward_n)) if self.each_reward else compared(returns(reward_n))
        return np.where(part_n, self.omega * value_n, 0.0)


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class MTGRPO(TurnRewards):
    """Credit ω Σ_{l≥k} γ^(l-k) (r_l - mean r_l) / (std r_l + 1e-6) at all tokens of turn k.

    Each reward is compared with those of the group's turns of the same number (or state), and the
    advantages of the turns that follow are added up. With two turns, the second one's reward 0 and
    ω = 1, that is the paper's A^T + A^O for the first turn and A^O for the second. Where the policy
    decides when to stop, the gradient is biased, by -E[r] for each turn more.

    Source: Zeng, Wei et al. 2025, "Reinforcing Multi-Turn Reasoning in LLM Agents via Turn-Level
    Reward Design", arXiv:2505.11821 (MT-GRPO). The outcome keeps its full weight in earlier turns,
    where the paper weighs it by a power of γ: the trainer adds it.
    """

    scale_by_std: bool = True
    """Divide by the standard deviation (n - 1) of what is compared, plus 1e-6."""

    each_reward = True


def padded_turn_rewards(turn_rewards: ArrayLike, mask: np.ndarray) -> np.ndarray:
    """(B, K) float64 rewards of each response's turns, 0 beyond the last.

    `turn_rewards` has a number for each turn of (B, T) `mask`, as B lists or as a (B, K) array or
    tensor padded with NaN. The last one, which no answer followed, may be missing: it is 0.

    Raises:
        InputError: there are no turn rewards, too many or too few, or one is not finite.
    """
    rows = on_host(turn_rewards)
    if rows is None or len(rows) != len(mask):
        what = "None" if rows is None else f"of {len(rows)} responses"
        expected = f"a list of numbers, one a turn, for each of {len(mask)} responses"
        raise InputError(f"turn_rewards is {what}; expected {expected}")
    n_turns = np.bincount(find_turns(mask).row, minlength=len(mask))
    padded_bk = np.zeros((len(mask), n_turns.max(initial=0)))
    for i, row in enumerate(rows):
        values = np.asarray(on_host(row), dtype=np.float64).reshape(-1)
        if isinstance(rows, np.ndarray):  # padded with NaN
            values = values[: np.flatnonzero(~np.isnan(values)).max(initial=-1) + 1]
        if len(values) not in (n_turns[i], n_turns[i] - 1):
            expected = f"{n_turns[i]}, one a turn (a run of unmasked tokens); the last may miss"
            raise InputError(f"turn_rewards[{i}] has {len(values)} numbers; expected {expected}")
        padded_bk[i, : len(values)] = finite_per_rollout(f"turn_rewards[{i}]", values, len(values))
    return padded_bk
