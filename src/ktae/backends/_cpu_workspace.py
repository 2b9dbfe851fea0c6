"""The tables that one thread of the CPU backend counts a group in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktae.arrays import MAX_TOKEN_ID
from ktae.backends._cpu_statistics import Memo, empty_memo
from ktae.backends._kernel import jit

INITIAL_BITS = 10

GROWTH_BITS = 2
"""A table that is too small is replaced by one of four times the slots, and the group is counted
again: so all that is counted in vain is a third of what counts."""

TOKEN_BITS = 31

DIRECT_IDS = 1 << 18
"""Smaller token ids than this, which most vocabularies have alone, need no hash."""
DIRECT_BITS = 16
"""Half of an entry for them, so that groups with more slots are hashed as well."""

CELLS_PER_KEY, CELLS_PER_WORD = 8, 32


class Workspace(NamedTuple):
    """What one thread counts a group in, reused from group to group.

    The distinct keys of a group (token ids, or those of larger units) have indices in the order
    in which they first occur, so that frequent ones lie side by side. `direct` or `table` finds
    the index; the rest is read by it.
    """

    bits: int
    """There are 2**bits slots, and as many indices."""
    direct: np.ndarray
    """(DIRECT_IDS,) uint32, by key, for groups with small keys alone. From the top: the number of
    the filling that wrote it (so that what earlier groups wrote counts as free and nothing has to
    be cleared), and the key's index (16 bits each)."""
    table: np.ndarray
    """(n_slots,) uint64: for other groups, a hash table. From the top: the number of the filling,
    the key (31) and its index (bits)."""
    fillings: np.ndarray
    """(1,) int64: how often one of the two was filled since they were clear."""
    last: np.ndarray
    """(n_slots,) int32: the last rollout that holds the key, as its place in the group plus 1."""
    counts: np.ndarray
    """(2 n_slots,) int64. At 2 i: how many rollouts hold key i; at 2 i + 1: how often it occurs
    again in one that it was already in. Incorrect rollouts are in the lower half and correct ones
    in the upper, so that a rollout's class is a shift and no branch. 0 between groups."""
    scores: np.ndarray
    """(n_slots, 2) float64, or no row without graded scores: their sum over the rollouts that hold
    the key and over its occurrences. All rollouts then count as incorrect ones above. 0 between
    groups."""
    credit: np.ndarray
    """(n_slots,) float32"""
    cells: np.ndarray
    """(n_words,) uint64, 32 cells each, for `_mark_singles`. 0 between groups."""
    memo: Memo


def workspace(largest: int, width: int, bits: int, graded: bool) -> Workspace:
    """For groups of at most `largest` rollouts, with at least 2**bits slots.

    Before each rollout at most half of the slots are used, so that with four times a rollout's
    length the table cannot fill up within one.
    """
    bits = max(bits, (4 * width - 1).bit_length() if width else 0)
    n_slots = 1 << bits
    n_words = 1 << (largest * width * CELLS_PER_KEY // CELLS_PER_WORD).bit_length()
    return Workspace(
        bits, np.zeros(DIRECT_IDS, dtype=np.uint32), np.zeros(n_slots, dtype=np.uint64),
        np.zeros(1, dtype=np.int64), np.zeros(n_slots, dtype=np.int32),
        np.zeros(2 * n_slots, dtype=np.int64), np.zeros((n_slots if graded else 0, 2)),
        np.zeros(n_slots, dtype=np.float32), np.zeros(n_words, dtype=np.uint64), empty_memo(),
    )  # fmt: skip


@jit
def next_filling(space):
    """The number of a new filling, from 1; when they are used up both tables are cleared."""
    bits = min(64 - TOKEN_BITS - space.bits, 32 - DIRECT_BITS)
    if space.fillings[0] == (1 << bits) - 1:
        space.table[:] = 0
        space.direct[:] = 0
        space.fillings[0] = 0
    space.fillings[0] += 1
    return np.uint64(space.fillings[0])


@jit
def is_direct(keys, space):
    """Whether all these keys, and their indices, are small enough for `space.direct`."""
    largest = np.int32(0)
    for key in keys:
        largest = max(largest, key)
    return largest < len(space.direct) and space.bits <= DIRECT_BITS


@jit
def slot_of(table, entry, key, bits):
    """Where `entry`, a filling and a key with index 0, stands in the table, or would stand.

    No branch may depend on which of the two, since about every second token of a rollout is new to
    its group: what the slot differs by is 0 where it holds the key, below 2**31 where it holds
    another one of this filling, and above where it is free. The hash's top bits spread small
    numbers evenly, and frequent tokens have small ids.
    """
    one, last_slot = np.uint64(1), np.uint64(len(table) - 1)
    slot = (key * np.uint64(0x9E3779B97F4A7C15)) >> (np.uint64(64) - bits)
    while ((table[slot] ^ entry) >> bits) - one < np.uint64(MAX_TOKEN_ID):
        slot = slot + one & last_slot
    return slot


@jit
def look_up(key, stamp, table, bits):
    """Where the key stands in a workspace's hash table or its direct one, or would stand; what
    stands there as its index; and whether the key does.

    Which table it is, by its dtype, is known when this is compiled.
    """
    if table.itemsize == 4:
        found = table[key]
        held = found >> np.uint32(DIRECT_BITS) == np.uint32(stamp)
        return key, np.uint64(found & np.uint32((1 << DIRECT_BITS) - 1)), held
    entry = (stamp << np.uint64(TOKEN_BITS) | key) << bits
    slot = slot_of(table, entry, key, bits)
    found = table[slot]
    return slot, found & np.uint64(len(table) - 1), (found ^ entry) >> bits == 0


@jit
def index_of(key, stamp, table, bits, n_used):
    """The key's index, which is `n_used` for a new one, and whether it is new. Then it is held."""
    slot, index, held = look_up(key, stamp, table, bits)
    index = index if held else np.uint64(n_used)
    if table.itemsize == 4:
        table[slot] = np.uint32(stamp) << np.uint32(DIRECT_BITS) | np.uint32(index)
    else:
        table[slot] = (stamp << np.uint64(TOKEN_BITS) | key) << bits | index
    return index, not held


@jit
def clear(space, n_used):
    """Make the workspace ready for another group, but for its tables."""
    space.counts[: 2 * n_used] = 0
    space.scores[:n_used] = 0.0
