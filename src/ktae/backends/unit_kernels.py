"""The compiled loops of `ktae.backends.units`: each unmasked position's key, row by row."""

from __future__ import annotations

import numpy as np

from ktae.arrays import MAX_TOKEN_ID
from ktae.backends._kernel import jit

NO_ERROR = 2**62
"""In the row of a (row, column) of the first bad token id: there is none."""

MIX = 0x9E3779B97F4A7C15
FINISH = 0xD6E8FEB86659FD93
"""Odd, so that multiplying by them modulo 2**64 loses nothing."""

FIRST_IS_WORD = 1 << 0
LAST_IS_WORD = 1 << 1
BLANK = 1 << 2
LEAD_SHIFT = 3
TAIL_SHIFT = 5
MANY = 3
"""In a token's byte of looks: does its text begin, end with a word character; is it blank; and two
bits each for the line breaks before its first other character and, at most, within a later run of
blanks. For a blank token all of its line breaks are before. Counts go up to `MANY`."""

WORD_BREAKS = 0
"""As `breaks`: units are words and not what lies between that many line breaks."""


@jit
def mix(state, number):
    """The state after one more number from -1 on; mix(0, -1) is 0."""
    state = (state ^ np.uint64(number + 1)) * np.uint64(MIX)
    return state ^ state >> np.uint64(32)


@jit
def finish(state):
    """31 bits of a state, as a token id."""
    return np.int32((state * np.uint64(FINISH)) >> np.uint64(33))


@jit
def length_of(mask):
    """One past the last unmasked position. Eight bytes go at a time, and forwards, which memory is
    faster at: the mask must begin at a multiple of 8, and so do rows whose length is one."""
    end = len(mask)
    if end % 8 == 0:
        words, last = mask.view(np.uint64), -1
        for i in range(len(words)):
            last = i if words[i] != 0 else last
        end = 8 * (last + 1)
    while end > 0 and mask[end - 1] == 0:
        end -= 1
    return end


@jit
def token_keys(ids, mask, keys):
    """Write the ids of one rollout's tokens, one after another; return how many, and the position
    of a bad one (-1: none)."""
    count, bad = 0, False
    for t in range(len(mask)):
        count += mask[t] != 0
    if count == len(mask):  # no holes, as a rule: without a branch many tokens are done at a time
        for t in range(len(mask)):
            keys[t] = np.int32(ids[t])
            bad |= (ids[t] < 0) | (ids[t] > MAX_TOKEN_ID)
        if not bad:
            return count, -1
    count = 0
    for t in range(len(mask)):
        if mask[t] == 0:
            continue
        token = np.int64(ids[t])
        if token < 0 or token > MAX_TOKEN_ID:
            return count, t
        keys[count] = np.int32(token)
        count += 1
    return count, -1


@jit
def ngram_keys(keys, n):
    """Replace one rollout's tokens by the keys of bigrams (`n` 2) or trigrams (3)."""
    one = two = np.uint64(0)  # the states of the last token, and of the last two
    for t in range(len(keys)):
        token = np.int64(keys[t])
        three = mix(two, token)
        two = mix(one, token)
        one = mix(np.uint64(0), token)
        keys[t] = finish(two if n == 2 else three)


@jit
def ngram_rows(ids, mask, n, out):
    """Write the keys of bigrams (`n` 2) or trigrams (3); return the first bad (row, column)."""
    keys = np.empty(ids.shape[1], dtype=np.int32)
    for i in range(len(ids)):
        length = length_of(mask[i])
        count, bad = token_keys(ids[i, :length], mask[i, :length], keys)
        if bad >= 0:
            return i, bad
        ngram_keys(keys[:count], n)
        count = 0
        for t in range(length):
            if mask[i, t] != 0:
                out[i, t] = keys[count]
                count += 1
    return NO_ERROR, 0


@jit
def position_rows(ids, mask, bucket, out):
    """Write the keys of (number of the bucket, token); return the first bad (row, column)."""
    for i in range(len(ids)):
        position = 0
        for t in range(length_of(mask[i])):
            if mask[i, t] == 0:
                continue
            token = np.int64(ids[i, t])
            if token < 0 or token > MAX_TOKEN_ID:
                return i, t
            out[i, t] = finish(mix(mix(np.uint64(0), position // bucket), token))
            position += 1
    return NO_ERROR, 0


@jit
def text_rows(ids, mask, looks, hashes, breaks, out):
    """Write the keys of words, or of what lies between `breaks` line breaks.

    `looks`, `hashes`: see `ktae.estimators.vocabulary.Vocabulary`. A unit's hash is that of its
    text without blanks, as a polynomial over its bytes, whatever tokens it is made of. Where units
    begin cannot be predicted, so no branch may depend on it. Returns the first bad (row, column).
    """
    unknown = len(looks) - 1
    for i in range(len(ids)):
        length = length_of(mask[i])
        pending = last = seen = np.int64(0)
        state = np.uint64(0)
        for t in range(length):
            if mask[i, t] == 0:
                continue
            token = np.int64(ids[i, t])
            if token < 0 or token > MAX_TOKEN_ID:
                return i, t
            known = min(token, unknown)
            look = np.int64(looks[known])
            if breaks == WORD_BREAKS:
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
                state = mix(state, token)
            # The key of the unit so far; a negative number where a unit begins.
            out[i, t] = finish(state) | np.int32(-begins) << np.int32(31)
        _spread_back(mask[i], length, out[i])
    return NO_ERROR, 0


@jit
def _spread_back(mask, length, out):
    """Give every position the key that its unit has at its last one."""
    key, ends = np.int32(0), True
    for t in range(length - 1, -1, -1):
        if mask[t] != 0:
            found = out[t]
            key = found & np.int32(MAX_TOKEN_ID) if ends else key
            ends = found < 0
            out[t] = key
