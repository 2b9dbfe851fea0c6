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

CELLS_PER_KEY, CELLS_PER_WORD = 8, 32


class Workspace(NamedTuple):
    """What one thread counts a group in, reused from group to group.

    The distinct keys of a group (token ids, or those of larger units) have indices in the order
    in which they first occur, so that frequent ones lie side by side. `table` finds the
    index; the rest is read by it.
    """

    bits: int
    """There are 2**bits slots."""
    table: np.ndarray
    """(n_slots,) uint64, a hash table. From the top: the number of the filling of the table that
    wrote the slot (33 - bits wide, so that earlier groups' slots count as free and nothing has to
    be cleared), the key (31) and its index (bits)."""
    fillings: np.ndarray
    """(1,) int64: how often the table was filled since it was clear."""
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


def workspace(
    n_groups: int, largest: int, width: int, bits: int, graded: bool, with_cells: bool
) -> Workspace:
    """For groups of at most `largest` rollouts, with at least 2**bits slots. N-grams need cells.
    `n_groups` bounds what can be remembered of groups.

    Before each rollout at most half of the slots are used, so that with four times a rollout's
    length the table cannot fill up within one.
    """
    bits = max(bits, (4 * width - 1).bit_length() if width else 0)
    n_slots = 1 << bits
    n_cells = largest * width * CELLS_PER_KEY if with_cells else 0
    n_words = 1 << (n_cells // CELLS_PER_WORD).bit_length()
    return Workspace(
        bits, np.zeros(n_slots, dtype=np.uint64), np.zeros(1, dtype=np.int64),
        np.zeros(n_slots, dtype=np.int32), np.zeros(2 * n_slots, dtype=np.int64),
        np.zeros((n_slots if graded else 0, 2)), np.zeros(n_slots, dtype=np.float32),
        np.zeros(n_words, dtype=np.uint64), empty_memo(n_groups, largest),
    )  # fmt: skip


@jit
def next_filling(space):
    """The number of a new filling of the table, from 1; when they are used up it is cleared."""
    if space.fillings[0] == (1 << (64 - TOKEN_BITS - space.bits)) - 1:
        space.table[:] = 0
        space.fillings[0] = 0
    space.fillings[0] += 1
    return np.uint64(space.fillings[0])


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
def clear(space, n_used):
    """Make the workspace ready for another group, but for its table."""
    space.counts[: 2 * n_used] = 0
    space.scores[:n_used] = 0.0
