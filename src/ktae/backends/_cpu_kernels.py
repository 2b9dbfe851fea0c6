"""The compiled inner loops of the CPU backend.

The formulas are those of `ktae.statistics`, compiled as they stand.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np

from ktae import statistics
from ktae.config import MAX_TOKEN_ID

logger = logging.getLogger(__name__)

NO_ERROR = 2**62
"""In the row of a (row, column) of the first bad token id: there is none."""

INITIAL_SLOTS = 1 << 13
MEMO_ENTRIES = 1 << 12

# The fields of a hash slot: 8 int32, half a cache line. A slot is in use when its stamp, the
# number of the last rollout that touched it, is not older than the group's first: so no clearing.
KEY, STAMP, IN_TRUE, IN_FALSE, OCCUR_TRUE, OCCUR_FALSE = range(6)
SLOT_FIELDS = 8
IGNORED = -1  # in the field IN_TRUE


class Weights(NamedTuple):
    """`KTAEConfig` as numba takes it."""

    h1: float
    h2: float
    h3: float
    k1: float
    b_len: float
    eps: float
    value_scale: float
    term_scale: float
    point: bool


class GroupCounts(NamedTuple):
    """What counting a group found."""

    n_true: int
    n_false: int
    length_true: int
    length_false: int
    n_used: int
    """Distinct tokens, or -1: the table is too small."""
    stamp: int
    bad_row: int
    bad_column: int


def _jit(function: Callable[..., Any]) -> Any:
    """Compile without the GIL, cached on disk, or in memory where no cache can be written."""
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError as error:  # numba found no writable place for its cache
        logger.debug("%s is compiled in memory: %s", function.__name__, error)
        return numba.njit(nogil=True)(function)


fisher_p_value = _jit(statistics.fisher_p_value)
fisher_score = _jit(statistics.fisher_score)
information_gain = _jit(statistics.information_gain)
saturated_term_frequency = _jit(statistics.saturated_term_frequency)
effect_size = _jit(statistics.effect_size)
frequency_contrast = _jit(statistics.frequency_contrast)
term = _jit(statistics.term)


@_jit
def _find_slot(key, table, first_stamp):  # type: ignore[no-untyped-def]
    """The slot that holds `key`, or the free one where it belongs."""
    last = table.shape[0] - 1
    slot = np.int64((np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)) & last
    while table[slot, STAMP] >= first_stamp and table[slot, KEY] != key:
        slot = (slot + 1) & last
    return slot


@_jit
def _count_group(  # type: ignore[no-untyped-def]
    ids, mask, id_rows, mask_rows, rows, correct, ignored, stamp, table, used, slots, lengths
):
    """Fill `table` and `used` with the group's tokens and `slots` with each position's slot.

    `lengths[i]` becomes one past the last unmasked position of the group's rollout i. Rollouts of
    unknown correctness are checked but not counted.
    """
    first_stamp = stamp + 1
    n_true, n_false, length_true, length_false, n_used = 0, 0, 0, 0, 0
    for i in range(len(rows)):
        stamp += 1
        row, known, is_true = rows[i], correct[i] >= 0, correct[i] == 1
        tokens, length = 0, 0
        for t in range(ids.shape[1]):
            if mask[mask_rows[i], t] == 0:
                continue
            length = t + 1
            key = ids[id_rows[i], t]
            if key < 0 or key > MAX_TOKEN_ID:
                return GroupCounts(0, 0, 0, 0, 0, stamp, row, t)
            if not known:
                continue
            slot = _find_slot(key, table, first_stamp)
            slots[row, t] = slot
            if table[slot, STAMP] < first_stamp:
                if n_used == len(used):
                    return GroupCounts(0, 0, 0, 0, -1, stamp, NO_ERROR, 0)
                used[n_used] = slot
                n_used += 1
                table[slot, KEY] = key
                table[slot, STAMP] = first_stamp - 1  # not yet touched by this rollout
                table[slot, IN_TRUE:] = 0
                for ignored_id in ignored:
                    if key == ignored_id:
                        table[slot, IN_TRUE] = IGNORED
            if table[slot, IN_TRUE] == IGNORED:
                table[slot, STAMP] = stamp
                continue
            tokens += 1
            if is_true:
                table[slot, IN_TRUE] += table[slot, STAMP] != stamp
                table[slot, OCCUR_TRUE] += 1
            else:
                table[slot, IN_FALSE] += table[slot, STAMP] != stamp
                table[slot, OCCUR_FALSE] += 1
            table[slot, STAMP] = stamp
        lengths[i] = length
        if tokens > 0 and is_true:
            n_true += 1
            length_true += tokens
        elif tokens > 0:
            n_false += 1
            length_false += tokens
    return GroupCounts(
        n_true, n_false, length_true, length_false, n_used, stamp, NO_ERROR, 0
    )


@_jit
def _strength(a, b, n_true, n_false, weights):  # type: ignore[no-untyped-def]
    p = fisher_p_value(a, b, n_true, n_false, weights.point)
    fisher = fisher_score(p)
    gain = information_gain(a, b, n_true, n_false)
    # The released code divides by h1 + h2, the paper does not: value_scale.
    return p, fisher, gain, (weights.h1 * fisher + weights.h2 * gain) * weights.value_scale


@_jit
def _contrast(occur_true, occur_false, length_true, length_false, weights):  # type: ignore[no-untyped-def]
    mean_length = (length_true + length_false) / 2
    return frequency_contrast(
        saturated_term_frequency(
            occur_true / length_true, length_true / mean_length, weights.k1, weights.b_len
        ),
        saturated_term_frequency(
            occur_false / length_false, length_false / mean_length, weights.k1, weights.b_len
        ),
        weights.eps,
    )


@_jit
def _judge_group(counts, table, used, weights, memo, terms):  # type: ignore[no-untyped-def]
    """`terms[slot]` of every used slot.

    Strength and effect size depend on (a, b) alone, so each pair is computed once a group; NaN in
    `memo` means not yet. Groups too large for the memo compute them for each token, which is
    still linear: Fisher's test takes as many steps as rollouts contain the token.
    """
    n_true, n_false = counts.n_true, counts.n_false
    remembered = (n_true + 1) * (n_false + 1) <= len(memo)
    if remembered:
        memo[: (n_true + 1) * (n_false + 1), 0] = np.nan
    for slot in used[: counts.n_used]:
        a, b = table[slot, IN_TRUE], table[slot, IN_FALSE]
        if a == IGNORED or n_true == 0 or n_false == 0:
            terms[slot] = 0.0
            continue
        entry = a * (n_false + 1) + b if remembered else 0
        if not remembered or np.isnan(memo[entry, 0]):
            memo[entry, 0] = _strength(a, b, n_true, n_false, weights)[3]
            memo[entry, 1] = effect_size(a, b, n_true, n_false)
        strength, direction = memo[entry]
        if strength == 0.0:
            terms[slot] = 0.0
            continue
        if weights.h3 > 0.0:
            direction += weights.h3 * _contrast(
                table[slot, OCCUR_TRUE],
                table[slot, OCCUR_FALSE],
                counts.length_true,
                counts.length_false,
                weights,
            )
        terms[slot] = term(strength * direction, weights.term_scale)


@_jit
def score_groups(  # type: ignore[no-untyped-def]
    ids, mask, id_rows, mask_rows, rows, starts, correct, ignored, weights, base, out, slots
):
    """Write the terms plus `base` of the groups `rows[starts[g]:starts[g + 1]]` to `out`.

    `slots` is the memory of `out` seen as int32: between counting and spreading it holds the
    slot numbers, so no token is looked up twice and no buffer of the batch's size is needed.
    Returns (row, column) of the bad token id with the smallest row, or (NO_ERROR, 0).
    """
    table = np.zeros((INITIAL_SLOTS, SLOT_FIELDS), dtype=np.int32)
    used = np.empty(INITIAL_SLOTS // 2, dtype=np.int32)
    terms = np.empty(INITIAL_SLOTS, dtype=np.float32)
    memo = np.empty((MEMO_ENTRIES, 2))
    lengths = np.empty(np.max(starts[1:] - starts[:-1]), dtype=np.int64)
    stamp, bad_row, bad_column = 0, NO_ERROR, 0
    for g in range(len(starts) - 1):
        group = slice(starts[g], starts[g + 1])
        while True:
            counts = _count_group(
                ids, mask, id_rows[group], mask_rows[group], rows[group],
                correct[group], ignored, stamp, table, used, slots, lengths,
            )  # fmt: skip
            stamp = counts.stamp
            if counts.n_used >= 0:
                break
            n_slots = 2 * len(table)
            table = np.zeros((n_slots, SLOT_FIELDS), dtype=np.int32)
            used = np.empty(n_slots // 2, dtype=np.int32)
            terms = np.empty(n_slots, dtype=np.float32)
        if counts.bad_row < bad_row:
            bad_row, bad_column = counts.bad_row, counts.bad_column
        if bad_row != NO_ERROR:
            continue
        _judge_group(counts, table, used, weights, memo, terms)
        for i in range(starts[g], starts[g + 1]):
            row, known = rows[i], correct[i] >= 0
            for t in range(lengths[i - starts[g]]):
                if mask[mask_rows[i], t] != 0:
                    out[row, t] = base[row] + (terms[slots[row, t]] if known else 0.0)
    return bad_row, bad_column


@_jit
def tabulate_group(ids, mask, id_rows, mask_rows, rows, starts, correct, ignored, weights):  # type: ignore[no-untyped-def]
    """One group's columns token_id, a, b, c, d, and tf_true to term, in no particular order."""
    n_slots = INITIAL_SLOTS
    lengths = np.empty(len(rows), dtype=np.int64)
    slots = np.empty((len(rows), ids.shape[1]), dtype=np.int32)
    local = np.arange(len(rows))
    while True:
        table = np.zeros((n_slots, SLOT_FIELDS), dtype=np.int32)
        used = np.empty(n_slots // 2, dtype=np.int32)
        counts = _count_group(
            ids, mask, id_rows, mask_rows, local,
            correct, ignored, 0, table, used, slots, lengths,
        )  # fmt: skip
        if counts.n_used >= 0:
            break
        n_slots *= 2
    n_true, n_false = counts.n_true, counts.n_false
    cells = np.empty((counts.n_used, 5), dtype=np.int64)
    judged = np.zeros((counts.n_used, 8))
    n = 0
    for slot in used[: counts.n_used]:
        a, b = table[slot, IN_TRUE], table[slot, IN_FALSE]
        if a == IGNORED:
            continue
        cells[n, 0], cells[n, 1], cells[n, 2] = table[slot, KEY], a, b
        cells[n, 3], cells[n, 4] = n_true - a, n_false - b
        occur_true, occur_false = table[slot, OCCUR_TRUE], table[slot, OCCUR_FALSE]
        judged[n, 0] = occur_true / max(counts.length_true, 1)
        judged[n, 1] = occur_false / max(counts.length_false, 1)
        judged[n, 2] = 1.0
        if n_true > 0 and n_false > 0:
            p, fisher, gain, strength = _strength(a, b, n_true, n_false, weights)
            direction = effect_size(a, b, n_true, n_false) + weights.h3 * _contrast(
                occur_true, occur_false, counts.length_true, counts.length_false, weights
            )
            value = strength * direction
            judged[n, 2], judged[n, 3], judged[n, 4] = p, fisher, gain
            judged[n, 5], judged[n, 6] = direction, value
            judged[n, 7] = term(value, weights.term_scale)
        n += 1
    bad_row = rows[counts.bad_row] if counts.bad_row != NO_ERROR else NO_ERROR
    return cells[:n], judged[:n], (bad_row, counts.bad_column)
