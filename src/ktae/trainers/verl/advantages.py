"""The estimator as verl calls it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ktae.batch import finite_per_rollout
from ktae.errors import InputError
from ktae.trainers.lists import scored
from ktae.trainers.metrics import PREFIX
from ktae.trainers.verl import options
from ktae.trainers.verl.handover import Rollouts, rollouts_for, taken

ROWS_AT_ONCE = 256


def verl_advantages(
    *,
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: np.ndarray | None = None,
    config: Any = None,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """verl's rollout advantages plus the token credit; verl's `adv_estimator=ktae`.

    Args:
        token_level_rewards: (B, T); their sum over T is the reward.
        response_mask: (B, T), 0 where a token does not count. Rows that are 0 throughout, such as
            the ones with which verl fills a batch up, are in no group and get 0.
        index: (B,) the prompt's `uid`.
        config: the node `algorithm` of verl's configuration; None: verl's and our defaults.

    Returns:
        Advantages (B, T) float32, 0 where masked; and the same again, verl's "returns". A session
        with several outputs is one rollout: all outputs have the rollout advantage of the last,
        and their tokens' credit is that of turns.

    Raises:
        InputError: no KTAE trainer mode, no `uid`, an unknown option, or arrays that do not fit.
    """
    rollouts = rollouts_for(response_mask)
    if index is None:
        raise InputError(
            "the batch has no uid, so nobody knows which rollouts belong together; "
            "adv_estimator=ktae needs the uid of each rollout's prompt"
        )
    rewards, mask, index = token_level_rewards.sum(dim=-1), response_mask != 0, np.asarray(index)
    finite_per_rollout("rewards", rewards.float().cpu().numpy(), len(index))
    compute = _base_and_credit if rollouts.sessions is None else _of_sessions
    base, advantages = compute(rollouts, rewards, mask, index, config)
    for start in range(0, len(mask), ROWS_AT_ONCE):  # in place, for the batch is large
        rows = slice(start, start + ROWS_AT_ONCE)
        advantages[rows] += base[rows, None] * mask[rows]
    return advantages, advantages


def _of_sessions(
    rollouts: Rollouts, rewards: torch.Tensor, mask: torch.Tensor, index: np.ndarray, config: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `_base_and_credit` where sessions have several outputs. A session is one rollout, whose
    rollout advantage and verdict are those of its last output."""
    assert rollouts.sessions is not None
    rows = np.array([of_session[-1] for of_session in rollouts.sessions])
    session = torch.empty(len(mask), dtype=torch.int64)
    for number, of_session in enumerate(rollouts.sessions):
        session[of_session] = number
    last = torch.from_numpy(rows).to(mask.device)
    joined, at = rollouts.of_sessions(mask)
    base, credit = _base_and_credit(joined, rewards[last], taken(mask, at), index[rows], config)
    outputs, sessions = (
        n - x.padding.sum() for n, x in ((len(mask), rollouts), (len(rows), joined))
    )
    rollouts.metrics = joined.metrics | {
        f"{PREFIX}intermediate_outputs": float(1 - sessions / outputs)  # not a session's last
    }
    # Where no token of the last output counts, the whole session gets 0, as with verl's GRPO.
    counts = mask[last].any(dim=1)
    credits = torch.zeros(mask.shape, dtype=credit.dtype, device=credit.device)
    written = at >= 0
    credits.flatten()[at[written]] = (credit * counts[:, None])[written]
    return (base * counts)[session.to(mask.device)], credits


def _base_and_credit(
    rollouts: Rollouts, rewards: torch.Tensor, mask: torch.Tensor, index: np.ndarray, config: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The rollout advantages (B,) and the credit (B, T); every row is a rollout of its prompt."""
    settings, base_name = options.from_algorithm(config)
    estimator = settings.estimator
    for name in sorted(estimator.needs_policy - set(rollouts.policy)):
        raise InputError(
            f"{estimator} needs {name}, and verl hands none over where it computes advantages; "
            "expected a trainer mode of verl's v1 without rollout_correction.bypass_mode"
        )
    base = _rollout_advantages(base_name, rewards, index, config)
    result = scored(
        rollouts.token_ids,
        mask,
        rollouts.scores(rewards),
        index.tolist(),
        settings,
        step=rollouts.step,
        policy={name: rollouts.policy[name] for name in estimator.needs_policy},
        turn_rewards=rollouts.rewards_by_turn(mask) if estimator.needs_turn_rewards else None,
    )
    # A row of padding has the verdict of the row that it was copied from.
    rollouts.metrics = result.metrics(base, padding=rollouts.padding)
    return base, result.credit


def _rollout_advantages(
    name: str, rewards: torch.Tensor, index: np.ndarray, config: Any
) -> torch.Tensor:
    """(B,) verl's own. They are the same for all tokens of a rollout, so one token a rollout will
    do, instead of two more arrays of the whole batch's size."""
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn  # it may be what imports us

    one_token, scale = rewards.unsqueeze(1), "norm_adv_by_std_in_grpo"
    advantages, _ = get_adv_estimator_fn(name)(
        token_level_rewards=one_token,
        response_mask=torch.ones_like(one_token),
        index=index,
        config=config,
        **({scale: (config or {}).get(scale, True)} if name.startswith("grpo") else {}),
    )
    squeezed: torch.Tensor = advantages.squeeze(1)
    return squeezed
