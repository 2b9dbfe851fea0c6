"""The reference of credit that follows the order of tokens, as plain loops and dicts.

Slow and short: what `ktae.estimators.Tempo` and `ConflictTokens` give is compared with these.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ktae.batch import EQUAL, Batch
from ktae.counting.naive import tokens_of_rows
from ktae.rollout_advantages import EPSILON


class Group(NamedTuple):
    """The rollouts of one group that can be evidence, by row."""

    tokens: dict[int, list[tuple[int, int]]]
    """Counted (position, token id), with those of unknown rollouts where they are looked up."""
    reward: dict[int, float]
    """Of rollouts of known correctness alone."""
    mean: float
    scale: float
    """What differences of rewards are divided by: the sample's standard deviation, or 1."""


def _groups(batch: Batch, scale_by_std: bool) -> Iterator[Group]:
    """Those whose rewards differ."""
    tokens_of = tokens_of_rows(batch)
    for group in np.unique(batch.group_b):
        rows = np.flatnonzero(batch.group_b == group).tolist()
        counted = {i: [x for x in tokens_of[i] if x[1] not in batch.ignored] for i in rows}
        counted = {i: tokens for i, tokens in counted.items() if tokens}
        reward = {i: x for i in counted if not math.isnan(x := float(batch.evidence[i]))}
        low, high = min(reward.values(), default=0), max(reward.values(), default=0)
        if high - low > EQUAL * max(abs(low), abs(high)):
            scale = statistics.stdev(reward.values()) + EPSILON if scale_by_std else 1.0
            tokens = {i: x for i, x in counted.items() if i in reward or batch.look_up_unknown}
            yield Group(tokens, reward, statistics.fmean(reward.values()), scale)


def tempo(batch: Batch, *, scale_by_std: bool) -> np.ndarray:
    """(B, T) float32: each rollout is followed down the tree, beside those of the same prefix."""
    out = np.zeros(batch.token_ids.shape, dtype=np.float32)
    for group in _groups(batch, scale_by_std):
        for i, path in group.tokens.items():
            sharing, value = list(group.reward), group.mean
            for depth, (t, token) in enumerate(path):
                longer = [k for k in sharing if len(group.tokens[k]) > depth]
                sharing = [k for k in longer if group.tokens[k][depth][1] == token]
                if not sharing:  # a held-out rollout has left the tree
                    break
                after = statistics.fmean(group.reward[k] for k in sharing)
                out[i, t] = (after - value) / group.scale
                value = after
    return out


def conflict_tokens(batch: Batch, *, scale_by_std: bool, amplify: float) -> np.ndarray:
    """(B, T) float32: from both ends of each rollout, the tokens that are in conflict."""
    out = np.zeros(batch.token_ids.shape, dtype=np.float32)
    for group in _groups(batch, scale_by_std):
        advantage = {i: (reward - group.mean) / group.scale for i, reward in group.reward.items()}
        least = EQUAL * max(map(abs, advantage.values()))  # what is less is rounding
        sided = {i: a for i, a in advantage.items() if abs(a) > least}
        credit = {i: (amplify - 1.0) * a if a > 0 else -a for i, a in sided.items()}
        for way in (1, -1):
            holders = defaultdict(list)
            for i in credit:
                for place, (_, token) in enumerate(group.tokens[i][::way]):
                    holders[place, token].append(i)
            for i, tokens in group.tokens.items():
                if i in advantage and i not in credit:  # its advantage is 0
                    continue
                for place, (t, token) in enumerate(tokens[::way]):
                    held = holders[place, token]
                    if not 0 < sum(advantage[k] > 0 for k in held) < len(held):
                        break
                    # A held-out rollout's token: as much as equal ones have on average.
                    out[i, t] = credit.get(i, np.mean([credit[k] for k in held]))
    return out
