"""Rollout advantages: what GRPO and its relatives give every token of a rollout alike."""

from __future__ import annotations

from ktae.arrays import Array
from ktae.batch import group_total
from ktae.errors import InputError

EPSILON = 1e-6
"""Added to the standard deviation, as verl adds it; TRL adds 1e-4."""

SCALED = {"grpo": True, "dr_grpo": False}
"""Whether these are divided by their group's standard deviation; others are of another scale."""


def rollout_advantages(base: str, rewards_b: Array, counted_b: Array, group_b: Array) -> Array:
    """(B,) rollout advantages over each group's rollouts that have a token; 0 for the others.

    The standard deviation is the sample's (n - 1), as in verl and TRL. A group of one has advantage
    0 (verl leaves the raw reward there). `rewards_b` is float64, `counted_b` whether a rollout has
    a token, and `group_b` each row's group, counted from 0: arrays or tensors.
    """
    if base not in ("grpo", "dr_grpo", "rloo"):
        expected = "'grpo', 'dr_grpo', 'rloo' or numbers of shape (B,)"
        raise InputError(f"base is {base!r}; expected {expected}")
    n_b = group_total(counted_b, group_b)
    mean_b = group_total(rewards_b * counted_b, group_b) / n_b.clip(1)
    centred_b = (rewards_b - mean_b) * counted_b
    if base == "grpo":
        variance_b = group_total(centred_b**2, group_b) / (n_b - 1).clip(1)
        return centred_b / (variance_b**0.5 + EPSILON)
    if base == "rloo":
        return centred_b * n_b / (n_b - 1).clip(1)
    return centred_b
