"""The CPU backend: one hash table a group, compiled by numba, threads over groups.

Each group takes three passes, all linear in its tokens. *Count*: every token finds its key's number
in the hash table, and the number is written down. *Compute*: each number gets its credit. *Spread*:
each token gets the credit of its number. The numbers are written where the credit goes, into the
output, so that they take no memory of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktae import statistics
from ktae.arrays import MAX_TOKEN_ID
from ktae.backends._compiled import AT_ONCE, NO_ERROR, end_of, in_threads, jit, kept, plain
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
LOW = 0xFFFFFFFF
N_COLUMNS = 14
"""Of a table: group, token id, a, b, c, d, tf_true, tf_false, p, F, IG, direction, value, credit.
"""

MOST_PAIRS = 1 << 16
"""Pairs (a, b) of a group whose statistics are remembered: a group of 510 rollouts has so many."""


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
    """(2,) int64: slots in use are the first 2**state[0]; state[1] is the number of the filling."""
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
    """(n, 3) float64, by pair (a, b): strength, effect, and the whole credit of a key that no
    rollout holds twice; NaN where not computed yet."""
    tokens: np.ndarray
    """(n,) int64: how many tokens of each rollout of the group count."""


class Totals(NamedTuple):
    """The margins of all of a group's tables. With graded scores n_true is their sum, and a rollout
    of score r adds the share r of its tokens to the correct ones'."""

    n: float
    n_true: float
    n_false: float
    length_true: float
    length_false: float
    variance: float
    """Of the scores, divided by n. Exactly 0 where there is nothing to compare."""


def credit(batch: Batch, formula: Formula) -> np.ndarray:
    """(B, T) float32 credit; an InputError for a token id that is out of range and unmasked."""
    return _computed(batch, formula)[0]


def table(batch: Batch, formula: Formula) -> CreditTable:
    """The credit table of the batch, with the same error."""
    group, token_id, *columns = _computed(batch, formula, with_table=True)[1].T
    order = np.lexsort([token_id, group])
    cells = [column[order] for column in columns]
    if not batch.graded:
        cells[:4] = [column.astype(np.int64) for column in cells[:4]]
    assert batch.labels is not None
    labels, token_ids = batch.labels[group[order].astype(np.int64)], token_id[order]
    return CreditTable(labels, token_ids.astype(np.int64), *cells)


