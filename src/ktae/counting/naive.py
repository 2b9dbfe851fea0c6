"""The reference: Algorithm 1 of the paper counted with plain loops and dicts. Slow and short, and
what the other ways of counting are tested against."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ktae.arrays import Array
from ktae.batch import Batch
from ktae.counting import Counts, Totals
from ktae.counting.units import FINISH, MIX, NGRAMS


def credit(
    batch: Batch, function: Callable[..., Array], units: Sequence[str] = ("token",)
) -> np.ndarray:
    """(B, T) float32 credit, as `ktae.counting.credit` has it."""
    out = np.zeros(batch.token_ids.shape, dtype=np.float32)
    with np.errstate(all="ignore"):
        values = iter(function(*(count(batch, unit) for unit in units)))
    for i, tokens in enumerate(tokens_of_rows(batch)):
        for t, token in tokens:
            if token not in batch.ignored:
                out[i, t] = next(values)
    return out


def count(batch: Batch, unit: str = "token", *, by_unit: bool = True) -> Counts:
    """The counts of a batch: a row for each unit of a group, sorted by group and key."""
    keys_of = [
        keys(unit, [token for _, token in tokens if token not in batch.ignored])
        for tokens in tokens_of_rows(batch)
    ]
    rows: list[tuple[float, ...]] = [(0, -1, 0.0, 0.0, 0.0, 0.0)]
    totals: list[tuple[Any, ...]] = []
    row_of = {}
    for group in range(max(batch.group_b, default=-1) + 1):
        evidence = [
            (float(batch.evidence[i]), keys_of[i])
            for i in np.flatnonzero(batch.group_b == group)
            if keys_of[i] and not math.isnan(batch.evidence[i])
        ]
        known = [score for score, _ in evidence]
        n_correct = sum(score * len(units) for score, units in evidence)
        n_tokens = sum(len(units) for _, units in evidence)
        variance = np.var(known) if len(set(known)) > 1 else 0.0
        totals.append((len(known), sum(known), n_correct, n_tokens - n_correct, variance))
        contain, occur = defaultdict[int, list[float]](list), defaultdict[int, list[float]](list)
        for score, units in evidence:
            for key in units:
                occur[key].append(score)
            for key in set(units):
                contain[key].append(score)
        for key in sorted(contain):
            row_of[group, key] = len(rows)
            scores, all_scores = contain[key], occur[key]
            numbers = sum(scores), len(scores), sum(all_scores), len(all_scores)
            rows.append((group, key, *map(float, numbers)))
    index = []
    for i, group in enumerate(batch.group_b.tolist()):
        is_counted = batch.look_up_unknown or not math.isnan(batch.evidence[i])
        index += [row_of.get((group, key), 0) if is_counted else 0 for key in keys_of[i]]
    group_k, key_k, *columns = np.array(rows).T
    return Counts(
        np.array(index, dtype=np.int64),
        Totals(*np.array(totals or [(0.0,) * 5], dtype=np.float64).T),
        batch.counted().sum(axis=1),
        group_k.astype(np.int64),
        *[*columns, key_k.astype(np.int64)],
    )


def keys(unit: str, tokens: list[int]) -> list[int]:
    """The keys of a response's tokens."""

    def mixed(state: int, number: int) -> int:
        state = (state ^ (number + 1)) * MIX % 2**64
        return state ^ state >> 32

    if unit == "token":
        return tokens
    result = []
    for t in range(len(tokens)):
        state = 0
        for part in tokens[max(0, t - NGRAMS.index(unit)) : t + 1]:
            state = mixed(state, part)
        result.append(state * FINISH % 2**64 >> 33)
    return result


def tokens_of_rows(batch: Batch) -> list[list[tuple[int, int]]]:
    """For each row its unmasked (position, token id)."""
    batch.check_token_ids()
    return [
        [(t, int(ids[t])) for t in np.flatnonzero(mask).tolist()]
        for ids, mask in zip(batch.token_ids, batch.mask, strict=True)
    ]
