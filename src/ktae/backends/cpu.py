"""The CPU backend: one hash table a group, compiled by numba, threads over groups.

Each group takes three passes, all linear in its tokens. *Count*: every token finds its key's number
in the hash table, and the number is written down. *Compute*: each number gets its credit. *Spread*:
each token gets the credit of its number. The numbers are written where the credit goes, into the
output, so that they take no memory of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktae.arrays import MAX_TOKEN_ID
from ktae.backends._compiled import AT_ONCE, NO_ERROR, end_of, in_threads, jit, kept, plain
from ktae.backends.formulas import (
    association,
    credit_of,
    direction_of,
    fisher_score,
    group_totals,
)
from ktae.backends.table import CreditTable
from ktae.batch import Batch, bad_token_id, group_extreme
from ktae.statistics import Formula

NO_CREDIT = 0
"""The number of all tokens that are not counted: masked, or of unknown correctness."""

FEWEST_BITS, GROWTH_BITS = 10, 2
"""A group's hash table begins with 2**10 slots. One that is half full is replaced by one of four
times the slots and the group is counted again: what is counted in vain is a third of what counts.
Small tables stay in the processor's cache, which matters more."""

TOKEN_BITS = 31
HASH = 0x9E3779B97F4A7C15
"""Odd: what a key is multiplied by, and the top bits of the product spread it evenly."""
LOW = 0xFFFFFFFF
N_COLUMNS = 14
"""Of a table: group, token id, a, b, c, d, tf_true, tf_false, p, F, IG, direction, value, credit.
"""

TABLE_AT_ONCE = 1 << 16
"""Padded positions whose table a thread makes at a time: its rows fit a buffer of some megabytes,
which is used again and again. Fresh memory costs more than what is computed for it."""

MOST_PAIRS = 1 << 16
"""Pairs (a, b) of a group whose statistics are remembered: a group of 510 rollouts has so many."""


MOST_AT_ONCE = 1 << 22
"""Positions of a group that are counted at a time. A larger group is counted in parts, each of some
of its keys, so that its memory stays within 200 megabytes."""


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


class Workspace(NamedTuple):
    """What a group is counted in. Most of it is never touched, and so takes no memory."""

    index_bits: int
    table: np.ndarray
    """(2**index_bits,) uint64, a hash table. From the top: the number of the filling that wrote the
    slot (so that slots of earlier groups count as free and nothing has to be cleared), the key (31
    bits), and its number (index_bits)."""
    state: np.ndarray
    """(5,) int64: slots in use are the first 2**state[0]; state[1] is the number of the filling.
    The group's keys are counted in state[3] + 1 parts, a power of 2, and state[2] is this one, for
    each state[4] positions (`MOST_AT_ONCE`)."""
    last: np.ndarray
    """(n_keys,) int32, by a key's number: the last rollout that holds it, counted from 1."""
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
    """(n, 5) float64, by pair (a, b): strength, effect, p, information gain, and the whole credit
    of a key that no rollout holds twice; NaN where not computed yet."""
    tokens: np.ndarray
    """(n,) int64: how many tokens of each rollout of the group count."""
    table_rows: np.ndarray
    """(n, N_COLUMNS) float64: the credit table of some groups. No rows where none is asked for."""


def credit(batch: Batch, formula: Formula) -> np.ndarray:
    """(B, T) float32 credit; an InputError for a token id that is out of range and unmasked."""
    return _computed(batch, formula, AT_ONCE)[0]


def table(batch: Batch, formula: Formula) -> CreditTable:
    """The credit table of the batch, with the same error."""
    parts = _computed(batch, formula, TABLE_AT_ONCE, with_table=True)[1]
    types = [np.int64] * (2 if batch.graded else 6) + [np.float64] * N_COLUMNS
    group, *columns = (
        np.concatenate([np.empty(0), *(rows[:, k] for rows in parts)]).astype(types[k], copy=False)
        for k in range(N_COLUMNS)
    )
    assert batch.labels is not None
    return CreditTable(batch.labels[group], *columns)


