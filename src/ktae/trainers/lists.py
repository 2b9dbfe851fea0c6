"""Token credit for trainers that keep rollouts as lists or tensors: what their adapters share.

An adapter hands over each rollout in the parts that its engine keeps, and adds the credit of each
part's tokens to the advantages there. Everything between is here.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ktae.arrays import Array, above, on_host
from ktae.credit import token_credit
from ktae.errors import InputError
from ktae.trainers.metrics import Scored
from ktae.trainers.settings import Settings, warn_once

Part = tuple[Sequence[int], Sequence[Any]]
"""A piece of a rollout as an engine keeps it: token ids, and for each of them whether the policy
wrote it."""


class Rollout(NamedTuple):
    """One rollout, whatever number of training samples the engine makes of it."""

    parts: Sequence[Part]
    """In order. What stands before the policy's first token, such as a prompt, may be among them;
    what others wrote after it, such as a tool's output, is, where the engine has it."""
    group: Hashable  # the same for rollouts that are compared with each other
    score: float  # as `Settings.scores` gives it
    advantage: float = 0.0  # the engine's rollout advantage; the metrics alone look at it
    turn_rewards: Sequence[float] | None = None  # one for each turn, where the engine has them

    def joined(self) -> tuple[list[int], list[bool], int]:
        """Its tokens from the policy's first one on, whether the policy wrote each, and how many
        stand before them."""
        ids: list[int] = []
        written: list[bool] = []
        for i, (token_ids, mask) in enumerate(self.parts):
            if len(token_ids) != len(mask):
                raise InputError(f"part {i} has {len(token_ids)} tokens and a mask of {len(mask)}")
            ids += token_ids
            written += map(bool, mask)
        start = written.index(True) if any(written) else len(ids)
        return ids[start:], written[start:], start


def scored(
    token_ids: Array,
    mask: Array,
    scores: Any,
    groups: Sequence[Hashable],
    settings: Settings,
    **options: Any,
) -> Scored:
    """The credit of (B, T) rollouts in arrays or tensors.

    `scores` is (B,) what decides about each, NaN where nothing does; `groups` are B labels of whole
    groups; `options` are those of `ktae.token_credit`: `policy`, `turn_rewards`.
    """
    estimator = settings.estimator
    values = np.asarray(on_host(scores), dtype=np.float64)
    correct = np.where(np.isnan(values), np.nan, above(values, settings.threshold))
    # Not np.unique, which sorts: the engines' names of groups need not compare.
    label: dict[Hashable, int] = {}
    group_b = np.array([label.setdefault(x, len(label)) for x in groups], dtype=np.int64)
    evidence = values if estimator.takes_scores else correct
    n_values = len(np.unique(values[~np.isnan(values)]))
    if n_values > 2 and not (estimator.takes_scores or settings.threshold):
        name = settings.correctness or "reward"
        warn_once(f"{name} has several values, and above 0 is correct: set threshold")
    started = time.perf_counter()
    options["vocabulary"] = settings.vocabulary()
    credit = token_credit(token_ids, mask, evidence, group_b, estimator, **options)
    seconds = time.perf_counter() - started
    return Scored(token_ids, mask, evidence, correct, group_b, credit, estimator, seconds)


class Credited(NamedTuple):
    """The credit of rollouts of parts."""

    parts: list[list[list[float]]]
    """For each part of each rollout a token, 0 for those that the policy did not write."""
    scored: Scored
    advantages: list[float]

    def metrics(self) -> dict[str, float]:
        """As `Scored.metrics`; none of no rollouts."""
        return self.scored.metrics(np.array(self.advantages)) if self.parts else {}


def credit_of(rollouts: Sequence[Rollout], settings: Settings) -> Credited:
    """The credit of every token of rollouts in any order, of whole groups."""
    joined = [rollout.joined() for rollout in rollouts]
    width = max((len(ids) for ids, _, _ in joined), default=0)
    ids = np.zeros((len(rollouts), width), dtype=np.int64)
    mask = np.zeros(ids.shape, dtype=bool)
    for row, (of_row, written, _) in enumerate(joined):
        ids[row, : len(of_row)], mask[row, : len(of_row)] = of_row, written
    rewards = [rollout.turn_rewards for rollout in rollouts]
    scores, groups = [x.score for x in rollouts], [x.group for x in rollouts]
    by_turn = rewards if settings.estimator.needs_turn_rewards else None
    result = scored(ids, mask, scores, groups, settings, turn_rewards=by_turn)
    parts = []
    for rollout, (_, _, start), values in zip(rollouts, joined, result.credit, strict=True):
        every = np.concatenate([np.zeros(start), values])
        ends = np.cumsum([0, *(len(ids) for ids, _ in rollout.parts)])
        parts.append([every[a:b].tolist() for a, b in itertools.pairwise(ends)])
    return Credited(parts, result, [rollout.advantage for rollout in rollouts])


def credit_samples(
    samples: Sequence[tuple[Hashable, Part]],
    owners: Mapping[Any, tuple[Hashable, float, float]],
    settings: Settings,
) -> tuple[list[list[float]], dict[str, float]]:
    """The credit of training samples of which several may belong to one rollout, and the metrics.

    `samples` are each one's rollout, and its tokens, those of a rollout in their order; `owners`
    are each rollout's group, score and advantage.
    """
    parts: dict[Hashable, list[Part]] = {owner: [] for owner in owners}
    for owner, part in samples:
        parts[owner].append(part)
    rollouts = [Rollout(parts[owner], *rest) for owner, rest in owners.items()]
    credited = credit_of(rollouts, settings)
    values = dict(zip(owners, map(iter, credited.parts), strict=True))
    return [next(values[owner]) for owner, _ in samples], credited.metrics()
