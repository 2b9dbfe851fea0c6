"""The compiled inner loops of the CPU backend: count a group's tokens, spread their credit."""

from __future__ import annotations

import numpy as np

from ktae.arrays import MAX_TOKEN_ID
from ktae.backends._cpu_statistics import IGNORED, LOW, fill_credit, group_totals, table_row
from ktae.backends._cpu_workspace import (
    CELLS_PER_KEY,
    CELLS_PER_WORD,
    TOKEN_BITS,
    clear,
    next_filling,
    slot_of,
)
from ktae.backends._kernel import jit
from ktae.backends.unit_kernels import NO_ERROR, length_of, ngram_keys, token_keys

TOO_SMALL = -1

SINGLE_FALSE, SINGLE_TRUE, FIRST_INDEX = 1, 2, 3
"""The index of all keys that occur once in an incorrect, in a correct rollout of the group and
nowhere else; and that of the first other key."""

FEW = 4
"""Singles are looked for where fewer than one key in so many has been seen before."""


@jit
def _is_ignored(token, ignored):
    for ignored_id in ignored:  # noqa: SIM110  # numba compiles no generator
        if token == ignored_id:
            return True
    return False


@jit
def _mark_ignored(keys, ignored):
    """Mark ignored tokens by the complement of their index; return how many there are."""
    n = 0
    for t in range(len(keys)):
        if _is_ignored(keys[t], ignored):
            keys[t] = ~IGNORED
            n += 1
    return n


@jit
def _mark_singles(keys, bounds, correct, cells):
    """Mark keys that occur once in a group by the complement of their index, if most keys do.

    Most n-grams do, and what a table would cost them is most of the time. A key is no single if its
    cell, of two bits, has been seen twice: most others are. Returns whether they do.
    """
    n_keys, n_words = bounds[len(correct)], 1
    while n_words * CELLS_PER_WORD < CELLS_PER_KEY * n_keys:
        n_words *= 2
    last_word, one, seen = np.uint64(n_words - 1), np.uint64(1), 0
    for t in range(n_keys):
        key = np.uint64(keys[t])
        cell = one << (key & np.uint64(31)) * np.uint64(2)
        before = cells[key >> np.uint64(5) & last_word]
        seen += before & cell != 0
        cells[key >> np.uint64(5) & last_word] = before | cell | (before & cell) << one
    few = FEW * seen < n_keys
    for i in range(len(correct) if few else 0):
        index = np.int32(~SINGLE_TRUE if correct[i] == 1 else ~SINGLE_FALSE)
        for t in range(bounds[i], bounds[i + 1]):
            key = np.uint64(keys[t])
            twice = np.uint64(2) << (key & np.uint64(31)) * np.uint64(2)
            is_single = cells[key >> np.uint64(5) & last_word] & twice == 0
            keys[t] = index if is_single else keys[t]
    for word in range(n_words):
        cells[word] = 0
    return few


@jit
def _count_rollout(keys, number, shift, score, stamp, space, n_used):
    """Count one rollout's keys, and put each one's index in its place.

    A negative one is the complement of its index. `score` is None without graded scores, and its
    branch then not compiled. Returns the number of used indices.
    """
    table, last, counts = space.table, space.last, space.counts
    bits, last_slot = np.uint64(space.bits), np.uint64(len(table) - 1)
    for t in range(len(keys)):
        if keys[t] < 0:
            keys[t] = ~keys[t]
            continue
        key = np.uint64(keys[t])
        entry = (stamp << TOKEN_BITS | key) << bits
        slot = slot_of(table, entry, key, bits)
        found = table[slot]
        is_new = (found ^ entry) >> bits != 0
        index = np.uint64(n_used) if is_new else found & last_slot
        n_used += is_new
        table[slot] = entry | index
        keys[t] = np.int32(index)
        again = (last[index] == number) & (not is_new)
        last[index] = number
        counts[index << np.uint64(1) | np.uint64(again)] += np.int64(1) << shift
        if score is not None:
            space.scores[index, 0] += (not again) * score
            space.scores[index, 1] += score
    return n_used


