"""Rollouts on their way through TRL's trainer."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class RolloutBatch(NamedTuple):
    """One generation batch of this process, as the trainer hands it to `on_rollouts`."""

    step: int
    """Optimizer steps done before these rollouts were sampled."""
    inputs: list[dict[str, Any]]
    """The data set's rows, one for each of the n rollouts."""
    token_ids: list[list[int]]
    """The n completions, unpadded."""
    masks: list[list[int]]
    """For each token of each of them 1, or 0 where a tool or an environment wrote it."""
    rewards: torch.Tensor
    """(n,) the sum of the weighted reward functions; NaN where none could tell."""
    correct: torch.Tensor
    """(n,) 1, 0, or NaN for unknown."""
    advantages: torch.Tensor
    """(n,) TRL's rollout advantages."""
    credit: torch.Tensor
    """(n, T) token credit, right-padded with 0."""
    first_row: int
    """Global number of the first rollout; a group is `num_generations` consecutive rollouts."""


class Scored(NamedTuple):
    """What `_calculate_rewards` keeps of one rollout of this process."""

    inputs: dict[str, Any]
    token_ids: list[int]
    mask: list[int]
    """0 where a tool or an environment wrote the token and not the policy."""
    reward: torch.Tensor
    correct: torch.Tensor
    evidence: torch.Tensor
    """What the estimator gets for `correct`: the same, or its score with `graded_rewards`."""
    entropies: torch.Tensor | None
    """(T,) the policy's entropies when it sampled; None: not asked for."""


class CreditCell(list[float]):
    """A rollout's credit in the table of completions, which TRL also prints: in few words."""

    def __str__(self) -> str:
        """How many numbers it has, and the largest."""
        return f"{len(self)} tokens, |max| {max(map(abs, self), default=0):.2f}"
