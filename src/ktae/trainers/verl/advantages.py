"""The estimator as verl calls it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ktae.batch import finite_per_rollout
from ktae.errors import InputError
from ktae.trainers.lists import Part, Rollout, credit_of, scored
from ktae.trainers.metrics import PREFIX, Scored
from ktae.trainers.settings import Settings
from ktae.trainers.verl import options
from ktae.trainers.verl.handover import Rollouts, current


def verl_advantages(
    *,
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: np.ndarray,
    config: Any = None,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """verl's rollout advantages plus the token credit, (B, T) float32; verl's `adv_estimator=ktae`.
    They are given twice, the second time as verl's "returns".

    Rows whose mask is 0 throughout, such as the ones with which verl fills a batch up, are in no
    group and get 0. `index` has the prompts' `uid`, `config` is the node `algorithm` of verl's
    configuration. A session with several outputs is one rollout: all outputs have the rollout
    advantage of the last, and their tokens' credit is that of turns.

    Raises:
        InputError: no KTAE trainer mode, an unknown option, or arrays that do not fit.
    """
    if (rollouts := current.get()) is None:
        raise InputError(options.NO_TOKEN_IDS)
    rewards, mask, index = token_level_rewards.sum(dim=-1), response_mask != 0, np.asarray(index)
    finite_per_rollout("rewards", rewards.float().cpu().numpy(), len(index))
    settings, base_name = options.from_algorithm(config)
    handed_over = set() if rollouts.sessions else set(rollouts.policy)
    for name in sorted(settings.estimator.needs_policy - handed_over):
        raise InputError(
            f"{settings.estimator} needs {name}, and verl hands none over here; expected a trainer "
            "mode of verl's v1 without rollout_correction.bypass_mode, and one output a session"
        )
    # The row that decides about each session, its last, and the session of each row.
    sessions = rollouts.sessions or [[row] for row in range(len(mask))]
    last, session = np.array([rows[-1] for rows in sessions]), np.empty(len(mask), dtype=np.int64)
    for number, rows in enumerate(sessions):
        session[rows] = number
    base = _rollout_advantages(base_name, rewards[last], index[last], config)
    scores, groups = rollouts.scores(rewards, last), index[last].tolist()
    by_turn = rollouts.rewards_by_turn(mask, settings)
    if rollouts.sessions is not None:
        result, advantages = _session_credit(rollouts, mask, scores, groups, by_turn, settings)
    else:
        policy = {name: rollouts.policy[name] for name in settings.estimator.needs_policy}
        more = {"policy": policy, "turn_rewards": by_turn}
        result = scored(rollouts.token_ids, mask, scores, groups, settings, **more)
        advantages = result.credit
    # A row of padding has the verdict of the row that it was copied from.
    padding = rollouts.padding[last] if len(rollouts.padding) else None
    rollouts.metrics |= result.metrics(base, padding=padding)
    # Where no token of the last output counts, the whole session gets 0, as with verl's GRPO.
    base, counts = base[session], mask[last].any(dim=1)[session]
    # In place, for the batch is large.
    advantages.addcmul_(base[:, None], mask).mul_(counts[:, None])
    return advantages, advantages


def _session_credit(
    rollouts: Rollouts,
    mask: torch.Tensor,
    scores: np.ndarray,
    groups: list[Any],
    by_turn: list[list[float]] | None,
    settings: Settings,
) -> tuple[Scored, torch.Tensor]:
    """The credit (B, T) where sessions have several outputs, each of them a row: a turn, or several
    where it has holes itself, after what is new in its prompt."""
    sessions, ids, written = rollouts.sessions or [], rollouts.token_ids.tolist(), mask.tolist()
    joined = []
    for rows, group, score in zip(sessions, groups, scores.tolist(), strict=True):
        before: list[int] = []
        parts: list[Part] = []
        for row in rows:
            prompt, length = rollouts.outputs[row]
            known = len(before) if prompt[: len(before)] == before else 0
            seen = (prompt[known:] or [0]) if parts else []  # the first prompt is the group's
            response = ids[row][:length]
            parts += [(seen, [False] * len(seen)), (response, written[row][:length])]
            before = prompt + response
        rewards = [x for row in rows for x in by_turn[row]] if by_turn else None
        joined.append(Rollout(parts, group, score, turn_rewards=rewards))
    credited = credit_of(joined, settings)
    credit = torch.zeros(mask.shape)
    for rows, of_session in zip(sessions, credited.parts, strict=True):
        for row, values in zip(rows, of_session[1::2], strict=True):
            credit[row, : len(values)] = torch.tensor(values)
    filled_up = rollouts.padding.sum()  # each such row is a session
    share = (len(sessions) - filled_up) / (len(mask) - filled_up)
    rollouts.metrics[f"{PREFIX}intermediate_outputs"] = float(1 - share)  # not a session's last
    return credited.scored, credit.to(mask.device)


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
