"""The groups of a record, and what an estimator gets of its rollouts, some groups at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ktae.batch import in_words, out_of_range
from ktae.errors import InputError
from ktae.estimators import Estimator
from ktae.rollouts.tokens import tokenize

MAX_POSITIONS = 1 << 22
"""Padded positions (rollouts x longest length) that are in memory at a time, about 40 MB. A single
group above that is still taken whole."""

ROWS_PER_BATCH = 1024
"""Rollouts that a tokenizer gets, or an Arrow list array holds, at a time."""


def group_codes(rollouts: Any) -> tuple[np.ndarray, np.ndarray]:
    """(B,) group numbers by first appearance of (group, step), and each group's first row."""
    keys = [
        pc.dictionary_encode(rollouts[name].combine_chunks(), null_encoding="encode").indices
        for name in ("group", "step")
    ]
    group_b, step_b = (key.to_numpy().astype(np.int64) for key in keys)
    key_b = group_b * (step_b.max(initial=0) + 1) + step_b
    _, first, code_b = np.unique(key_b, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first)
    rank = np.empty_like(by_appearance)
    rank[by_appearance] = np.arange(len(rank))
    return rank[code_b], first[by_appearance]


def evidence(rollouts: Any, estimator: Estimator) -> np.ndarray:
    """(B,) what the estimator gets for `correct`: the verdicts, or the rewards of those rollouts
    that have one if it is graded. NaN is unknown.

    Raises:
        InputError: a reward is out of the estimator's range.
    """
    verdicts_b: np.ndarray = rollouts["correct"].to_numpy()
    score_range = estimator.score_range
    if score_range is None:
        return verdicts_b
    rewards_b = np.where(np.isnan(verdicts_b), np.nan, rollouts["reward"].to_numpy())
    bad = out_of_range(rewards_b, score_range)
    if bad.size:
        raise InputError(
            f"the reward of rollout {bad[0]} is {rewards_b[bad[0]]:g}; graded scores of "
            f"{estimator} are {in_words(score_range)}"
        )
    return rewards_b


def ids_of(rollouts: Any, tokenizer: Any) -> list[np.ndarray]:
    """Each rollout's token ids, those of the record where it has them."""
    missing = rollouts["token_ids"].null_count
    if missing and tokenizer is None:
        raise InputError(
            f"{missing} of {len(rollouts)} rollouts have no token_ids; a tokenizer is needed to "
            "make them from the response"
        )
    ids: list[np.ndarray] = []
    for batch in rollouts.select(["token_ids", "response"]).to_batches(ROWS_PER_BATCH):
        given = batch.column("token_ids")
        texts = batch.column("response").filter(pc.is_null(given)).to_pylist()
        made = iter(tokenize(tokenizer, texts))
        ids += [x.values.to_numpy() if x.is_valid else next(made) for x in given]
    return ids


def masks_of(rollouts: Any) -> list[np.ndarray | None]:
    """Each rollout's mask; None where every token counts."""
    masks = rollouts["mask"]
    return [x.values.to_numpy(zero_copy_only=False) if x.is_valid else None for x in masks]


def chunks_of(
    codes_b: np.ndarray, lengths_b: np.ndarray, max_positions: int
) -> Iterator[np.ndarray]:
    """Row numbers of consecutive groups, at least one, padded at most `max_positions`."""
    order = np.argsort(codes_b, kind="stable")
    starts = np.flatnonzero(np.diff(codes_b[order], prepend=-1))
    longest = np.maximum.reduceat(lengths_b[order], starts).tolist()
    bounds = [*starts.tolist(), len(order)]
    start, width = 0, 0
    for group, (begin, end) in enumerate(itertools.pairwise(bounds)):
        width = max(width, longest[group])
        if begin > start and (end - start) * width > max_positions:
            yield order[start:begin]
            start, width = begin, longest[group]
    yield order[start:]
