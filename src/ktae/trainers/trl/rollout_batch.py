"""What the trainer hands out of a batch of rollouts, and how it shows their credit."""

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


class CreditCell(list[float]):
    """A rollout's credit in the table of completions, which TRL also prints: in few words."""

    def __str__(self) -> str:
        """How many numbers it has, and the largest."""
        return f"{len(self)} tokens, |max| {max(map(abs, self), default=0):.2f}"
