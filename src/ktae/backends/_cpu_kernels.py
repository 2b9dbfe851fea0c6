"""The compiled inner loops of the CPU backend: count a group's tokens, spread their credit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktae.arrays import MAX_TOKEN_ID
from ktae.backends._cpu_statistics import (
    IGNORED,
    LOW,
    MEMO_ENTRIES,
    fill_credit,
    group_totals,
    table_row,
)
from ktae.backends._kernel import jit

NO_ERROR = 2**62
"""In the row of a (row, column) of the first bad token id: there is none."""

INITIAL_BITS = 10

TOO_SMALL = -1
TOKEN_BITS = 31


class Workspace(NamedTuple):
    """What one thread counts a group in, reused from group to group.

    The distinct tokens of a group have indices from 1 in the order in which they first occur, so
    that frequent tokens lie side by side. `table` finds the index; the rest is read by it.
    """

    bits: int
    """There are 2**bits slots."""
    table: np.ndarray
    """(n_slots,) uint64, a hash table. From the top: the number of the group that filled the slot
    (33 - bits wide, so that earlier groups' slots count as free and nothing has to be cleared),
    the token id (31) and its index (bits)."""
    last: np.ndarray
    """(n_slots,) int32: the last rollout that holds the token, as its row in the chunk plus 1."""
    rollouts: np.ndarray
    """(n_slots,) int64: how many rollouts hold it, incorrect ones in the lower half and correct
    ones in the upper, so that a rollout's class is a shift and no branch. 0 between groups."""
    occurrences: np.ndarray
    """(n_slots,) int64: how often it occurs, likewise."""
    scores: np.ndarray
    """(n_slots, 2) float64, or no row without graded scores: their sum over the rollouts that hold
    the token and over its occurrences. All rollouts then count as incorrect ones above. 0 between
    groups."""
    credit: np.ndarray
    """(n_slots,) float32"""


class GroupCounts(NamedTuple):
    """How counting a group ended."""

    n_used: int
    """One more than the distinct tokens, or TOO_SMALL: the workspace is."""
    bad_row: int
    bad_column: int


@jit
def _is_ignored(token, ignored):
    for ignored_id in ignored:  # noqa: SIM110  # numba compiles no generator
        if token == ignored_id:
            return True
    return False


@jit
def _end(mask):
    """One past the last unmasked position. Padding goes 8 bytes at a time: the mask's memory must
    begin at a multiple of 8, and so do its rows where their length is one."""
    end = len(mask)
    if end % 8 == 0:
        words = mask.view(np.uint64)
        while end > 0 and words[end // 8 - 1] == 0:
            end -= 8
    while end > 0 and mask[end - 1] == 0:
        end -= 1
    return end


@jit
def _count_rollout(ids, mask, indices, number, shift, score, ignored, stamp, space, n_used):
    """Count one rollout's tokens and leave each one's index in `indices`.

    About every second token of a rollout is new to its group, which no processor can predict, so
    no branch may depend on that: `differ` is 0 where the slot holds the token, below 2**31 where
    it holds another one of this group, and above where it is free. `score` is None without graded
    scores, and its branch then not compiled.

    Returns the number of used indices, the tokens counted, and the position of a bad token id
    (-1: none).
    """
    table, last, rollouts, occurrences = space.table, space.last, space.rollouts, space.occurrences
    one = np.uint64(1)
    bits, last_slot = np.uint64(space.bits), np.uint64(len(table) - 1)
    tokens = 0
    for t in range(len(mask)):
        if mask[t] == 0:
            continue
        token = np.int64(ids[t])
        if token < 0 or token > MAX_TOKEN_ID:
            return n_used, 0, t
        if len(ignored) > 0 and _is_ignored(token, ignored):
            indices[t] = IGNORED
            continue
        tokens += 1
        key = (stamp << TOKEN_BITS | np.uint64(token)) << bits
        slot = (np.uint64(token) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32) & last_slot
        found = table[slot]
        differ = (found ^ key) >> bits
        while differ - one < np.uint64(MAX_TOKEN_ID):
            slot = slot + one & last_slot
            found = table[slot]
            differ = (found ^ key) >> bits
        is_new = differ != 0
        index = np.uint64(n_used) if is_new else found & last_slot
        n_used += is_new
        table[slot] = key | index
        indices[t] = np.int32(index)
        fresh = np.int64(last[index] != number)
        last[index] = number
        rollouts[index] += fresh << shift
        occurrences[index] += np.int64(1) << shift
        if score is not None:
            space.scores[index, 0] += fresh * score
            space.scores[index, 1] += score
    return n_used, tokens, -1


@jit
def workspace(width, bits, graded):
    """At least 2**bits slots. Before each rollout at most half of them are used, so that with
    four times a rollout's length the table cannot fill up within one."""
    while 1 << bits < 4 * width:
        bits += 1
    n_slots = 1 << bits
    return Workspace(
        bits, np.zeros(n_slots, dtype=np.uint64), np.zeros(n_slots, dtype=np.int32),
        np.zeros(n_slots, dtype=np.int64), np.zeros(n_slots, dtype=np.int64),
        np.zeros((n_slots if graded else 0, 2)), np.zeros(n_slots, dtype=np.float32),
    )  # fmt: skip


@jit
def _stamp(g, space):
    """The number of group `g` in the table, from 1; the table is cleared when they are used up."""
    n_stamps = (1 << (64 - TOKEN_BITS - space.bits)) - 1
    if g > 0 and g % n_stamps == 0:
        space.table[:] = 0
    return np.uint64(1 + g % n_stamps)


@jit
def _check_rollout(ids, mask):
    """The position of a bad token id (-1: none)."""
    for t in range(len(mask)):
        if mask[t] != 0 and (ids[t] < 0 or ids[t] > MAX_TOKEN_ID):
            return t
    return -1


@jit
def count_group(
    ids, mask, id_rows, mask_rows, rows, first, correct, scores, ignored, stamp, space, n_used,
    indices, lengths, tokens,
):  # fmt: skip
    """Fill `space` with the group's tokens and `indices` with the index of each position's.

    Its rows are `first` to `first + len(rows)` of the chunk. `lengths[i]` becomes one past the
    last unmasked position of rollout i, and `tokens[i]` how many of its tokens count. Rollouts of
    unknown correctness are only checked. `scores` is None without graded scores. `n_used` is
    IGNORED + 1, or what earlier rows of the group have left.
    """
    for i in range(len(rows)):
        lengths[i] = _end(mask[mask_rows[i]])
        row_ids, row_mask = ids[id_rows[i], : lengths[i]], mask[mask_rows[i], : lengths[i]]
        tokens[i] = 0
        number = np.int32(first + i + 1)
        if correct[i] < 0:
            bad = _check_rollout(row_ids, row_mask)
        elif scores is not None:
            n_used, tokens[i], bad = _count_rollout(
                row_ids, row_mask, indices[rows[i]], number, np.int64(0), scores[i], ignored,
                stamp, space, n_used,
            )  # fmt: skip
        else:
            n_used, tokens[i], bad = _count_rollout(
                row_ids, row_mask, indices[rows[i]], number, 32 * np.int64(correct[i]), None,
                ignored, stamp, space, n_used,
            )  # fmt: skip
        if bad >= 0:
            return GroupCounts(n_used, rows[i], bad)
        if 2 * n_used > len(space.table):
            return GroupCounts(TOO_SMALL, NO_ERROR, 0)
    return GroupCounts(n_used, NO_ERROR, 0)


@jit
def _spread(indices, mask, credit, base, length, known, out):
    """Turn one rollout's indices into credit plus `base`."""
    for t in range(length):
        if mask[t] != 0:
            out[t] = base + (credit[indices[t]] if known else 0.0)


@jit
def spread_rows(mask, mask_rows, rows, verdicts, credit, base, lengths, indices, out):
    """Turn the indices of some rows of a group into credit plus `base`."""
    for i in range(len(rows)):
        row = rows[i]
        if verdicts[i] >= 0 or base[row] != 0.0:
            _spread(
                indices[row], mask[mask_rows[i]], credit, base[row],
                lengths[i], verdicts[i] >= 0, out[row],
            )  # fmt: skip


@jit
def look_up_rows(
    ids, mask, id_rows, mask_rows, rows, verdicts, ignored, stamp, space, lengths, base, out
):  # fmt: skip
    """Give rollouts of unknown correctness the credit of the group's tokens, plus `base`."""
    bits, last_slot = np.uint64(space.bits), np.uint64(len(space.table) - 1)
    for i in range(len(rows)):
        if verdicts[i] >= 0:
            continue
        row_ids, row_mask, row = ids[id_rows[i]], mask[mask_rows[i]], rows[i]
        for t in range(lengths[i]):
            if row_mask[t] == 0:
                continue
            token = np.int64(row_ids[t])
            key = (stamp << TOKEN_BITS | np.uint64(token)) << bits
            slot = (np.uint64(token) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32) & last_slot
            differ = (space.table[slot] ^ key) >> bits
            while differ != 0 and differ <= np.uint64(MAX_TOKEN_ID):
                slot = slot + np.uint64(1) & last_slot
                differ = (space.table[slot] ^ key) >> bits
            found = differ == 0 and not _is_ignored(token, ignored)
            out[row, t] = base[row] + (
                space.credit[space.table[slot] & last_slot] if found else 0.0
            )


@jit
def largest_group(starts):
    """How many rollouts the largest group has; 0 without groups."""
    largest = 0
    for g in range(len(starts) - 1):
        largest = max(largest, starts[g + 1] - starts[g])
    return largest


@jit
def _is_mixed(verdicts):
    correct = incorrect = False
    for verdict in verdicts:
        correct |= verdict == 1
        incorrect |= verdict == 0
    return correct and incorrect


@jit
def score_groups(
    ids, mask, id_rows, mask_rows, rows, starts, correct, scores, ignored, look_up, formula, base,
    out, indices,
):  # fmt: skip
    """Write the credit plus `base` of the groups `rows[starts[g]:starts[g + 1]]` to `out`.

    With `look_up`, rollouts of unknown correctness get the credit of the group's tokens, too.

    `indices` is the memory of `out` seen as int32: between counting and spreading it holds the
    tokens' indices, so no token is looked up twice and no buffer of the batch's size is needed.
    Returns (row, column) of the bad token id with the smallest row, or (NO_ERROR, 0).
    """
    space = workspace(ids.shape[1], np.int64(INITIAL_BITS), scores is not None)
    memo = np.empty((MEMO_ENTRIES, 3))
    largest = largest_group(starts)
    lengths, tokens = np.empty(largest, dtype=np.int64), np.empty(largest, dtype=np.int64)
    unknown = np.full(largest, -1, dtype=np.int8)
    bad_row, bad_column = NO_ERROR, 0
    for g in range(len(starts) - 1):
        group = slice(starts[g], starts[g + 1])
        verdicts = correct[group]
        own_scores = None if scores is None else scores[group]
        if scores is None and not _is_mixed(verdicts):
            verdicts = unknown[: len(verdicts)]  # nothing to compare: only check the token ids
        while True:
            stamp = _stamp(g, space)
            counts = count_group(
                ids, mask, id_rows[group], mask_rows[group], rows[group], starts[g],
                verdicts, own_scores, ignored, stamp, space, IGNORED + 1, indices, lengths, tokens,
            )  # fmt: skip
            if counts.n_used != TOO_SMALL:
                break
            space = workspace(ids.shape[1], space.bits + 1, scores is not None)
        if counts.bad_row < bad_row:
            bad_row, bad_column = counts.bad_row, counts.bad_column
        if bad_row == NO_ERROR:
            totals = group_totals(tokens[: len(verdicts)], verdicts, own_scores)
            fill_credit(counts.n_used, totals, space, formula, memo, own_scores)
            spread_rows(
                mask, mask_rows[group], rows[group], verdicts, space.credit, base, lengths,
                indices, out,
            )  # fmt: skip
            if look_up:
                look_up_rows(
                    ids, mask, id_rows[group], mask_rows[group], rows[group], verdicts, ignored,
                    stamp, space, lengths, base, out,
                )  # fmt: skip
        space.rollouts[: counts.n_used] = 0
        space.occurrences[: counts.n_used] = 0
        space.scores[: counts.n_used] = 0.0
    return bad_row, bad_column


@jit
def tabulate_group(ids, mask, id_rows, mask_rows, rows, correct, scores, ignored, formula):
    """One group's token ids, a, b, c, d, and tf_true to credit, in no particular order."""
    space = workspace(ids.shape[1], np.int64(INITIAL_BITS), scores is not None)
    lengths, tokens = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=np.int64)
    indices = np.empty((len(rows), ids.shape[1]), dtype=np.int32)
    local = np.empty(len(rows), dtype=np.int64)
    for i in range(len(rows)):
        local[i] = i
    while True:
        counts = count_group(
            ids, mask, id_rows, mask_rows, local, 0, correct, scores, ignored,
            np.uint64(1), space, IGNORED + 1, indices, lengths, tokens,
        )  # fmt: skip
        if counts.n_used != TOO_SMALL:
            break
        space = workspace(ids.shape[1], space.bits + 1, scores is not None)
    totals = group_totals(tokens, correct, scores)
    token_ids = np.empty(counts.n_used - 1, dtype=np.int64)
    found = np.empty((counts.n_used - 1, 12))
    n = 0
    for entry in space.table:
        if entry == 0:
            continue
        token_ids[n] = np.int64(entry >> np.uint64(space.bits)) & MAX_TOKEN_ID
        index = np.int64(entry) & (len(space.table) - 1)
        pair, occurrences = space.rollouts[index], space.occurrences[index]
        m = float((pair >> 32) + (pair & LOW))
        a, occur_true = float(pair >> 32), float(occurrences >> 32)
        occur_false = float(occurrences & LOW)
        if scores is not None:
            a, occur_true = space.scores[index, 0], space.scores[index, 1]
            occur_false -= occur_true
        row = table_row(a, m, occur_true, occur_false, totals, formula, scores is not None)
        for k in range(12):
            found[n, k] = row[k]
        n += 1
    bad_row = rows[counts.bad_row] if counts.bad_row != NO_ERROR else NO_ERROR
    return token_ids, found, (bad_row, counts.bad_column)
