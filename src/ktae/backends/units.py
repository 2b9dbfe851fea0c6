"""Keys of larger units of arrays. `ktae.estimators.unit_keys` says what the keys are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ktae.arrays import AT_ONCE

POSITION_BUCKET = 8
"""Tokens in a bucket of the unit `position`."""

FIRST_IS_WORD = 1 << 0
LAST_IS_WORD = 1 << 1
BLANK = 1 << 2
LEAD_SHIFT = 3
TAIL_SHIFT = 5
MANY = 3
"""In a token's byte of looks: does its text begin, end with a word character; is it blank; and two
bits each for the line breaks before its first other character and, at most, within a later run of
blanks. For a blank token all of its line breaks are before. Counts go up to `MANY`."""

MIX = 0x9E3779B97F4A7C15
FINISH = 0xD6E8FEB86659FD93
"""Odd, so that multiplying by them modulo 2**64 loses nothing."""


def id_keys(unit: str, ids_bt: np.ndarray, mask_bt: np.ndarray) -> np.ndarray:
    """(B, T) int32 keys of `position`, `bigram` or `trigram`; 0 where masked. Ids are in range."""
    keys_bt = np.zeros(ids_bt.shape, dtype=np.int32)
    step = max(1, AT_ONCE // max(1, ids_bt.shape[1]))
    for start in range(0, len(ids_bt), step):
        _id_keys(unit, *(x[start : start + step] for x in (ids_bt, mask_bt, keys_bt)))
    return keys_bt


def _id_keys(unit: str, ids_bt: np.ndarray, mask_bt: np.ndarray, out: np.ndarray) -> None:
    """Write the keys of bigrams, of trigrams, or of (number of the bucket, token)."""
    is_token_bt = np.not_equal(mask_bt, 0)
    token = ids_bt[is_token_bt].astype(np.uint64)
    # Each row's tokens one after the other.
    lengths = is_token_bt.sum(axis=1)
    begins = np.cumsum(lengths) - lengths
    if unit == "position":
        place = np.arange(len(token)) - np.repeat(begins, lengths)
        state = mixed(mixed(np.uint64(0), (place // POSITION_BUCKET).astype(np.uint64)), token)
    else:
        state = mixed(np.uint64(0), token)
        for _ in range(("bigram", "trigram").index(unit) + 1):
            before = np.roll(state, 1)
            before[begins[lengths > 0]] = 0  # before a row's first token
            state = mixed(before, token)
    out[is_token_bt] = finished(state)


# The compiled loop over text calls these two as well.


def mixed(state: Any, number: Any) -> Any:
    """The uint64 states after one more uint64 number each."""
    state = (state ^ (number + np.uint64(1))) * np.uint64(MIX)
    return state ^ state >> np.uint64(32)


def finished(state: Any) -> Any:
    """31 bits of uint64 states, as token ids."""
    return (state * np.uint64(FINISH)) >> np.uint64(33)