def _computed(
    batch: Batch, formula: Formula, *, with_table: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """(B, T) the credit, and if asked for (n, N_COLUMNS) the table's rows, in no order."""
    out = np.zeros(batch.token_ids.shape, dtype=np.float32)
    rows, starts = batch.by_group()
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
        bounds = starts[groups.start : groups.stop + 1] - starts[groups.start]
        arrays = plain(batch.token_ids, mask_bt, part)
        chunk = Chunk(*arrays, part, bounds, scores_b[part])
        try:
            space = spaces.pop()
        except IndexError:
            space = _workspace(batch, starts)
        entries = np.empty((len(chunk.rows) * out.shape[1] * with_table, N_COLUMNS))
        arguments = (chunk, batch.look_up_unknown, formula, space, entries)
        row, column, n_rows = credit_groups(*arguments, out, out.view(np.int32))
        spaces.append(space)
        entries = entries[:n_rows].copy()  # most of it was never touched
        entries[:, 0] += groups.start
        return row, column, entries

    rows_at_once = max(1, AT_ONCE // max(1, out.shape[1]))
    begins = np.searchsorted(starts[:-1], np.arange(0, len(rows), rows_at_once))
    parts = in_threads(fill, sorted({*begins.tolist(), len(starts) - 1}))
    row, column = min((part[:2] for part in parts), default=(NO_ERROR, 0))
    if row != NO_ERROR:
        raise bad_token_id(batch.token_ids, row, column)
    return out, np.concatenate([np.empty((0, N_COLUMNS)), *(part[2] for part in parts)])


def _workspace(batch: Batch, starts: np.ndarray) -> Workspace:
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
        state=np.array([fewest, 0]),
        last=np.empty(n_keys, dtype=np.int32),
        counts=np.zeros(2 * n_keys, dtype=np.int64),
        sums=np.zeros((n_keys if batch.graded else 0, 2)),
        credit=np.empty(n_keys, dtype=np.float32),
        memo=np.empty((min(MOST_PAIRS, (largest // 2 + 1) * ((largest + 1) // 2 + 1)), 3)),
        tokens=np.empty(largest, dtype=np.int64),
    )


# Compiled from here on. Types of arguments are inferred by numba.

fisher_p_value = kept(statistics.fisher_p_value)  # for Python, too
_fisher_score = jit(statistics.fisher_score)
_information_gain = jit(statistics.information_gain)
_saturated_term_frequency = jit(statistics.saturated_term_frequency)
_effect_size = jit(statistics.effect_size)
_frequency_contrast = jit(statistics.frequency_contrast)
_presence_z = jit(statistics.presence_z)
_sharpened = jit(statistics.sharpened)
_squashed = jit(statistics.squashed)


@kept
def credit_groups(chunk, look_up, formula, space, table, out, numbers):
    """Write the credit of a chunk's groups to `out`, of which `numbers` is the memory as int32.

    With `look_up`, rollouts of unknown correctness get the credit of the group's keys, too. `table`
    is filled in if it has rows. Returns (row, column) of the bad token id with the smallest row, or
    (NO_ERROR, 0), and how many rows the table has got.
    """
    ends = np.empty(len(chunk.rows), dtype=np.int64)
    n_rows = np.int64(0)  # a literal would be another type, and kernels compiled for both
    bad_row, bad_column = _look_at_rows(chunk, ends)
    credit = space.credit
    for g in range(len(chunk.starts) - 1 if bad_row == NO_ERROR else 0):
        begin, end = chunk.starts[g], chunk.starts[g + 1]
        n_used = _count_group(chunk, begin, end, ends, space, numbers)
        totals = _group_totals(space.tokens, chunk.scores[begin:end])
        _fill_credit(n_used, totals, formula, space)
        for i in range(begin, end if n_used > NO_CREDIT + 1 else begin):
            row = chunk.rows[i]
            if look_up and np.isnan(chunk.scores[i]):
                mask = chunk.mask[chunk.places[i], : ends[i]]
                _find_keys(chunk.ids[chunk.places[i]], mask, space, numbers[row])
            # Masked positions have number 0, and so no credit.
            for t in range(ends[i]):
                out[row, t] = credit[numbers[row, t]]
        if len(table) > 0:
            n_rows = _fill_table(g, totals, formula, space, table, n_rows)
        _clear(space, n_used)
    return bad_row, bad_column, n_rows


@jit
def _look_at_rows(chunk, ends):
    """One past each rollout's last unmasked position; (row, column) of the first bad token id."""
    bad_row, bad_column = NO_ERROR, 0
    for i in range(len(chunk.rows)):
        ids, mask = chunk.ids[chunk.places[i]], chunk.mask[chunk.places[i]]
        ends[i], bad = end_of(mask), False
        for t in range(ends[i]):  # no branch here either
            bad |= (mask[t] != 0) & ((ids[t] < 0) | (ids[t] > MAX_TOKEN_ID))
        if bad and chunk.rows[i] < bad_row:
            bad_row = chunk.rows[i]
            for t in range(ends[i] - 1, -1, -1):
                if mask[t] != 0 and (ids[t] < 0 or ids[t] > MAX_TOKEN_ID):
                    bad_column = t
    return bad_row, bad_column


@jit
def _clear(space, n_used):
    """Forget what was counted of a group."""
    for k in range(2 * n_used):
        space.counts[k] = 0
    for k in range(min(n_used, len(space.sums))):
        space.sums[k, 0] = space.sums[k, 1] = 0.0


@jit
def _count_group(chunk, begin, end, ends, space, numbers):
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
                n_used = _count_rollout(ids, mask, i - begin, score, space, n_used, numbers[row])
        if n_used <= most:
            return n_used
        _clear(space, n_used)
        space.state[0] = min(space.state[0] + GROWTH_BITS, space.index_bits)


@jit
def _slot_of(table, entry, key, bits, index_bits):
    """Where `entry`, a filling and a key with number 0, stands in the table, or would stand.

    About every second token of a rollout is new to its group, so no branch may depend on which of
    the two it is. What the slot differs by from the entry, without its number, is 0 where it holds
    the key, below 2**31 where it holds another key of this filling, and above where it is free. The
    hash's top bits spread small numbers evenly, and frequent tokens have small ids.
    """
    one, last_slot = np.uint64(1), (np.uint64(1) << bits) - np.uint64(1)
    slot = (key * np.uint64(0x9E3779B97F4A7C15)) >> (np.uint64(64) - bits)
    while ((table[slot] ^ entry) >> index_bits) - one < np.uint64(MAX_TOKEN_ID):
        slot = slot + one & last_slot
    return slot


@jit
def _count_rollout(ids, mask, place, score, space, n_used, numbers):
    """Count one rollout's tokens, and write the number of each token's key to `numbers`.

    Returns one more than the largest number that the group uses.
    """
    # A field read within the loop would be counted as a reference each time.
    table, last, counts, sums = space.table, space.last, space.counts, space.sums
    bits, index_bits = np.uint64(space.state[0]), np.uint64(space.index_bits)
    stamp, index_mask = np.uint64(space.state[1]) << TOKEN_BITS, np.uint64(len(table) - 1)
    graded, holder = len(sums) > 0, np.int32(place + 1)
    # Correct rollouts count in the upper half of the integers, incorrect and graded ones below.
    step = np.int64(1) << (np.int64(0) if graded else 32 * np.int64(score))
    n_tokens = 0
    for t in range(len(mask)):
        if mask[t] == 0:
            continue
        n_tokens += 1
        key = np.uint64(ids[t])
        entry = (stamp | key) << index_bits
        slot = _slot_of(table, entry, key, bits, index_bits)
        is_new = (table[slot] ^ entry) >> index_bits != 0
        index = np.uint64(n_used) if is_new else table[slot] & index_mask
        n_used += is_new
        table[slot] = entry | index
        numbers[t] = np.int32(index)
        again = (last[index] == holder) & (not is_new)
        last[index] = holder
        counts[index << np.uint64(1) | np.uint64(again)] += step
        if graded:
            sums[index, 0] += (not again) * score
            sums[index, 1] += score
    space.tokens[place] = n_tokens
    return n_used


@jit
def _find_keys(ids, mask, space, numbers):
    """Write the numbers of a held-out rollout's tokens; NO_CREDIT for what the group lacks."""
    bits, index_bits = np.uint64(space.state[0]), np.uint64(space.index_bits)
    for t in range(len(mask)):
        if mask[t] != 0:
            key = np.uint64(ids[t])
            entry = (np.uint64(space.state[1]) << TOKEN_BITS | key) << index_bits
            in_slot = space.table[_slot_of(space.table, entry, key, bits, index_bits)]
            index = np.int32(in_slot & np.uint64(len(space.table) - 1))
            numbers[t] = index if (in_slot ^ entry) >> index_bits == 0 else NO_CREDIT


@jit
def _group_totals(tokens, scores):
    """The totals over the rollouts of known correctness that have a token."""
    n, mean, squares, n_true, length_true, length_false = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(len(scores)):
        score = scores[i]
        if tokens[i] == 0 or np.isnan(score):
            continue
        n += 1
        deviation = score - mean  # Welford's algorithm: exactly 0 for equal scores
        mean += deviation / n
        squares += deviation * (score - mean)
        n_true += score
        length_true += score * tokens[i]
        length_false += (1.0 - score) * tokens[i]
    variance = squares / n if n > 0 else 0.0
    return Totals(float(n), n_true, n - n_true, length_true, length_false, variance)


@jit
def _counts_of(index, space):
    """A, m, and the occurrences in correct and in incorrect rollouts of key number `index`."""
    pair, again = space.counts[2 * index], space.counts[2 * index + 1]
    if len(space.sums) > 0:
        a, occur_true = space.sums[index, 0], space.sums[index, 1]
        return a, float(pair), occur_true, pair + again - occur_true
    a, b = pair >> 32, pair & LOW
    return float(a), float(a + b), float(a + (again >> 32)), float(b + (again & LOW))


@jit
def _strength_and_effect(a, m, totals, formula):
    """What depends on the rollouts alone; m of them hold the token, of total score a."""
    if formula.z:
        mean = totals.n_true / totals.n
        z = _presence_z(a, m, totals.n, mean, totals.variance)
        if formula.sharp:
            z = _sharpened(z, m, totals.n, mean, totals.variance)
        return 1.0, z
    n_true, n_false = totals.n_true, totals.n_false
    fisher = _fisher_score(fisher_p_value(a, m - a, n_true, n_false, formula.point))
    gain = _information_gain(a, m - a, n_true, n_false)
    # The released code divides by h1 + h2, the paper does not: value_scale.
    strength = (formula.h1 * fisher + formula.h2 * gain) * formula.value_scale
    return strength, _effect_size(a, m - a, n_true, n_false)


@jit
def _direction(effect, occur_true, occur_false, totals, formula):
    """The effect plus what the frequencies of the token in the two classes add to it."""
    if formula.h3 == 0.0:
        return effect
    mean_length = (totals.length_true + totals.length_false) / 2
    relative = totals.length_true / mean_length, totals.length_false / mean_length
    tf = occur_true / totals.length_true, occur_false / totals.length_false
    saturated_true = _saturated_term_frequency(tf[0], relative[0], formula.k1, formula.b_len)
    saturated_false = _saturated_term_frequency(tf[1], relative[1], formula.k1, formula.b_len)
    return effect + formula.h3 * _frequency_contrast(saturated_true, saturated_false, formula.eps)


@jit
def _credit_of_value(value, formula):
    scaled = formula.credit_scale * value
    return scaled if formula.z else _squashed(value, formula.credit_scale)


@jit
def _fill_credit(n_used, totals, formula, space):
    """Compute the credit of every number; 0 where there is nothing to compare.

    A group of verdicts has few pairs (a, b) and many keys. So strength and effect are computed once
    for each pair, and the whole credit of keys that no rollout holds twice, which most are.
    """
    counts, credit, memo = space.counts, space.credit, space.memo
    credit[NO_CREDIT] = 0.0
    if totals.variance == 0.0:
        credit[:n_used] = 0.0
        return
    columns = int(totals.n_false) + 1
    n_pairs = (int(totals.n_true) + 1) * columns
    remembers = len(space.sums) == 0 and n_pairs <= min(len(memo), 4 * n_used)
    if remembers:
        for entry in range(n_pairs):
            memo[entry, 0] = memo[entry, 2] = np.nan
    for index in range(NO_CREDIT + 1, n_used):
        pair, is_single = counts[2 * index], counts[2 * index + 1] == 0
        entry = (pair >> 32) * columns + (pair & LOW) if remembers else 0
        if remembers and is_single and not np.isnan(memo[entry, 2]):
            credit[index] = memo[entry, 2]
            continue
        a, m, occur_true, occur_false = _counts_of(index, space)
        if remembers and not np.isnan(memo[entry, 0]):
            strength, effect = memo[entry, 0], memo[entry, 1]
        else:
            strength, effect = _strength_and_effect(a, m, totals, formula)
        value = 0.0
        if strength > 0.0:
            value = strength * _direction(effect, occur_true, occur_false, totals, formula)
        credit[index] = _credit_of_value(value, formula)
        if remembers:
            memo[entry, 0], memo[entry, 1] = strength, effect
            if is_single:
                memo[entry, 2] = credit[index]


@jit
def _fill_table(group, totals, formula, space, table, n):
    """Add one row for each key of the group to the n that are there; how many there are then."""
    for slot in range(1 << space.state[0]):
        entry = space.table[slot]
        if np.int64(entry >> np.uint64(space.index_bits + TOKEN_BITS)) != space.state[1]:
            continue
        index = np.int64(entry & np.uint64(len(space.table) - 1))
        a, m, occur_true, occur_false = _counts_of(index, space)
        b, row = m - a, table[n]
        row[0] = group
        row[1] = np.int64(entry >> np.uint64(space.index_bits)) & MAX_TOKEN_ID
        row[2], row[3], row[4], row[5] = a, b, totals.n_true - a, totals.n_false - b
        row[6] = occur_true / (totals.length_true if totals.length_true != 0.0 else 1.0)
        row[7] = occur_false / (totals.length_false if totals.length_false != 0.0 else 1.0)
        row[8], row[9], row[10], row[11], row[12], row[13] = 1.0, 0.0, 0.0, 0.0, 0.0, 0.0
        n += 1
        if totals.variance == 0.0:
            continue
        if not (formula.z and len(space.sums) > 0):  # graded scores of a z-score may be anything
            row[8] = fisher_p_value(a, b, totals.n_true, totals.n_false, formula.point)
            row[9] = _fisher_score(row[8])
            row[10] = _information_gain(a, b, totals.n_true, totals.n_false)
        strength, effect = _strength_and_effect(a, m, totals, formula)
        row[11] = _direction(effect, occur_true, occur_false, totals, formula)
        row[12] = strength * row[11]
        row[13] = _credit_of_value(row[12], formula)
    return n
