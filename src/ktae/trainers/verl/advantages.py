"""The estimator as verl calls it, and how it gets the token ids that verl does not hand over."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import logging
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ktae.credit import token_credit
from ktae.errors import InputError
from ktae.estimators import Estimator
from ktae.trainers.metrics import PREFIX, Seen, step_metrics
from ktae.trainers.strongest import TokenSums, token_sums
from ktae.trainers.verl import names, options
from ktae.trainers.verl.sessions import over_outputs


@dataclasses.dataclass
class Rollouts:
    """What the estimator needs of a batch beside what verl gives it."""

    token_ids: torch.Tensor
    """(B, T) responses, in the order and width of verl's response mask; 0 where padded."""
    acc: np.ndarray | None
    """(B,) the reward function's `acc`, NaN where it is unknown; None: the function gives none."""
    step: int | None = None
    """Training steps done before; None where it is not known."""
    policy: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    """`log_probs` and `entropies`, (B, T), where verl has them."""
    last_outputs: np.ndarray | None = None
    """(B,) the row of the last output of each row's session; None: each session has one output."""
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    """Filled in by the estimator."""
    wants_sums: bool = False
    """Whether the estimator is to fill in the next."""
    sums: TokenSums | None = None
    """The credit of each distinct token."""


_current: contextvars.ContextVar[Rollouts | None] = contextvars.ContextVar("rollouts", default=None)


@contextlib.contextmanager
def handed_over(rollouts: Rollouts) -> Iterator[Rollouts]:
    """Within the block, `verl_advantages` works on these rollouts."""
    token = _current.set(rollouts)
    try:
        yield rollouts
    finally:
        _current.reset(token)


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
    rollouts = _rollouts_for(response_mask)
    if index is None:
        raise InputError(
            "the batch has no uid, so nobody knows which rollouts belong together; "
            "adv_estimator=ktae needs the uid of each rollout's prompt"
        )
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
        policy={name: of[last.to(of.device)] for name, of in rollouts.policy.items()},
        last_outputs=None,
    )
    base, credit = _base_and_credit(of_last, rewards[last], mask[last], index[rows], config)
    rollouts.metrics |= of_last.metrics
    rollouts.metrics[f"{PREFIX}intermediate_outputs"] = 1 - len(rows) / len(mask)
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
    correct, evidence = _correct(rollouts.acc, rewards, chosen)
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
    rollouts.metrics |= step_metrics(seen, base, chosen.estimator)
    rollouts.metrics[f"{PREFIX}seconds"] = seconds
    if rollouts.wants_sums:
        rollouts.sums = token_sums(seen)
    return base, credit


def _of_policy(rollouts: Rollouts, estimator: Estimator) -> dict[str, torch.Tensor]:
    """What the estimator needs of the policy."""
    for name in sorted(estimator.needs_policy - set(rollouts.policy)):
        raise InputError(
            f"{estimator} needs {name}, and verl hands none over where it computes advantages; "
            "expected a trainer mode of verl's v1 without rollout_correction.bypass_mode"
        )
    return {name: rollouts.policy[name] for name in estimator.needs_policy}


def _rollouts_for(mask: torch.Tensor) -> Rollouts:
    """What was handed over, which has to be for a batch of that response mask."""
    rollouts = _current.get()
    if rollouts is None:
        raise InputError(names.without_mode())
    if rollouts.token_ids.shape != mask.shape:
        raise InputError(
            f"responses are {tuple(rollouts.token_ids.shape)} and the response mask is "
            f"{tuple(mask.shape)}; expected equal shapes"
        )
    return rollouts


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
    acc: np.ndarray | None, rewards: torch.Tensor, chosen: options.Options
) -> tuple[np.ndarray, np.ndarray]:
    """(B,) verdicts 1, 0, or NaN for unknown; and what the estimator gets: a graded one, scores."""
    if acc is None:
        _warn_of_rewards(chosen.threshold)
        acc = rewards.sum(dim=-1).cpu().double().numpy()
    correct = np.where(np.isnan(acc), np.nan, acc > chosen.threshold)
    return correct, correct if chosen.estimator.score_range is None else acc


_warned = False


def _warn_of_rewards(threshold: float) -> None:
    global _warned
    if not _warned:
        logging.getLogger(__name__).warning(
            "the reward function gives no 'acc', so a rollout counts as correct where its reward "
            "is above %g; with a shaped reward (DAPO's overlong penalty) that is wrong: let it "
            "return {'score': ..., 'acc': ...}, as pkg://ktae.trainers.verl.reward does",
            threshold,
        )
        _warned = True


def rollouts_of_batch(data: Any) -> Rollouts:
    """From a batch of verl's old trainer, which holds everything already."""
    extra, tensors = data.non_tensor_batch, data.batch
    acc = _known(extra.get("acc"), extra.get("undecided"))
    # Of the entropies it has kept nothing but their mean.
    policy = {"log_probs": tensors["old_log_probs"]} if "old_log_probs" in tensors else {}
    return Rollouts(tensors["responses"], acc, policy=policy)


def rollouts_of_infos(
    token_ids: torch.Tensor, infos: list[dict[str, Any]], step: int | None = None
) -> Rollouts:
    """From token ids and what the reward function said of each rollout."""
    acc = [info.get("acc") for info in infos]
    if all(value is None for value in acc):
        return Rollouts(token_ids, None, step)
    values = [np.nan if value is None else float(value) for value in acc]
    undecided = [info.get("undecided", False) for info in infos]
    return Rollouts(token_ids, _known(values, undecided), step)


def _known(acc: Any, undecided: Any) -> np.ndarray | None:
    """(B,) `acc`, NaN where the verifier could not tell."""
    if acc is None:
        return None
    known = np.array(acc, dtype=np.float64)
    if undecided is not None:
        known[np.array(undecided, dtype=bool)] = np.nan
    return known
