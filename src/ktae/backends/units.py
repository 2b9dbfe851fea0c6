"""Keys of larger units, by compiled loops. `ktae.estimators.unit_keys` says what the keys are."""

from __future__ import annotations

import numpy as np

from ktae.arrays import MAX_TOKEN_ID
from ktae.backends._compiled import AT_ONCE, NO_ERROR, end_of, in_threads, jit, kept, plain
from ktae.batch import Vocabulary, bad_token_id

POSITION_BUCKET = 8
"""Tokens in a bucket of the unit `position`."""

N_TOKENS = {"position": 0, "bigram": 2, "trigram": 3}
"""How many tokens units of ids alone are of; 0: of the place of one."""

BREAKS = {"word": 0, "line": 1, "step": 2}
"""How many line breaks units of text lie between; 0: words lie between other characters."""

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


def array_keys(
    unit: str, ids_bt: np.ndarray, mask_bt: np.ndarray, vocabulary: Vocabulary | None
) -> np.ndarray:
    """(B, T) int32 keys of a unit larger than a token, of arrays; 0 where masked.

    Raises:
        InputError: an id is out of range at an unmasked position.
    """
    keys_bt = np.zeros(ids_bt.shape, dtype=np.int32)
    n_rows, width = ids_bt.shape

    def fill(part: slice) -> tuple[int, int]:
        arrays = plain(ids_bt, mask_bt, np.arange(part.start, part.stop))
        out = keys_bt[part]
        if unit in N_TOKENS:
            row, column = id_keys(*arrays, N_TOKENS[unit], POSITION_BUCKET, out)
        else:
            assert vocabulary is not None
            tables = vocabulary.looks, vocabulary.hashes
            row, column = text_keys(*arrays, *tables, BREAKS[unit], out)
        return (n_rows if row == NO_ERROR else part.start + row), column

    step = max(1, AT_ONCE // max(1, width))
    row, column = min(in_threads(fill, [*range(0, n_rows, step), n_rows]), default=(n_rows, 0))
    if row < n_rows:
        raise bad_token_id(ids_bt, row, column)
    return keys_bt


# Compiled from here on: the loops fill in the keys of some rollouts, and return (row, column) of
# the first bad token id, or (NO_ERROR, 0).


@jit
def _mix(state, number):
    """The state after one more number from -1 on; mix(0, -1) is 0."""
    state = (state ^ np.uint64(number + 1)) * np.uint64(MIX)
    return state ^ state >> np.uint64(32)


@jit
def _finish(state):
    """31 bits of a state, as a token id."""
    return np.int32((state * np.uint64(FINISH)) >> np.uint64(33))


@kept
def id_keys(ids, mask, rows, n, bucket, out):
    """Write the keys of bigrams (`n` 2), trigrams (3), or of (number of the bucket, token) (0)."""
    for i in range(len(out)):
        state_1 = state_2 = np.uint64(0)  # the states of the last token, and of the last two
        place = 0
        for t in range(end_of(mask[rows[i]])):
            if mask[rows[i], t] == 0:
                continue
            token = np.int64(ids[rows[i], t])
            if token < 0 or token > MAX_TOKEN_ID:
                return i, t
            state_3 = _mix(state_2, token)
            state_2 = _mix(state_1, token)
            state_1 = _mix(np.uint64(0), token)
            if n == 0:
                state = _mix(_mix(np.uint64(0), place // bucket), token)
            else:
                state = state_2 if n == 2 else state_3
            out[i, t] = _finish(state)
            place += 1
    return NO_ERROR, 0


@kept
def text_keys(ids, mask, rows, looks, hashes, breaks, out):
    """Write the keys of words (`breaks` 0), or of what lies between that number of line breaks.

    A unit's hash is that of its text without blanks, as a polynomial over its bytes, whatever
    tokens it is made of. `looks` and `hashes` are those of a `Vocabulary`.
    """
    unknown = len(looks) - 1
    for i in range(len(out)):
        pending = last = seen = np.int64(0)
        state = np.uint64(0)
        end = end_of(mask[rows[i]])
        for t in range(end):
            if mask[rows[i], t] == 0:
                continue
            token = np.int64(ids[rows[i], t])
            if token < 0 or token > MAX_TOKEN_ID:
                return i, t
            known = min(token, unknown)
            look = np.int64(looks[known])
            # Where units begin cannot be predicted, so no branch may depend on it.
            if breaks == 0:
                begins = 1 - (last >> 1 & look & 1)
                last = look
            else:
                pending += look >> LEAD_SHIFT & MANY
                is_text = 1 - (look >> 2 & 1)
                begins = seen & is_text & (pending >= breaks)
                seen |= is_text
                pending = look >> TAIL_SHIFT if is_text else pending
            state = (state if begins == 0 else np.uint64(0)) * hashes[known, 1] + hashes[known, 0]
            if known == unknown:
                state = _mix(state, token)
            # The key of the unit so far; a negative number where a unit begins.
            out[i, t] = _finish(state) | np.int32(-begins) << np.int32(31)
        # Every position gets the key that its unit has at its last one.
        key, ends = np.int32(0), True
        for t in range(end - 1, -1, -1):
            if mask[rows[i], t] != 0:
                here = out[i, t]
                key = here & np.int32(MAX_TOKEN_ID) if ends else key
                ends = here < 0
                out[i, t] = key
    return NO_ERROR, 0
