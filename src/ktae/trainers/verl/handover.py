"""What verl does not hand to an estimator of advantages: token ids, verdicts, log-probabilities."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ktae.errors import InputError, expected_one_of
from ktae.rollouts.values import is_null
from ktae.trainers.settings import Settings, warn_once


@dataclasses.dataclass
class Rollouts:
    """What the estimator needs of a batch beside what verl gives it."""

    # (B, T) responses, in the order and width of verl's response mask; 0 where padded.
    token_ids: torch.Tensor
    # (B,) the reward function's `acc`, or what `correctness` names; NaN where it gives none.
    acc: np.ndarray
    undecided: np.ndarray  # (B,) bool: which rollouts are neither correct nor incorrect
    # `log_probs` and `entropies`, (B, T), where verl has them.
    policy: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    turn_rewards: list[list[float]] | None = None  # of each row, where the agent loop gives them
    # The rows of each session's outputs, in their order; None: each session has one output.
    sessions: list[list[int]] | None = None
    # Where sessions have several outputs: each of B rows' prompt, and its length.
    outputs: Sequence[tuple[list[int], int]] = ()
    # (B,) which rows verl filled the batch up with, for the metrics to leave out; or none.
    padding: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, bool))
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)  # by the estimator

    def scores(self, rewards: torch.Tensor, rows: np.ndarray) -> np.ndarray:
        """(n,) what decides about these rows: `acc`, or the reward where there is none; NaN where
        correctness is unknown."""
        acc, undecided = self.acc[rows], self.undecided[rows]
        if (np.isnan(acc) & ~undecided).any():
            warn_once(
                "the reward function gives no 'acc', so such a rollout counts as correct where its "
                "reward is above the threshold; with a shaped reward (DAPO's overlong penalty) "
                "it does not follow: let it return {'score': ..., 'acc': ...}, as "
                "pkg://ktae.trainers.verl.reward does"
            )
        scores = np.where(np.isnan(acc), rewards.cpu().double().numpy()[rows], acc)
        return np.where(undecided, np.nan, scores)

    def rewards_by_turn(self, mask: torch.Tensor, settings: Settings) -> list[list[float]] | None:
        """Those of each row, none where it counts nowhere, such as padding; None: the estimator
        needs none.

        Raises:
            InputError: the agent loop gives none.
        """
        if not settings.estimator.needs_turn_rewards:
            return None
        if self.turn_rewards is None:
            raise InputError(
                "the agent loop gives no turn_rewards; expected a list of that name in the "
                "extra_fields of its AgentLoopOutput, a number for each turn"
            )
        counts = mask.any(dim=1).tolist()
        return [x if some else [] for x, some in zip(self.turn_rewards, counts, strict=True)]


current: contextvars.ContextVar[Rollouts | None] = contextvars.ContextVar("rollouts", default=None)
"""What was handed over to the estimator; None where verl's trainer is no mode of ours."""


@contextlib.contextmanager
def handed_over(rollouts: Rollouts) -> Iterator[Rollouts]:
    """Within the block, `verl_advantages` works on these rollouts."""
    token = current.set(rollouts)
    try:
        yield rollouts
    finally:
        current.reset(token)


def rollouts_of_infos(
    token_ids: torch.Tensor,
    infos: list[dict[str, Any]],
    correctness: str = "acc",
) -> Rollouts:
    """From token ids and what the reward function said of each rollout, by the name `correctness`.

    Raises:
        InputError: it gives no number; or a name was chosen, and no rollout has it.
    """
    if correctness != "acc" and infos and not any(correctness in info for info in infos):
        hint = expected_one_of(sorted({name for info in infos for name in info}), correctness)
        raise InputError(f"correctness is {correctness!r}, which no rollout has; {hint}")
    acc = _numbers(correctness, [info.get(correctness) for info in infos])
    # A reward function says that it could not tell by `undecided`, or an `acc` of null or NaN.
    # verl's `rate_limited` reward manager got no verdict where it gives `timeout` or `error` and
    # `acc` 0, but no `score`.
    undecided = _numbers("undecided", [info.get("undecided") or 0 for info in infos]) != 0
    for row, info in enumerate(infos):
        undecided[row] |= "score" not in info and ("timeout" in info or "error" in info)
        undecided[row] |= correctness in info and is_null(info[correctness])
    return Rollouts(token_ids, acc, undecided)


def _numbers(name: str, values: Sequence[Any]) -> np.ndarray:
    """(B,) float64 of what a reward function gave: numbers, verdicts, or None for NaN."""
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            numbers[row] = np.asarray(value, dtype=np.float64).item()  # [1.0] is one number, too
        except (TypeError, ValueError):
            raise InputError(
                f"the reward function gave {name} {value!r:.60} for rollout {row} of the batch; "
                "expected a number, true or false, or null where it cannot tell"
            ) from None
    return numbers


def sessions_of(keys: Sequence[str]) -> list[list[int]] | None:
    """The rows of each session, in the order of its outputs; None where each has one output.

    verl's agent loops may return several outputs, each a row. A session is one rollout of its
    prompt, with the reward of its last output. verl's own GRPO takes the last outputs alone, but
    gives every row to any other estimator. The B `keys` are verl's: `prompt_session_output`.
    """
    sessions: dict[str, list[tuple[int, int]]] = {}
    for row, key in enumerate(keys):
        name, _, output = key.rpartition("_")
        sessions.setdefault(name, []).append((int(output), row))
    if len(sessions) == len(keys):
        return None
    return [[row for _, row in sorted(outputs)] for outputs in sessions.values()]
