"""The CPU backend: one hash table a group, compiled by numba, threads over groups.

Each group takes three passes, all linear in its tokens. *Count*: every token finds its key's number
in the hash table, and the number is written down. *Compute*: each number gets its credit. *Spread*:
each token gets the credit of its number. The numbers are written where the credit goes, into the
output, so that they take no memory of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktae.arrays import AT_ONCE, MAX_TOKEN_ID
from ktae.backends.compiled import (
    NO_ERROR,
    association,
    credit_of,
    direction_of,
    group_totals,
    in_threads,
    jit,
    kept,
    look_at_rows,
    plain,
)
from ktae.batch import Batch, bad_token_id, group_bounds
from ktae.statistics import Formula

NO_CREDIT = 0
"""The number of all tokens that are not counted: masked, or of unknown correctness."""

FEWEST_BITS, FIRST_BITS = 10, 16
"""A hash table has at least 2**10 slots, and begins with at most 2**16."""

HASH = 0x9E3779B97F4A7C15
"""Odd: what a key is multiplied by, and the top bits of the product spread it evenly."""
TAKEN = 1 << 31
"""In the upper half of a slot, beside the key: the slot holds one."""
LOW = 0xFFFFFFFF

MOST_PAIRS = 1 << 16
"""Pairs (a, b) of a group whose statistics are remembered; 510 rollouts have so many."""

MOST_AT_ONCE = 1 << 22
"""Tokens of a group that are counted at a time. A larger group is counted in parts, each of some of
its keys, so that its memory stays within 300 megabytes."""


class Chunk(NamedTuple):
    """Consecutive groups of a batch. In group g are rollouts `starts[g]` to `starts[g + 1]`."""

    ids: np.ndarray
    mask: np.ndarray
    places: np.ndarray
    """(n,) where in `ids` and `mask` each rollout lies."""
    rows: np.ndarray
    """(n,) where in the output."""
    starts: np.ndarray
    scores: np.ndarray
    """(n,) float64, NaN where unknown."""
    look_up: bool
    """Count rollouts of unknown correctness with weight 0, so that their tokens get credit, too."""


class Workspace(NamedTuple):
    """What a group is counted in. Most of it is never touched, and so takes no memory."""

    most: int
    """`MOST_AT_ONCE`."""
    most_bits: int
    slots: np.ndarray
    """(2**most_bits,) uint64, a hash table: a key with `TAKEN` above, its number below; 0: free."""
    seen: np.ndarray
    """(n_keys,) uint64, by a key's number: the key above, below the last rollout that holds it,
    counted from 1."""
    counts: np.ndarray
    """(2 n_keys,) int64. At 2 i: how many rollouts hold key i. At 2 i + 1: how often it occurs
    again in a rollout that holds it already. Incorrect rollouts count in the lower half of the
    integer and correct ones in the upper. With graded scores all count in the lower one."""
    sums: np.ndarray
    """(n_keys, 2) float64: the scores' sum over the rollouts that hold the key, and over its
    occurrences. Without graded scores it has no rows."""
    credit: np.ndarray
    """(n_keys,) float32"""
    memo: np.ndarray
    """(n, 3) float64, by pair (a, b): strength, effect, and the whole credit of a key that no
    rollout holds twice; NaN where not computed yet."""


def credit(batch: Batch, formula: Formula) -> np.ndarray:
    """(B, T) float32 credit; an InputError for a token id that is out of range and unmasked.

    `AT_ONCE` padded positions, or a larger group, are taken at a time.
    """
    out = np.zeros(batch.token_ids.shape, dtype=np.float32)
    width = max(1, out.shape[1])
    rows, starts = batch.by_group()
    bounds = group_bounds(starts, AT_ONCE // width)
    mask_bt = batch.counted() if batch.ignored else batch.mask
    spaces: list[Workspace] = []  # a thread takes one, and lays it back

    def fill(groups: slice) -> tuple[int, int]:
        part = rows[starts[groups.start] : starts[groups.stop]]
        within = starts[groups.start : groups.stop + 1] - starts[groups.start]
        arrays = (*plain(batch.token_ids, mask_bt, part), part, within, batch.evidence[part])
        try:
            space = spaces.pop()
        except IndexError:
            space = workspace(int(np.diff(starts).max(initial=0)), width, batch.graded)
        chunk = Chunk(*arrays, batch.look_up_unknown)
        row, column = credit_groups(chunk, formula, space, out, out.view(np.int32))
        spaces.append(space)
        return row, column

    row, column = min(in_threads(fill, bounds), default=(NO_ERROR, 0))
    if row != NO_ERROR:
        raise bad_token_id(batch.token_ids, row, column)
    return out


def workspace(largest: int, width: int, graded: bool) -> Workspace:
    """Memory to count groups in, of at most `largest` rollouts of `width` positions each."""
    n_keys = largest * width + 1  # with NO_CREDIT
    bits = max(FEWEST_BITS, (2 * n_keys).bit_length())
    return Workspace(
        most=MOST_AT_ONCE,
        most_bits=bits,
        slots=np.zeros(1 << bits, dtype=np.uint64),
        seen=np.zeros(n_keys, dtype=np.uint64),
        counts=np.zeros(2 * n_keys, dtype=np.int64),
        sums=np.zeros((n_keys if graded else 0, 2)),
        credit=np.empty(n_keys, dtype=np.float32),
        memo=np.empty((min(MOST_PAIRS, (largest // 2 + 1) * ((largest + 1) // 2 + 1)), 3)),
    )


# Compiled from here on. Types of arguments are inferred by numba.


@kept
def credit_groups(chunk, formula, space, out, numbers):
    """Write the credit of a chunk's groups to `out`, of which `numbers` is the memory as int32.

    Returns (row, column) of the first bad token id, or (NO_ERROR, 0).
    """
    ends = np.empty(len(chunk.rows), dtype=np.int64)
    tokens = np.empty(len(chunk.rows), dtype=np.int64)
    bad_row, bad_column = look_at_rows(
        chunk.ids, chunk.mask, chunk.places, chunk.rows, ends, tokens
    )
    for g in range(len(chunk.starts) - 1 if bad_row == NO_ERROR else 0):
        begin, end = chunk.starts[g], chunk.starts[g + 1]
        margins, lengths = group_totals(tokens[begin:end], chunk.scores[begin:end])
        if margins.variance == 0.0:
            continue  # there is nothing to compare, and so nothing to count
        others = 0
        while tokens[begin:end].sum() > (others + 1) * space.most:
            others = 2 * others + 1
        for part in range(others + 1):
            # Count: from here on `numbers` holds the number of each counted token's key.
            n_used = count_group(chunk, begin, end, ends, tokens, part, others, space, numbers)
            # Compute, once for each key.
            fill_credit(n_used, margins, lengths, formula, space)
            for i in range(begin, end):
                ids, row = chunk.ids[chunk.places[i], : ends[i]], chunk.rows[i]
                spread(ids, part, others, space.credit, out[row], numbers[row])
            # Forget what was counted.
            space.counts[: 2 * n_used] = 0
            space.sums[:n_used] = 0.0
    return bad_row, bad_column


@jit
def part_of(key, others):
    """Which of `others` + 1 parts a key is of, by bits of its hash that choose no slot."""
    return (key * np.uint64(HASH)) >> np.uint64(32) & np.uint64(others)


@jit
def spread(ids, part, others, credit, out, numbers):
    """Write the credit of a rollout's tokens in place of their numbers."""
    for t in range(len(ids)):  # masked positions have number 0, and so no credit
        if others == 0 or part_of(np.uint64(ids[t]), others) == part:
            out[t] = credit[numbers[t]]


