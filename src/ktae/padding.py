"""Rollouts of different lengths as padded arrays, some groups at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

MAX_POSITIONS = 1 << 22
"""Padded positions (rollouts x longest length) that are in memory at a time, about 40 MB. A single
group above that is still taken whole."""


def pad(
    token_id_lists: Sequence[Any], masks: Sequence[Any] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rollouts of different lengths as one padded batch.

    Args:
        token_id_lists: B sequences of token ids, 0 to 2^31 - 1.
        masks: B sequences of bool as long as their token ids, or None where every token counts.

    Returns:
        token_ids (B, T) int32, 0 where padded, and mask (B, T) bool; T is the longest length.
    """
    lengths_b = np.array([len(ids) for ids in token_id_lists], dtype=np.int64)
    # True where a rollout has a token; row by row these are the flat ids in their order.
    mask_bt = np.arange(lengths_b.max(initial=0)) < lengths_b[:, None]
    ids_bt = np.zeros(mask_bt.shape, dtype=np.int32)
    if mask_bt.any():
        ids_bt[mask_bt] = np.concatenate([np.asarray(ids) for ids in token_id_lists if len(ids)])
    for row, mask in enumerate(masks or ()):
        if mask is not None:
            mask_bt[row, : len(mask)] = mask
    return ids_bt, mask_bt


def chunks_of(
    codes_b: np.ndarray, lengths_b: np.ndarray, max_positions: int
) -> Iterator[np.ndarray]:
    """Row numbers of consecutive groups, at least one, padded at most `max_positions`."""
    order = np.argsort(codes_b, kind="stable")
    starts = np.flatnonzero(np.diff(codes_b[order], prepend=-1))
    longest = np.maximum.reduceat(lengths_b[order], starts).tolist()
    start, width = 0, 0
    bounds = [*starts.tolist(), len(order)]
    for (begin, end), length in zip(itertools.pairwise(bounds), longest, strict=True):
        width = max(width, length)
        if begin > start and (end - start) * width > max_positions:
            yield order[start:begin]
            start, width = begin, length
    yield order[start:]
