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
from ktae.config import MAX_TOKEN_ID, KTAEConfig

logger = logging.getLogger(__name__)

NO_ERROR = 2**62
"""In the row of a (row, column) of the first bad token id: there is none."""

INITIAL_SLOTS = 1 << 14
MEMO_ENTRIES = 1 << 12

# A hash slot is 4 int64, half a cache line, at 4 * slot of a flat table:
# - the group's number (upper half) and the token id (lower half), so one comparison finds the token
#   and nothing has to be cleared between groups;
# - the number of the last rollout that holds the token;
# - how many rollouts hold it, and
# - how often it occurs, both incorrect (lower half) and correct (upper half), so that a rollout's
#   class is a shift and no branch.
KEY, LAST, ROLLOUTS, OCCURRENCES = range(4)
FIELDS = 4
LOW = 0xFFFFFFFF


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


def kernel_weights(config: KTAEConfig) -> tuple[Weights, np.ndarray]:
    """The config's numbers as the kernels take them, and its ignored token ids."""
    weights = Weights(
        h1=float(config.h1),
        h2=float(config.h2),
        h3=float(config.h3),
        k1=float(config.k1),
        b_len=float(config.b_len),
        eps=float(config.eps),
        value_scale=1.0 / (config.h1 + config.h2) if config.normalize else 1.0,
        term_scale=float(config.term_scale),
        point=config.fisher == "point",
    )
    return weights, np.array(config.ignore_token_ids, dtype=np.int64)


class GroupCounts(NamedTuple):
    """What counting a group found."""

    n_true: int
    n_false: int
    length_true: int
    length_false: int
    n_used: int
    """Distinct tokens, or -1: the table is too small."""
    bad_row: int
    bad_column: int


def _jit(function: Callable[..., Any]) -> Any:
    """Compile without the GIL, cached on disk, or in memory where no cache can be written."""
    try:
        return numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    except RuntimeError as error:  # numba found no writable place for its cache
        logger.debug("%s is compiled in memory: %s", function.__name__, error)
        return numba.njit(nogil=True, error_model="numpy")(function)


fisher_p_value = _jit(statistics.fisher_p_value)
fisher_score = _jit(statistics.fisher_score)
information_gain = _jit(statistics.information_gain)
saturated_term_frequency = _jit(statistics.saturated_term_frequency)
effect_size = _jit(statistics.effect_size)
frequency_contrast = _jit(statistics.frequency_contrast)
term = _jit(statistics.term)


@_jit
def _is_ignored(token, ignored):
    for ignored_id in ignored:  # noqa: SIM110  # numba compiles no generator
        if token == ignored_id:
            return True
    return False