@jit
def _find_rollout(keys, stamp, space):
    """Put each key's index in its place; that of ignored ones, which have no credit, if the group
    does not hold it."""
    bits, last_slot = np.uint64(space.bits), np.uint64(len(space.table) - 1)
    for t in range(len(keys)):
        key = np.uint64(keys[t])
        entry = (stamp << TOKEN_BITS | key) << bits
        found = space.table[slot_of(space.table, entry, key, bits)]
        held = (found ^ entry) >> bits == 0
        keys[t] = np.int32(found & last_slot) if held else np.int32(IGNORED)


@jit
def read_keys(ids, mask, id_rows, mask_rows, rows, size, lengths, bounds, keys):
    """Write the keys of a group's rollouts, of n-grams of `size` tokens, one after another.

    Those of rollout i are `keys[bounds[i]:bounds[i + 1]]`, and `lengths[i]` is one past its last
    unmasked position. Returns (row, column) of the first bad token id, or (NO_ERROR, 0).
    """
    bounds[0] = 0
    for i in range(len(rows)):
        lengths[i] = length_of(mask[mask_rows[i]])
        own = keys[bounds[i] :]
        n, bad = token_keys(ids[id_rows[i], : lengths[i]], mask[mask_rows[i], : lengths[i]], own)
        if bad >= 0:
            return rows[i], bad
        if size > 1:
            ngram_keys(own[:n], size)
        bounds[i + 1] = bounds[i] + n
    return NO_ERROR, 0


@jit
def count_keys(keys, bounds, first, correct, scores, ignored, stamp, space, n_used, tokens):
    """Fill `space` with the keys of a group's known rollouts, and put their indices in their place.

    These rollouts are the group's from number `first` on. `tokens[i]` becomes how many keys of
    rollout i count. `scores` is None without graded scores. `n_used` is IGNORED + 1, FIRST_INDEX
    after `_mark_singles`, or what earlier rollouts of the group have left. Returns one more than
    the largest index, or TOO_SMALL.
    """
    for i in range(len(correct)):
        own, number = keys[bounds[i] : bounds[i + 1]], np.int32(first + i + 1)
        tokens[i] = 0
        if correct[i] < 0:
            continue
        tokens[i] = len(own)
        if len(ignored) > 0:
            tokens[i] -= _mark_ignored(own, ignored)
        if scores is not None:
            n_used = _count_rollout(own, number, np.int64(0), scores[i], stamp, space, n_used)
        else:
            shift = 32 * np.int64(correct[i])
            n_used = _count_rollout(own, number, shift, None, stamp, space, n_used)
        if 2 * n_used > len(space.table):
            return TOO_SMALL
    return n_used


@jit
def _spread(indices, mask, credit, base, on_top, out):
    """Write one rollout's credit plus `base`, or add it to what is there."""
    if len(indices) == len(mask):  # no holes, as a rule: without a branch it takes half the time
        for t in range(len(mask)):
            value = np.float32(base + credit[np.uint32(indices[t])])
            out[t] = out[t] + value if on_top else value
        return
    n = 0
    for t in range(len(mask)):
        if mask[t] != 0:
            value = np.float32(base + credit[indices[n]])
            out[t] = out[t] + value if on_top else value
            n += 1