def _computed(
    batch: Batch, formula: Formula, at_once: int, *, with_table: bool = False
) -> tuple[np.ndarray, list[np.ndarray]]:
    """(B, T) the credit; or, if it is asked for, the table, (n, N_COLUMNS) of some groups each.

    `at_once` padded positions, or a whole group if that is larger, are taken at a time.
    """
    out = np.zeros(batch.token_ids.shape, dtype=np.float32)
    width = max(1, out.shape[1])
    rows, starts = batch.by_group()
    rows_at_once = max(1, at_once // width)
    begins = np.searchsorted(starts[:-1], np.arange(0, len(rows), rows_at_once))
    bounds = sorted({*begins.tolist(), len(starts) - 1})
    most = int(np.diff(starts[bounds]).max(initial=0)) if with_table else 0
    mask_bt = batch.counted() if batch.ignored else batch.mask
    scores_b = batch.evidence
    if not with_table:
        # Where all scores are equal there is nothing to compare, and so nothing to count.
        of_group = (scores_b, batch.known(), batch.group_b)
        differ_b = group_extreme(*of_group, "min") < group_extreme(*of_group, "max")
        scores_b = np.where(differ_b, scores_b, np.nan)
    spaces: list[Workspace] = []  # a thread takes one, and lays it back

    def fill(groups: slice) -> tuple[int, int, np.ndarray]:
        part = rows[starts[groups.start] : starts[groups.stop]]
        within = starts[groups.start : groups.stop + 1] - starts[groups.start]
        arrays = plain(batch.token_ids, mask_bt, part)
        chunk = Chunk(*arrays, part, within, scores_b[part])
        try:
            space = spaces.pop()
        except IndexError:
            space = workspace(batch, starts, most * width)
        arguments = (chunk, batch.look_up_unknown, formula, space)
        row, column, n_rows = credit_groups(*arguments, out, out.view(np.int32))
        entries = space.table_rows[:n_rows]
        entries = entries[np.lexsort([entries[:, 1], entries[:, 0]])]
        entries[:, 0] += groups.start
        spaces.append(space)
        return row, column, entries

    parts = in_threads(fill, bounds)
    row, column = min((part[:2] for part in parts), default=(NO_ERROR, 0))
    if row != NO_ERROR:
        raise bad_token_id(batch.token_ids, row, column)
    return out, [part[2] for part in parts]


def workspace(batch: Batch, starts: np.ndarray, table_rows: int) -> Workspace:
    """What the largest of the batch's groups, which have these bounds, can be counted in."""
    largest, width = int(np.diff(starts).max(initial=0)), batch.token_ids.shape[1]
    n_keys = largest * width + 1  # with NO_CREDIT
    # Before each rollout at most half of the slots are used. So with four times a rollout's length
    # the table cannot fill up within one.
    fewest = max(FEWEST_BITS, (4 * width).bit_length())
    bits = max(fewest, (2 * largest * width - 1).bit_length())
    return Workspace(
        index_bits=bits,
        table=np.zeros(1 << bits, dtype=np.uint64),
        state=np.array([fewest, 0, 0, 0, MOST_AT_ONCE]),
        last=np.empty(n_keys, dtype=np.int32),
        counts=np.zeros(2 * n_keys, dtype=np.int64),
        sums=np.zeros((n_keys if batch.graded else 0, 2)),
        credit=np.empty(n_keys, dtype=np.float32),
        memo=np.empty((min(MOST_PAIRS, (largest // 2 + 1) * ((largest + 1) // 2 + 1)), 5)),
        tokens=np.empty(largest, dtype=np.int64),
        table_rows=np.empty((table_rows, N_COLUMNS)),
    )


# Compiled from here on. Types of arguments are inferred by numba.


@kept
def credit_groups(chunk, look_up, formula, space, out, numbers):
    """Write the credit of a chunk's groups to `out`, of which `numbers` is the memory as int32.

    With `look_up`, rollouts of unknown correctness get the credit of the group's keys, too. If the
    workspace has rows for a table, these are filled in instead. Returns (row, column) of the bad
    token id with the smallest row, or (NO_ERROR, 0), and how many rows the table has got.
    """
    ends = np.empty(len(chunk.rows), dtype=np.int64)
    n_rows = np.int64(0)  # a literal would be another type, and kernels compiled for both
    bad_row, bad_column = look_at_rows(chunk, ends)
    for g in range(len(chunk.starts) - 1 if bad_row == NO_ERROR else 0):
        begin, end = chunk.starts[g], chunk.starts[g + 1]
        space.state[3] = 0
        while (end - begin) * chunk.ids.shape[1] > (space.state[3] + 1) * space.state[4]:
            space.state[3] = 2 * space.state[3] + 1
        for part in range(space.state[3] + 1):
            space.state[2] = part
            # Count: from here on `numbers` holds the number of each counted token's key.
            n_used = count_group(chunk, begin, end, ends, space, numbers)
            totals = group_totals(space.tokens, chunk.scores[begin:end])
            # Compute, once for each key.
            if len(space.table_rows) > 0:
                n_rows = fill_table(g, n_used, totals, formula, space, n_rows)
            elif n_used > NO_CREDIT + 1:  # else nothing was counted, and so nothing was written
                fill_credit(n_used, totals, formula, space)
                for i in range(begin, end):
                    place, row = chunk.places[i], chunk.rows[i]
                    ids, mask = chunk.ids[place], chunk.mask[place, : ends[i]]
                    if look_up and np.isnan(chunk.scores[i]):
                        find_keys(ids, mask, space, numbers[row])
                    spread(ids, mask, space, out[row], numbers[row])
            clear(space, n_used)
    return bad_row, bad_column, n_rows


@jit
def look_at_rows(chunk, ends):
    """Fill in one past each rollout's last unmasked position; (row, column) of the first bad id."""
    bad_row, bad_column = NO_ERROR, 0
    for i in range(len(chunk.rows)):
        ids, mask = chunk.ids[chunk.places[i]], chunk.mask[chunk.places[i]]
        # First only whether there is a bad one: without a branch the processor looks at many
        # positions in one step. Which one it is matters once, when all is over.
        ends[i], bad = end_of(mask), False
        for t in range(ends[i]):
            bad |= (mask[t] != 0) & ((ids[t] < 0) | (ids[t] > MAX_TOKEN_ID))
        if bad and chunk.rows[i] < bad_row:
            bad_row = chunk.rows[i]
            for t in range(ends[i] - 1, -1, -1):
                if mask[t] != 0 and (ids[t] < 0 or ids[t] > MAX_TOKEN_ID):
                    bad_column = t
    return bad_row, bad_column


@jit
def spread(ids, mask, space, out, numbers):
    """Write the credit of a rollout's tokens in place of their numbers."""
    credit, part, others = space.credit, np.uint64(space.state[2]), np.uint64(space.state[3])
    if others == 0:
        for t in range(len(mask)):  # masked positions have number 0, and so no credit
            out[t] = credit[numbers[t]]
        return
    for t in range(len(mask)):
        if mask[t] != 0 and part_of(np.uint64(ids[t]), others) == part:
            out[t] = credit[numbers[t]]


@jit
def part_of(key, others):
    """Which of `others` + 1 parts a key is of, by bits of its hash that choose no slot."""
    return (key * np.uint64(HASH)) >> np.uint64(32) & others


@jit
def clear(space, n_used):
    """Forget what was counted of a group."""
    # The table itself stays as it is: another number of the filling makes all of its slots free.
    for k in range(2 * n_used):
        space.counts[k] = 0
    for k in range(min(n_used, len(space.sums))):
        space.sums[k, 0] = space.sums[k, 1] = 0.0


@jit
def count_group(chunk, begin, end, ends, space, numbers):
    """Fill the table with the known rollouts from `begin` to `end`, and number their tokens.

    Returns one more than the largest number.
    """
    while True:
        # Another filling of the table. When their numbers are used up, the table is cleared.
        space.state[1] += 1
        if space.state[1] >> (64 - TOKEN_BITS - space.index_bits) > 0:
            for slot in range(len(space.table)):
                space.table[slot] = 0
            space.state[1] = 1
        n_used, most = NO_CREDIT + 1, NO_CREDIT + 1 + (1 << (space.state[0] - 1))
        for i in range(begin, end):
            space.tokens[i - begin] = 0
            if not np.isnan(chunk.scores[i]) and n_used <= most:
                place, score = chunk.places[i], chunk.scores[i]
                ids, mask, row = chunk.ids[place], chunk.mask[place, : ends[i]], chunk.rows[i]
                n_used = count_rollout(ids, mask, i - begin, score, space, n_used, numbers[row])
        if n_used <= most:
            return n_used
        # More than half of the slots are used. Begin again in a larger table, which later groups
        # of the batch keep: they are likely to be as large.
        clear(space, n_used)
        space.state[0] = min(space.state[0] + GROWTH_BITS, space.index_bits)


@jit
def slot_of(table, entry, key, bits, index_bits):
    """Where `entry`, a filling and a key with number 0, stands in the table, or would stand.

    About every second token of a rollout is new to its group, so no branch may depend on which of
    the two it is. What the slot differs by from the entry, without its number, is 0 where it holds
    the key, below 2**31 where it holds another key of this filling, and above where it is free.
    """
    # The hash's top bits spread small numbers evenly, and frequent tokens have small ids.
    step, last_slot = np.uint64(1), (np.uint64(1) << bits) - np.uint64(1)
    slot = (key * np.uint64(HASH)) >> (np.uint64(64) - bits)
    # Less 1, a difference of 0 becomes the largest number of all: one comparison ends the search
    # for both a key that is there and a slot that is free.
    while ((table[slot] ^ entry) >> index_bits) - step < np.uint64(MAX_TOKEN_ID):
        slot = slot + step & last_slot
    return slot


@jit
def count_rollout(ids, mask, place, score, space, n_used, numbers):
    """Count one rollout's tokens, and write the number of each token's key to `numbers`.

    Returns one more than the largest number that the group uses.
    """
    # A field read within the loop would be counted as a reference each time.
    table, last, counts, sums = space.table, space.last, space.counts, space.sums
    bits, index_bits = np.uint64(space.state[0]), np.uint64(space.index_bits)
    stamp, index_mask = np.uint64(space.state[1]) << TOKEN_BITS, np.uint64(len(table) - 1)
    part, others = np.uint64(space.state[2]), np.uint64(space.state[3])
    graded, holder = len(sums) > 0, np.int32(place + 1)
    # Correct rollouts count in the upper half of the integers, incorrect and graded ones below.
    step = np.int64(1) << (np.int64(0) if graded else 32 * np.int64(score))
    n_tokens = 0
    for t in range(len(mask)):
        if mask[t] == 0:
            continue
        n_tokens += 1
        key = np.uint64(ids[t])
        if part_of(key, others) != part:
            continue
        entry = (stamp | key) << index_bits
        slot = slot_of(table, entry, key, bits, index_bits)
        # A key that the slot does not hold yet gets the next number, and the slot.
        is_new = (table[slot] ^ entry) >> index_bits != 0
        index = np.uint64(n_used) if is_new else table[slot] & index_mask
        n_used += is_new
        table[slot] = entry | index
        numbers[t] = np.int32(index)
        # `last` is not cleared between groups, so it tells something of keys alone that are there.
        again = (last[index] == holder) & (not is_new)
        last[index] = holder
        counts[index << np.uint64(1) | np.uint64(again)] += step
        if graded:
            sums[index, 0] += (not again) * score
            sums[index, 1] += score
    space.tokens[place] = n_tokens
    return n_used


@jit
def find_keys(ids, mask, space, numbers):
    """Write the numbers of a held-out rollout's tokens; NO_CREDIT for what the group lacks."""
    bits, index_bits = np.uint64(space.state[0]), np.uint64(space.index_bits)
    part, others = np.uint64(space.state[2]), np.uint64(space.state[3])
    for t in range(len(mask)):
        if mask[t] != 0 and part_of(np.uint64(ids[t]), others) == part:
            key = np.uint64(ids[t])
            entry = (np.uint64(space.state[1]) << TOKEN_BITS | key) << index_bits
            in_slot = space.table[slot_of(space.table, entry, key, bits, index_bits)]
            index = np.int32(in_slot & np.uint64(len(space.table) - 1))
            numbers[t] = index if (in_slot ^ entry) >> index_bits == 0 else NO_CREDIT


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
def empty_memo(n_used, totals, space):
    """Forget the pairs of earlier groups. Returns the memo, without rows where it does not pay off.

    A group of verdicts has few pairs (a, b) and many keys, so most keys find their pair computed.
    """
    n_pairs = (int(totals.n_true) + 1) * (int(totals.n_false) + 1)
    if len(space.sums) > 0 or n_pairs > min(len(space.memo), 4 * n_used):
        return space.memo[:0]
    space.memo[:n_pairs, 0] = space.memo[:n_pairs, 4] = np.nan
    return space.memo[:n_pairs]


@jit
def entry_of(pair, memo, n_false):
    """Where in the memo a pair (a, b) is, as it is counted in one integer."""
    return (pair >> 32) * (n_false + 1) + (pair & LOW) if len(memo) > 0 else 0


@jit
def statistics_of(index, memo, tested, totals, formula, counts, sums):
    """What `association` gives for a key, computed once for each pair (a, b) of the group."""
    entry = entry_of(counts[2 * index], memo, int(totals.n_false))
    if len(memo) > 0 and not np.isnan(memo[entry, 0]):
        return memo[entry, 0], memo[entry, 1], memo[entry, 2], memo[entry, 3]
    a, m, _, _ = counts_of(index, counts, sums)
    strength, effect, p, gain = association(a, m, tested, totals, formula)
    if len(memo) > 0:
        memo[entry, 0], memo[entry, 1], memo[entry, 2], memo[entry, 3] = strength, effect, p, gain
    return strength, effect, p, gain


@jit
def fill_credit(n_used, totals, formula, space):
    """Compute the credit of every number; 0 where there is nothing to compare."""
    # What is called for each key gets arrays, not the workspace, whose references are counted.
    counts, sums, credit, n_false = space.counts, space.sums, space.credit, int(totals.n_false)
    credit[NO_CREDIT] = 0.0
    if totals.variance == 0.0:
        credit[:n_used] = 0.0
        return
    memo = empty_memo(n_used, totals, space)
    for index in range(NO_CREDIT + 1, n_used):
        # Most keys are in no rollout twice. Then the pair says how often they occur, too, and so
        # their whole credit can be remembered by it.
        is_single = len(memo) > 0 and counts[2 * index + 1] == 0
        entry = entry_of(counts[2 * index], memo, n_false)
        if is_single and not np.isnan(memo[entry, 4]):
            credit[index] = memo[entry, 4]
            continue
        strength, effect, _, _ = statistics_of(index, memo, False, totals, formula, counts, sums)
        value = 0.0
        if strength > 0.0:
            _, _, occur_true, occur_false = counts_of(index, counts, sums)
            value = strength * direction_of(effect, occur_true, occur_false, totals, formula)
        credit[index] = credit_of(value, formula)
        if is_single:
            memo[entry, 4] = credit[index]


@jit
def fill_table(group, n_used, totals, formula, space, n):
    """Add one row for each key of the group to the n that are there; how many there are then."""
    slots, shift, counts, sums = space.table, np.uint64(space.index_bits), space.counts, space.sums
    memo = empty_memo(n_used, totals, space)
    tested = not (formula.z and len(space.sums) > 0)  # such graded scores may be anything
    for slot in range(1 << space.state[0]):
        # A slot that an earlier filling wrote is free.
        if np.int64(slots[slot] >> (shift + np.uint64(TOKEN_BITS))) != space.state[1]:
            continue
        index = np.int64(slots[slot] & np.uint64(len(slots) - 1))
        a, m, occur_true, occur_false = counts_of(index, counts, sums)
        b, row = m - a, space.table_rows[n]
        row[0], row[1] = group, np.int64(slots[slot] >> shift) & MAX_TOKEN_ID
        row[2], row[3], row[4], row[5] = a, b, totals.n_true - a, totals.n_false - b
        row[6] = occur_true / (totals.length_true if totals.length_true != 0.0 else 1.0)
        row[7] = occur_false / (totals.length_false if totals.length_false != 0.0 else 1.0)
        row[8], row[9], row[10], row[11], row[12], row[13] = 1.0, 0.0, 0.0, 0.0, 0.0, 0.0
        n += 1
        if totals.variance > 0.0:
            computed = statistics_of(index, memo, tested, totals, formula, counts, sums)
            strength, effect, p, gain = computed
            row[8], row[9], row[10] = p, fisher_score(p), gain
            row[11] = direction_of(effect, occur_true, occur_false, totals, formula)
            row[12] = strength * row[11]
            row[13] = credit_of(row[12], formula)
    return n