@_jit
def _end(mask):
    """One past the last unmasked position, or up to 7 more: padding goes 8 bytes at a time."""
    end = len(mask)
    if end % 8 == 0:
        words = mask.view(np.uint64)
        while end > 0 and words[end // 8 - 1] == 0:
            end -= 8
    return end


@_jit
def _count_rollout(ids, mask, slots, number, group, shift, ignored, table, used, n_used):
    """Count one rollout's tokens. All arrays are this rollout's rows but `table` and `used`.

    About every second token of a rollout is new to its group, which no processor can predict, so
    a new token is not a branch: the slot's old contents count for nothing. The only branch left
    is a collision. Ignored tokens get the slot behind the last one.

    Returns the number of used slots, one past the last unmasked position, the tokens counted, and
    the position of a bad token id (-1: none).
    """
    n_slots = len(table) // FIELDS
    last_slot = np.uint64(n_slots - 1)
    length, tokens = 0, 0
    for t in range(_end(mask)):
        if mask[t] == 0:
            continue
        token = np.int64(ids[t])
        if token < 0 or token > MAX_TOKEN_ID:
            return n_used, length, 0, t
        length = t + 1
        if len(ignored) > 0 and _is_ignored(token, ignored):
            slots[t] = n_slots
            continue
        tokens += 1
        key = group << 32 | token
        slot = (np.uint64(token) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32) & last_slot
        base = slot * np.uint64(FIELDS)
        found = table[base]
        while found != key and found >> 32 == group:
            slot = slot + np.uint64(1) & last_slot
            base = slot * np.uint64(FIELDS)
            found = table[base]
        is_old = found == key
        fresh = np.int64(not is_old or table[base + np.uint64(LAST)] != number)
        table[base] = key
        table[base + np.uint64(LAST)] = number
        table[base + np.uint64(ROLLOUTS)] = (
            table[base + np.uint64(ROLLOUTS)] if is_old else np.int64(0)
        ) + (fresh << shift)
        table[base + np.uint64(OCCURRENCES)] = (
            table[base + np.uint64(OCCURRENCES)] if is_old else np.int64(0)
        ) + (np.int64(1) << shift)
        slots[t] = np.int32(slot)
        used[n_used] = np.int64(slot)
        n_used += not is_old
    return n_used, length, tokens, -1


@_jit
def _initial_slots(width):
    """A power of two. Before each rollout at most half of the slots are used, so that with four
    times a rollout's length the table cannot fill up within one."""
    n_slots = INITIAL_SLOTS
    while n_slots < 4 * width:
        n_slots *= 2
    return n_slots


@_jit
def _check_rollout(ids, mask):
    """One past the last unmasked position, and the position of a bad token id (-1: none)."""
    length = 0
    for t in range(_end(mask)):
        if mask[t] != 0:
            if ids[t] < 0 or ids[t] > MAX_TOKEN_ID:
                return length, t
            length = t + 1
    return length, -1


@_jit
def _count_group(
    ids, mask, id_rows, mask_rows, rows, correct, ignored, group, table, used, slots, lengths
):
    """Fill `table` and `used` with the group's tokens and `slots` with each position's slot.

    `group` is a number above 0 that no earlier call on this table had. `lengths[i]` becomes one
    past the last unmasked position of rollout i. Rollouts of unknown correctness are checked but
    not counted.
    """
    n_true, n_false, length_true, length_false, n_used = 0, 0, 0, 0, 0
    for i in range(len(rows)):
        row_ids, row_mask = ids[id_rows[i]], mask[mask_rows[i]]
        tokens = 0
        if correct[i] < 0:
            lengths[i], bad = _check_rollout(row_ids, row_mask)
        else:
            n_used, lengths[i], tokens, bad = _count_rollout(
                row_ids, row_mask, slots[rows[i]], i, group, 32 * np.int64(correct[i]),
                ignored, table, used, n_used,
            )  # fmt: skip
        if bad >= 0:
            return GroupCounts(0, 0, 0, 0, 0, rows[i], bad)
        if 2 * n_used > len(used):
            n_used = -1
            break
        if tokens > 0 and correct[i] == 1:
            n_true += 1
            length_true += tokens
        elif tokens > 0:
            n_false += 1
            length_false += tokens
    return GroupCounts(n_true, n_false, length_true, length_false, n_used, NO_ERROR, 0)


@_jit
def _strength(a, b, n_true, n_false, weights):
    p = fisher_p_value(a, b, n_true, n_false, weights.point)
    fisher = fisher_score(p)
    gain = information_gain(a, b, n_true, n_false)
    # The released code divides by h1 + h2, the paper does not: value_scale.
    return p, fisher, gain, (weights.h1 * fisher + weights.h2 * gain) * weights.value_scale


@_jit
def judge_pairs(a, b, n_true, n_false, weights):
    """(n, 2) strength and effect size of n tables; 0 where one class is empty."""
    out = np.zeros((len(a), 2))
    for i in range(len(a)):
        if n_true[i] > 0 and n_false[i] > 0:
            out[i, 0] = _strength(a[i], b[i], n_true[i], n_false[i], weights)[3]
            out[i, 1] = effect_size(a[i], b[i], n_true[i], n_false[i])
    return out


@_jit
def _contrast(occur_true, occur_false, length_true, length_false, weights):
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
def _judge_group(counts, table, used, weights, memo, terms):
    """`terms[slot]` of every used slot.

    Strength and effect size depend on (a, b) alone, and so does the whole term of a token that no
    rollout holds twice, which most are: each pair is computed once a group. NaN in `memo` means
    not yet. Groups too large for the memo compute each token, which is linear too, since Fisher's
    test takes no more steps than there are rollouts with the token.
    """
    n_true, n_false = counts.n_true, counts.n_false
    n_pairs = (n_true + 1) * (n_false + 1)
    remembered = n_pairs <= len(memo)
    memo[: min(n_pairs, len(memo))] = np.nan
    for slot in used[: counts.n_used]:
        pair, occurrences = table[FIELDS * slot + ROLLOUTS], table[FIELDS * slot + OCCURRENCES]
        if n_true == 0 or n_false == 0:
            terms[slot] = 0.0
            continue
        a, b = pair >> 32, pair & LOW
        entry = a * (n_false + 1) + b if remembered else 0
        if occurrences == pair and remembered and not np.isnan(memo[entry, 2]):
            terms[slot] = memo[entry, 2]
            continue
        if not remembered or np.isnan(memo[entry, 0]):
            memo[entry, 0] = _strength(a, b, n_true, n_false, weights)[3]
            memo[entry, 1] = effect_size(a, b, n_true, n_false)
        strength, direction = memo[entry, 0], memo[entry, 1]
        if strength > 0.0 and weights.h3 > 0.0:
            direction += weights.h3 * _contrast(
                occurrences >> 32, occurrences & LOW,
                counts.length_true, counts.length_false, weights,
            )  # fmt: skip
        terms[slot] = term(strength * direction, weights.term_scale)
        if occurrences == pair:
            memo[entry, 2] = terms[slot]


@_jit
def _spread(slots, mask, terms, base, length, known, out):
    """Turn one rollout's slot numbers into terms plus `base`."""
    for t in range(length):
        if mask[t] != 0:
            out[t] = base + (terms[slots[t]] if known else 0.0)


@_jit
def score_groups(
    ids, mask, id_rows, mask_rows, rows, starts, correct, ignored, weights, base, out, slots
):
    """Write the terms plus `base` of the groups `rows[starts[g]:starts[g + 1]]` to `out`.

    `slots` is the memory of `out` seen as int32: between counting and spreading it holds the
    slot numbers, so no token is looked up twice and no buffer of the batch's size is needed.
    Returns (row, column) of the bad token id with the smallest row, or (NO_ERROR, 0).
    """
    n_slots = _initial_slots(ids.shape[1])
    table = np.zeros(FIELDS * n_slots, dtype=np.int64)
    used = np.empty(n_slots, dtype=np.int64)
    terms = np.zeros(n_slots + 1, dtype=np.float32)
    memo = np.empty((MEMO_ENTRIES, 3))
    lengths = np.empty(np.max(starts[1:] - starts[:-1]), dtype=np.int64)
    unknown = np.full(len(lengths), -1, dtype=np.int8)
    bad_row, bad_column = NO_ERROR, 0
    for g in range(len(starts) - 1):
        group = slice(starts[g], starts[g + 1])
        verdicts = correct[group]
        if not (np.any(verdicts == 0) and np.any(verdicts == 1)):
            verdicts = unknown[: len(verdicts)]  # nothing to compare: only check the token ids
        while True:
            counts = _count_group(
                ids, mask, id_rows[group], mask_rows[group], rows[group],
                verdicts, ignored, g + 1, table, used, slots, lengths,
            )  # fmt: skip
            if counts.n_used >= 0:
                break
            n_slots *= 2
            table = np.zeros(FIELDS * n_slots, dtype=np.int64)
            used = np.empty(n_slots, dtype=np.int64)
            terms = np.zeros(n_slots + 1, dtype=np.float32)
        if counts.bad_row < bad_row:
            bad_row, bad_column = counts.bad_row, counts.bad_column
        if bad_row != NO_ERROR:
            continue
        _judge_group(counts, table, used, weights, memo, terms)
        for i in range(len(verdicts)):
            row, mask_row = rows[starts[g] + i], mask_rows[starts[g] + i]
            if verdicts[i] >= 0 or base[row] != 0.0:
                _spread(
                    slots[row], mask[mask_row], terms, base[row],
                    lengths[i], verdicts[i] >= 0, out[row],
                )  # fmt: skip
    return bad_row, bad_column


@_jit
def tabulate_group(ids, mask, id_rows, mask_rows, rows, correct, ignored, weights):
    """One group's columns token_id, a, b, c, d, and tf_true to term, in no particular order."""
    n_slots = _initial_slots(ids.shape[1])
    lengths = np.empty(len(rows), dtype=np.int64)
    slots = np.empty((len(rows), ids.shape[1]), dtype=np.int32)
    local = np.arange(len(rows))
    while True:
        table = np.zeros(FIELDS * n_slots, dtype=np.int64)
        used = np.empty(n_slots, dtype=np.int64)
        counts = _count_group(
            ids, mask, id_rows, mask_rows, local,
            correct, ignored, 1, table, used, slots, lengths,
        )  # fmt: skip
        if counts.n_used >= 0:
            break
        n_slots *= 2
    n_true, n_false = counts.n_true, counts.n_false
    cells = np.empty((counts.n_used, 5), dtype=np.int64)
    judged = np.zeros((counts.n_used, 8))
    n = 0
    for slot in used[: counts.n_used]:
        token = table[FIELDS * slot + KEY] & LOW
        pair, occurrences = table[FIELDS * slot + ROLLOUTS], table[FIELDS * slot + OCCURRENCES]
        a, b = pair >> 32, pair & LOW
        cells[n, 0], cells[n, 1], cells[n, 2] = token, a, b
        cells[n, 3], cells[n, 4] = n_true - a, n_false - b
        occur_true, occur_false = occurrences >> 32, occurrences & LOW
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
