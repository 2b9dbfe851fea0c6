"""The estimator as verl calls it."""

from __future__ import annotations

import dataclasses
import logging
import time
from typing import Any

import numpy as np
import torch

from ktae.arrays import above
from ktae.batch import finite_per_rollout
from ktae.credit import token_credit
from ktae.errors import InputError
from ktae.estimators import Estimator
from ktae.trainers.metrics import PREFIX, Seen, step_metrics
from ktae.trainers.strongest import token_sums
from ktae.trainers.verl import options
from ktae.trainers.verl.handover import Rollouts, rollouts_for
from ktae.trainers.verl.sessions import over_outputs


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
        Advantages (B, T) float32, 0 where masked; and the same again, verl's "returns". Of a
        session with several outputs the last is the rollout; those before it have its rollout
        advantage at each token, and no credit.

    Raises:
        InputError: no KTAE trainer mode, no `uid`, an unknown option, or arrays that do not fit.
    """
    rollouts = rollouts_for(response_mask)
    if index is None:
        raise InputError(
            "the batch has no uid, so nobody knows which rollouts belong together; "
            "adv_estimator=ktae needs the uid of each rollout's prompt"
        )
    finite_per_rollout("rewards", token_level_rewards.sum(dim=-1).float().cpu().numpy(), len(index))
    given = token_level_rewards, response_mask, np.asarray(index)
    if rollouts.last_outputs is None:
        base, credit = _base_and_credit(rollouts, *given, config)
        credit += base  # in place: the batch is large
        return credit, credit
    advantages = _of_sessions(rollouts.last_outputs, rollouts, *given, config)
    return advantages, advantages


def _of_sessions(
    last_outputs: np.ndarray,
    rollouts: Rollouts,
    rewards: torch.Tensor,
    mask: torch.Tensor,
    index: np.ndarray,
    config: Any,
) -> torch.Tensor:
    """(B, T) where sessions have several outputs. The last one is the rollout; those before it
    share its rollout advantage, and get no credit."""
    rows, session = np.unique(last_outputs, return_inverse=True)
    last = torch.from_numpy(rows).to(mask.device)
    of_last = dataclasses.replace(
        rollouts,
        token_ids=rollouts.token_ids[last.to(rollouts.token_ids.device)],
        acc=None if rollouts.acc is None else rollouts.acc[rows],
        undecided=None if rollouts.undecided is None else rollouts.undecided[rows],
        policy={name: of[last.to(of.device)] for name, of in rollouts.policy.items()},
        last_outputs=None,
        padding=None if rollouts.padding is None else rollouts.padding[rows],
    )
    base, credit = _base_and_credit(of_last, rewards[last], mask[last], index[rows], config)
    rollouts.metrics |= of_last.metrics
    rollouts.metrics[f"{PREFIX}intermediate_outputs"] = _intermediate(rollouts, rows)
    rollouts.sums = of_last.sums
    advantages = over_outputs(base, mask[last], torch.from_numpy(session).to(mask.device), mask)
    advantages[last] += credit
    return advantages


def _base_and_credit(
    rollouts: Rollouts, rewards: torch.Tensor, mask: torch.Tensor, index: np.ndarray, config: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The rollout advantages and the credit, each (B, T); every row is a rollout of its prompt."""
    chosen = options.from_algorithm(config)
    base = _rollout_advantages(chosen.base, rewards, mask, index, config)
    started = time.perf_counter()
    correct, evidence = _correct(rollouts, rewards, chosen)
    groups = np.unique(index.astype(str), return_inverse=True)[1]
    credit = token_credit(
        rollouts.token_ids,
        mask,
        evidence,
        groups,
        chosen.estimator,
        backend=chosen.backend,
        vocabulary=options.vocabulary_of(chosen),
        step=rollouts.step,
        **_of_policy(rollouts, chosen.estimator),
    )
    seconds = time.perf_counter() - started
    seen = Seen(
        rollouts.token_ids, mask, torch.from_numpy(evidence), torch.from_numpy(correct),
        torch.from_numpy(groups), credit, slice(None),
    )  # fmt: skip
    rollouts.metrics |= step_metrics(*_without_padding(seen, base, rollouts), chosen.estimator)
    rollouts.metrics[f"{PREFIX}seconds"] = seconds
    if rollouts.wants_sums:
        rollouts.sums = token_sums(seen)
    return base, credit


