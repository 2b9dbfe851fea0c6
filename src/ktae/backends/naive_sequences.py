"""The reference of credit that follows the order of tokens, as plain loops and dicts.

Slow and short: what `ktae.estimators.Tempo` and `ConflictTokens` give is compared with these.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from ktae.backends.naive import groups_of, tokens_of_rows
from ktae.batch import EQUAL, Batch
from ktae.rollout_advantages import EPSILON

Tokens = list[tuple[int, int]]
"""A rollout's counted tokens: (position, token id)."""

Credit = dict[tuple[int, int], float]
"""By row and position; elsewhere it is 0."""


class Group(NamedTuple):
    """The rollouts of one group that can be evidence, in the order of their rows."""

    tokens: dict[int, Tokens]
    """By row; with rollouts of unknown correctness where these are looked up."""
    reward: dict[int, float]
    """By row, verdicts or graded scores; of rollouts of known correctness alone."""
    mean: float
    scale: float
    """What differences of rewards are divided by: the sample's standard deviation, or 1."""


def tempo(batch: Batch, *, scale_by_std: bool) -> np.ndarray:
    """(B, T) float32 credit, as `ktae.estimators.Tempo` has it."""
    return _over_groups(batch, scale_by_std, _tempo)


def conflict_tokens(batch: Batch, *, scale_by_std: bool, amplify: float, runs: bool) -> np.ndarray:
    """(B, T) float32 credit, as `ktae.estimators.ConflictTokens` has it."""
    return _over_groups(batch, scale_by_std, lambda group: _conflict_tokens(group, amplify, runs))


def _over_groups(
    batch: Batch, scale_by_std: bool, credit_of: Callable[[Group], Credit]
) -> np.ndarray:
    out = np.zeros(batch.token_ids.shape, dtype=np.float32)
    tokens_of = tokens_of_rows(batch)
    for rows in groups_of(batch):
        group = _group(batch, rows, tokens_of, scale_by_std)
        credit = {} if group is None else credit_of(group)
        for (i, t), value in credit.items():
            out[i, t] = value
    return out


def _group(
    batch: Batch, rows: list[int], tokens_of: list[Tokens], scale_by_std: bool
) -> Group | None:
    """What one group's credit is computed from; None: its rewards do not differ."""
    reward, tokens = {}, {}
    for i in rows:
        counted = [(t, token) for t, token in tokens_of[i] if token not in batch.ignored]
        known = not math.isnan(batch.evidence[i])
        if counted and (known or batch.look_up_unknown):
            tokens[i] = counted
        if counted and known:
            reward[i] = float(batch.evidence[i])
    if not reward:
        return None
    low, high = min(reward.values()), max(reward.values())
    if high - low <= EQUAL * max(abs(low), abs(high)):
        return None
    n = len(reward)
    mean = _total(reward.values()) / n
    variance = _total((r - mean) * (r - mean) for r in reward.values()) / (n - 1)
    scale = math.sqrt(variance) + EPSILON if scale_by_std else 1.0
    return Group(tokens, reward, mean, scale)


def _tempo(group: Group) -> Credit:
    """Each rollout in turn is followed down the tree, among those that share its prefix so far."""
    credit = {}
    for i, path in group.tokens.items():
        sharing = list(group.reward)
        value = group.mean
        for depth, (t, token) in enumerate(path):
            longer = [k for k in sharing if len(group.tokens[k]) > depth]
            sharing = [k for k in longer if group.tokens[k][depth][1] == token]
            if not sharing:  # a held-out rollout has left the tree
                break
            after = _total(group.reward[k] for k in sharing) / len(sharing)
            credit[i, t] = (after - value) / group.scale
            value = after
    return credit


def _conflict_tokens(group: Group, amplify: float, runs: bool) -> Credit:
    """From both ends of each rollout: its first tokens, and its last ones, that are in conflict."""
    advantage = {i: (reward - group.mean) / group.scale for i, reward in group.reward.items()}
    own_credit = {i: (amplify - 1.0) * a if a > 0 else -a for i, a in advantage.items() if a != 0}
    positive = {i for i in own_credit if advantage[i] > 0}
    credit = {}
    for tokens in (group.tokens, {i: sequence[::-1] for i, sequence in group.tokens.items()}):
        holders = defaultdict(list)
        for i in own_credit:
            for place, (_, token) in enumerate(tokens[i]):
                holders[place, token].append(i)
        for i, sequence in tokens.items():
            if i in group.reward and i not in own_credit:  # its advantage is 0
                continue
            for place, (t, token) in enumerate(sequence):
                held = holders[place, token]
                if 0 < len(positive.intersection(held)) < len(held):
                    # A held-out rollout's token: as much as equal ones have on average.
                    mean = _total(own_credit[k] for k in held) / len(held)
                    credit[i, t] = own_credit.get(i, mean)
                elif runs:
                    break
    return credit


def _total(numbers: Iterable[float]) -> float:
    """One after the other, as compiled loops add; Python's `sum` corrects its rounding."""
    total = 0.0
    for number in numbers:
        total += number
    return total