@jit
def count_group(chunk, begin, end, ends, tokens, part, others, space, numbers):
    """Number the tokens of a group's rollouts and count them; one more than the largest number."""
    # As many slots as tokens to begin with: there are as a rule far fewer distinct ones, and small
    # tables stay in the processor's cache.
    n_used, bits, entered = NO_CREDIT + 1, FEWEST_BITS, 0
    most_bits = min(FIRST_BITS, space.most_bits)
    while 1 << bits < tokens[begin:end].sum() // (others + 1) and bits < most_bits:
        bits += 1
    for i in range(begin, end):
        score = chunk.scores[i]
        if tokens[i] == 0 or (np.isnan(score) and not chunk.look_up):
            continue
        # At most half of the slots are used before a rollout, and it cannot fill the others.
        while max(2 * n_used, n_used + tokens[i]) >= 1 << bits and bits < space.most_bits:
            bits += 1
        if bits > entered:
            enter_keys(space.slots, space.seen, n_used, bits)
            entered = bits
        ids, mask = chunk.ids[chunk.places[i]], chunk.mask[chunk.places[i], : ends[i]]
        which = (i - begin + 1, part, others, bits)
        n_used = count_rollout(ids, mask, score, which, space, n_used, numbers[chunk.rows[i]])
    return n_used


@jit
def enter_keys(slots, seen, n_used, bits):
    """Write the keys that have a number into the first 2**bits slots, and nothing else."""
    slots[: 1 << bits] = 0
    for index in range(NO_CREDIT + 1, n_used):
        key = seen[index] >> np.uint64(32)
        entry = (key | np.uint64(TAKEN)) << np.uint64(32)
        slots[slot_of(slots, entry, key, np.uint64(bits))] = entry | np.uint64(index)