def _intermediate(rollouts: Rollouts, last: np.ndarray) -> float:
    """The share of outputs that are not their session's last; padding counts as neither."""
    rows = np.arange(len(rollouts.token_ids))
    if rollouts.padding is not None:
        rows, last = (some[~rollouts.padding[some]] for some in (rows, last))
    return 1 - len(last) / len(rows)


def _without_padding(
    seen: Seen, base: torch.Tensor, rollouts: Rollouts
) -> tuple[Seen, torch.Tensor]:
    """What the metrics count: verl's padding has the verdict of the row that it was copied from."""
    if rollouts.padding is None:
        return seen, base
    kept = torch.from_numpy(~rollouts.padding)
    *arrays, base = (x[kept.to(x.device)] for x in (*seen[:-1], base))
    return Seen(*arrays, own=slice(None)), base  # type: ignore[misc]


def _of_policy(rollouts: Rollouts, estimator: Estimator) -> dict[str, torch.Tensor]:
    """What the estimator needs of the policy."""
    for name in sorted(estimator.needs_policy - set(rollouts.policy)):
        raise InputError(
            f"{estimator} needs {name}, and verl hands none over where it computes advantages; "
            "expected a trainer mode of verl's v1 without rollout_correction.bypass_mode"
        )
    return {name: rollouts.policy[name] for name in estimator.needs_policy}


def _rollout_advantages(
    name: str, rewards: torch.Tensor, mask: torch.Tensor, index: np.ndarray, config: Any
) -> torch.Tensor:
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn  # it may be what imports us

    kwargs = {"token_level_rewards": rewards, "response_mask": mask, "index": index}
    if name.startswith("grpo"):
        kwargs["norm_adv_by_std_in_grpo"] = (config or {}).get("norm_adv_by_std_in_grpo", True)
    advantages: torch.Tensor = get_adv_estimator_fn(name)(config=config, **kwargs)[0]
    return advantages


def _correct(
    rollouts: Rollouts, rewards: torch.Tensor, chosen: options.Options
) -> tuple[np.ndarray, np.ndarray]:
    """(B,) verdicts 1, 0, or NaN for unknown; and what the estimator gets: a graded one, scores.

    They are of `acc`, or of the reward where there is none.
    """
    totals = rewards.sum(dim=-1).cpu()
    acc = np.full(len(totals), np.nan) if rollouts.acc is None else rollouts.acc
    unknown = False if rollouts.undecided is None else rollouts.undecided
    by_acc, by_reward = (above(values, chosen.threshold) for values in (acc, totals))
    if (np.isnan(acc) & ~np.asarray(unknown)).any():
        _warn_of_rewards(chosen.threshold)
    scores = np.where(np.isnan(acc), totals.double().numpy(), acc)
    correct = np.where(np.isnan(acc), by_reward, by_acc)
    scores, correct = (np.where(unknown, np.nan, values) for values in (scores, correct))
    return correct, correct if chosen.estimator.score_range is None else scores


_warned = False


def _warn_of_rewards(threshold: float) -> None:
    global _warned
    if not _warned:
        logging.getLogger(__name__).warning(
            "the reward function gives no 'acc', so such a rollout counts as correct where its "
            "reward is above %g; with a shaped reward (DAPO's overlong penalty) that is wrong: let "
            "it return {'score': ..., 'acc': ...}, as pkg://ktae.trainers.verl.reward does",
            threshold,
        )
        _warned = True