@jit
def spread_keys(
    mask, mask_rows, rows, correct, look_up, indexed, stamp, space, base, on_top, lengths, bounds,
    keys, out,
):  # fmt: skip
    """Turn the keys of some rollouts of a group into credit plus `base`.

    The known ones' are indices already if `indexed`. With `look_up`, rollouts of unknown
    correctness get the credit of the group's keys, too.
    """
    for i in range(len(rows)):
        row, own, known = rows[i], keys[bounds[i] : bounds[i + 1]], correct[i] >= 0
        if (look_up and not known) or (known and not indexed):
            _find_rollout(own, stamp, space)
        elif not known:
            if base[row] == 0.0:
                continue
            for t in range(len(own)):
                own[t] = IGNORED
        _spread(
            own, mask[mask_rows[i], : lengths[i]], space.credit,
            0.0 * base[row] if on_top else base[row], on_top, out[row],
        )  # fmt: skip


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
    ids, mask, id_rows, mask_rows, rows, starts, correct, scores, ignored, look_up, formula, sizes,
    base, begin, space, out,
):  # fmt: skip
    """Write the credit plus `base` of the groups `rows[starts[g]:starts[g + 1]]` to `out`.

    `sizes` are those of the n-grams whose credit is added up: 1 for tokens. With `look_up`,
    rollouts of unknown correctness get the credit of the group's keys, too.

    A step is a group and a size. Those before `begin` are done. Returns (row, column) of the bad
    token id with the smallest row, or (NO_ERROR, 0), and the step that needs a larger workspace, or
    how many there are.
    """
    largest = largest_group(starts)
    lengths, tokens = np.empty(largest, dtype=np.int64), np.empty(largest, dtype=np.int64)
    bounds, verdicts = np.empty(largest + 1, dtype=np.int64), np.empty(largest, dtype=np.int8)
    keys = np.empty(largest * ids.shape[1], dtype=np.int32)
    bad_row, bad_column = NO_ERROR, 0
    n_steps = (len(starts) - 1) * len(sizes)
    for step in range(begin, n_steps):
        g, u = step // len(sizes), step % len(sizes)
        group = slice(starts[g], starts[g + 1])
        own_rows, own_mask_rows = rows[group], mask_rows[group]
        own_correct = verdicts[: len(own_rows)]
        own_scores = None if scores is None else scores[group]
        # Where there is nothing to compare, token ids are only checked.
        compares = scores is not None or _is_mixed(correct[group])
        for i in range(len(own_rows)):
            own_correct[i] = correct[starts[g] + i] if compares else -1
        row, column = read_keys(
            ids, mask, id_rows[group], own_mask_rows, own_rows, sizes[u], lengths, bounds, keys
        )
        if row < bad_row:
            bad_row, bad_column = row, column
        if bad_row != NO_ERROR:
            continue
        stamp, n_used = next_filling(space), IGNORED + 1
        n_grams = scores is None and compares and sizes[u] > 1 and not look_up
        if n_grams and _mark_singles(keys, bounds, own_correct, space.cells):
            n_used = FIRST_INDEX
            space.counts[2 * SINGLE_FALSE] = 1
            space.counts[2 * SINGLE_TRUE] = 1 << 32
        n_used = count_keys(
            keys, bounds, 0, own_correct, own_scores, ignored, stamp, space, n_used, tokens
        )
        if n_used == TOO_SMALL:
            return bad_row, bad_column, step
        totals = group_totals(tokens[: len(own_rows)], own_correct, own_scores)
        fill_credit(n_used, totals, space, formula, own_scores)
        spread_keys(
            mask, own_mask_rows, own_rows, own_correct, look_up, True, stamp, space, base, u > 0,
            lengths, bounds, keys, out,
        )  # fmt: skip
        clear(space, n_used)
    return bad_row, bad_column, n_steps


@jit
def tabulate_group(ids, mask, id_rows, mask_rows, rows, correct, scores, ignored, formula, space):
    """One group's token ids, a, b, c, d, and tf_true to credit, in no particular order; (row,
    column) of the first bad token id; and whether the workspace, a new one, is large enough."""
    lengths, tokens = np.empty(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    bounds, keys = np.empty(len(rows) + 1, np.int64), np.empty(len(rows) * ids.shape[1], np.int32)
    n_used = IGNORED + 1
    error = read_keys(ids, mask, id_rows, mask_rows, rows, 1, lengths, bounds, keys)
    if error[0] == NO_ERROR:
        n_used = count_keys(
            keys, bounds, 0, correct, scores, ignored, np.uint64(1), space, n_used, tokens
        )
    if error[0] != NO_ERROR or n_used == TOO_SMALL:
        return np.empty(0, dtype=np.int64), np.empty((0, 12)), error, n_used != TOO_SMALL
    totals = group_totals(tokens, correct, scores)
    token_ids = np.empty(n_used - 1, dtype=np.int64)
    found = np.empty((n_used - 1, 12))
    n = 0
    for entry in space.table:
        if entry == 0:
            continue
        token_ids[n] = np.int64(entry >> np.uint64(space.bits)) & MAX_TOKEN_ID
        index = np.int64(entry) & (len(space.table) - 1)
        pair = space.counts[2 * index]
        occurrences = pair + space.counts[2 * index + 1]
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
    return token_ids, found, error, True