@jit
def slot_of(slots, entry, key, bits):
    """Where `entry`, a key with number 0, stands in the first 2**bits slots, or would stand.

    About every second token of a rollout is new to its group, so no branch may depend on which of
    the two it is. What the slot's upper half differs by from the entry's is 0 where it holds the
    key, below 2**31 where it holds another one, and above where it is free.
    """
    # The hash's top bits spread small numbers evenly, and frequent tokens have small ids.
    step, last_slot = np.uint64(1), (np.uint64(1) << bits) - np.uint64(1)
    slot = (key * np.uint64(HASH)) >> (np.uint64(64) - bits)
    # Less 1, a difference of 0 becomes the largest number of all: one comparison ends the search
    # for both a key that is there and a slot that is free.
    while ((slots[slot] ^ entry) >> np.uint64(32)) - step < np.uint64(MAX_TOKEN_ID):
        slot = slot + step & last_slot
    return slot


@jit
def count_rollout(ids, mask, score, which, space, n_used, numbers):
    """Count one rollout's tokens, and write the number of each token's key to `numbers`.

    `which` is its place in the group, from 1; the part, how many others there are, and the bits of
    the hash table. Returns one more than the largest number of the group.
    """
    # A field read within the loop would be counted as a reference each time.
    slots, seen, counts, sums = space.slots, space.seen, space.counts, space.sums
    place, part, others, bits = which
    graded, known = len(sums) > 0, not np.isnan(score)
    # Correct rollouts count in the upper half of the integers, incorrect and graded ones below.
    step = np.int64(known) << (np.int64(32) if known and not graded and score != 0.0 else 0)
    for t in range(len(mask)):
        if mask[t] == 0:
            continue
        key = np.uint64(ids[t])
        if others != 0 and part_of(key, others) != part:
            continue
        entry = (key | np.uint64(TAKEN)) << np.uint64(32)
        slot = slot_of(slots, entry, key, np.uint64(bits))
        # A key that the slot does not hold yet gets the next number, and the slot.
        is_new = slots[slot] == 0
        index = np.uint64(n_used) if is_new else slots[slot] & np.uint64(LOW)
        n_used += is_new
        slots[slot] = entry | index
        numbers[t] = np.int32(index)
        holder = key << np.uint64(32) | np.uint64(place)
        again = (seen[index] == holder) & (not is_new)
        seen[index] = holder
        counts[index << np.uint64(1) | np.uint64(again)] += step
        if graded and known:
            sums[index, 0] += (not again) * score
            sums[index, 1] += score
    return n_used


@jit
def counts_of(index, counts, sums):
    """A, m, and the occurrences in correct and in incorrect rollouts of key number `index`."""
    pair, again = counts[2 * index], counts[2 * index + 1]
    if len(sums) > 0:
        a, occur_true = sums[index, 0], sums[index, 1]
        return a, float(pair), occur_true, pair + again - occur_true
    a, b = pair >> 32, pair & LOW
    return float(a), float(a + b), float(a + (again >> 32)), float(b + (again & LOW))


@jit
def fill_credit(n_used, margins, lengths, formula, space):
    """Compute the credit of every number.

    A group of verdicts has few pairs (a, b) and many keys, so what the pair says is computed once.
    """
    # What is called for each key gets arrays, not the workspace, whose references are counted.
    counts, sums, credit, memo = space.counts, space.sums, space.credit, space.memo
    n_false = int(margins.n_false)
    n_pairs = (int(margins.n_true) + 1) * (n_false + 1)
    remembered = len(sums) == 0 and n_pairs <= min(len(memo), 4 * n_used)
    if remembered:  # what earlier groups left is forgotten
        memo[:n_pairs, 0] = np.nan
    credit[NO_CREDIT] = 0.0
    for index in range(NO_CREDIT + 1, n_used):
        pair, again = counts[2 * index], counts[2 * index + 1]
        if pair == 0:  # it is in rollouts of unknown correctness alone
            credit[index] = 0.0
            continue
        entry = (pair >> 32) * (n_false + 1) + (pair & LOW) if remembered else 0
        if not remembered or np.isnan(memo[entry, 0]):
            a, m, _, _ = counts_of(index, counts, sums)
            strength, effect, _, _ = association(a, m, margins, formula, False)
            memo[entry, 0], memo[entry, 1] = strength, effect
            if remembered:
                direction = direction_of(effect, a, m - a, margins, lengths, formula)
                memo[entry, 2] = credit_of(strength * direction, formula)
        # Most keys are in no rollout twice. Then the pair says how often they occur, too, and so
        # the whole credit can be remembered by it.
        if remembered and again == 0:
            credit[index] = memo[entry, 2]
        else:
            _, _, occur_true, occur_false = counts_of(index, counts, sums)
            effect = memo[entry, 1]
            direction = direction_of(effect, occur_true, occur_false, margins, lengths, formula)
            credit[index] = credit_of(memo[entry, 0] * direction, formula)
