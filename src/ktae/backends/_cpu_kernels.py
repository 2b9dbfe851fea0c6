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

INITIAL_SLOTS = 1 << 10
MEMO_ENTRIES = 1 << 12

TOO_SMALL = -1

FREE = -1
"""A slot of the hash table that holds no token."""
IGNORED = 0
"""The index of all ignored tokens together: nothing is counted there, and its term is 0."""
LOW = 0xFFFFFFFF


class Workspace(NamedTuple):
    """What one thread counts a group in, reused from group to group.

    The distinct tokens of a group have indices from 1 in the order in which they first occur, so
    that frequent tokens lie side by side. `table` finds the index, the rest is read by it.
    Between groups the table is free and the counts are 0.
    """

    table: np.ndarray
    """(n_slots,) int64, a hash table: token id (upper half) and index (lower half), or FREE. The
    number of slots is a power of two."""
    last: np.ndarray
    """(n_slots,) int32: one more than the number of the last rollout that holds the token."""
    rollouts: np.ndarray
    """(n_slots,) int64: how many rollouts hold it, incorrect ones in the lower half and correct
    ones in the upper, so that a rollout's class is a shift and no branch."""
    occurrences: np.ndarray
    """(n_slots,) int64: how often it occurs, likewise."""
    terms: np.ndarray
    """(n_slots,) float32"""


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
    """One more than the distinct tokens, or TOO_SMALL: the workspace is."""
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
def _count_rollout(ids, mask, indices, number, shift, ignored, space, n_used):
    """Count one rollout's tokens and leave each one's index in `indices`.

    About every second token of a rollout is new to its group, which no processor can predict, so
    that must not be a branch. `neither_free_nor_token` is a product, 0 if either factor is, since
    compilers make two branches of two comparisons: half of this function's speed. It cannot
    overflow to 0: the factors hold at most 30 and 31 powers of two.

    Returns the number of used indices, one past the last unmasked position, the tokens counted,
    and the position of a bad token id (-1: none).
    """
    last_slot = np.uint64(len(space.table) - 1)
    length, tokens = 0, 0
    for t in range(_end(mask)):
        if mask[t] == 0:
            continue
        token = np.int64(ids[t])
        if token < 0 or token > MAX_TOKEN_ID:
            return n_used, length, 0, t
        length = t + 1
        if len(ignored) > 0 and _is_ignored(token, ignored):
            indices[t] = IGNORED
            continue
        tokens += 1
        slot = (np.uint64(token) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32) & last_slot
        found = space.table[slot]
        neither_free_nor_token = ((found >> 32) ^ token) * (found + 1)
        while neither_free_nor_token != 0:
            slot = slot + np.uint64(1) & last_slot
            found = space.table[slot]
            neither_free_nor_token = ((found >> 32) ^ token) * (found + 1)
        is_new = found == FREE
        index = np.uint64(n_used if is_new else found & LOW)
        n_used += is_new
        space.table[slot] = token << 32 | np.int64(index)
        indices[t] = np.int32(index)
        fresh = np.int64(space.last[index] != number + 1)
        space.last[index] = number + 1
        space.rollouts[index] += fresh << shift
        space.occurrences[index] += np.int64(1) << shift
    return n_used, length, tokens, -1


@_jit
def _workspace(width, n_slots):
    """At least `n_slots` slots. Before each rollout at most half of them are used, so that with
    four times a rollout's length the table cannot fill up within one."""
    while n_slots < 4 * width:
        n_slots *= 2
    return Workspace(
        np.full(n_slots, FREE, dtype=np.int64), np.zeros(n_slots, dtype=np.int32),
        np.zeros(n_slots, dtype=np.int64), np.zeros(n_slots, dtype=np.int64),
        np.zeros(n_slots, dtype=np.float32),
    )  # fmt: skip


@_jit
def _clear(space, n_used):
    space.table[:] = FREE
    space.last[:n_used] = 0
    space.rollouts[:n_used] = 0
    space.occurrences[:n_used] = 0


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
def _count_group(ids, mask, id_rows, mask_rows, rows, correct, ignored, space, indices, lengths):
    """Fill `space` with the group's tokens and `indices` with the index of each position's.

    `lengths[i]` becomes one past the last unmasked position of rollout i. Rollouts of unknown
    correctness are checked but not counted.
    """
    n_true, n_false, length_true, length_false, n_used = 0, 0, 0, 0, IGNORED + 1
    for i in range(len(rows)):
        row_ids, row_mask = ids[id_rows[i]], mask[mask_rows[i]]
        tokens = 0
        if correct[i] < 0:
            lengths[i], bad = _check_rollout(row_ids, row_mask)
        else:
            n_used, lengths[i], tokens, bad = _count_rollout(
                row_ids, row_mask, indices[rows[i]], i, 32 * np.int64(correct[i]),
                ignored, space, n_used,
            )  # fmt: skip
        if bad >= 0:
            return GroupCounts(0, 0, 0, 0, n_used, rows[i], bad)
        if 2 * n_used > len(space.table):
            return GroupCounts(0, 0, 0, 0, TOO_SMALL, NO_ERROR, 0)
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
def _judge_group(counts, space, weights, memo):
    """The term of every used index.

    Strength and effect size depend on (a, b) alone, and so does the whole term of a token that no
    rollout holds twice, which most are: each pair is computed once a group. NaN in `memo` means
    not yet. Groups too large for the memo compute each token, which is linear too, since Fisher's
    test takes no more steps than there are rollouts with the token.
    """
    n_true, n_false = counts.n_true, counts.n_false
    if n_true == 0 or n_false == 0:
        space.terms[: counts.n_used] = 0.0
        return
    n_pairs = (n_true + 1) * (n_false + 1)
    remembered = n_pairs <= len(memo)
    memo[: min(n_pairs, len(memo))] = np.nan
    for index in range(IGNORED + 1, counts.n_used):
        pair, occurrences = space.rollouts[index], space.occurrences[index]
        a, b = pair >> 32, pair & LOW
        entry = a * (n_false + 1) + b if remembered else 0
        if occurrences == pair and remembered and not np.isnan(memo[entry, 2]):
            space.terms[index] = memo[entry, 2]
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
        space.terms[index] = term(strength * direction, weights.term_scale)
        if occurrences == pair:
            memo[entry, 2] = space.terms[index]


@_jit
def _spread(indices, mask, terms, base, length, known, out):
    """Turn one rollout's indices into terms plus `base`."""
    for t in range(length):
        if mask[t] != 0:
            out[t] = base + (terms[indices[t]] if known else 0.0)


@_jit
def score_groups(
    ids, mask, id_rows, mask_rows, rows, starts, correct, ignored, weights, base, out, indices
):
    """Write the terms plus `base` of the groups `rows[starts[g]:starts[g + 1]]` to `out`.

    `indices` is the memory of `out` seen as int32: between counting and spreading it holds the
    tokens' indices, so no token is looked up twice and no buffer of the batch's size is needed.
    Returns (row, column) of the bad token id with the smallest row, or (NO_ERROR, 0).
    """
    space = _workspace(ids.shape[1], INITIAL_SLOTS)
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
                verdicts, ignored, space, indices, lengths,
            )  # fmt: skip
            if counts.n_used != TOO_SMALL:
                break
            space = _workspace(ids.shape[1], 2 * len(space.table))
        if counts.bad_row < bad_row:
            bad_row, bad_column = counts.bad_row, counts.bad_column
        if bad_row == NO_ERROR:
            _judge_group(counts, space, weights, memo)
            for i in range(len(verdicts)):
                row, mask_row = rows[starts[g] + i], mask_rows[starts[g] + i]
                if verdicts[i] >= 0 or base[row] != 0.0:
                    _spread(
                        indices[row], mask[mask_row], space.terms, base[row],
                        lengths[i], verdicts[i] >= 0, out[row],
                    )  # fmt: skip
        _clear(space, counts.n_used)
    return bad_row, bad_column


@_jit
def tabulate_group(ids, mask, id_rows, mask_rows, rows, correct, ignored, weights):
    """One group's columns token_id, a, b, c, d, and tf_true to term, in no particular order."""
    space = _workspace(ids.shape[1], INITIAL_SLOTS)
    lengths = np.empty(len(rows), dtype=np.int64)
    indices = np.empty((len(rows), ids.shape[1]), dtype=np.int32)
    local = np.arange(len(rows))
    while True:
        counts = _count_group(
            ids, mask, id_rows, mask_rows, local, correct, ignored, space, indices, lengths
        )
        if counts.n_used != TOO_SMALL:
            break
        space = _workspace(ids.shape[1], 2 * len(space.table))
    n_true, n_false = counts.n_true, counts.n_false
    cells = np.empty((counts.n_used - 1, 5), dtype=np.int64)
    judged = np.zeros((counts.n_used - 1, 8))
    n = 0
    for entry in space.table[space.table != FREE]:
        token, index = entry >> 32, entry & LOW
        pair, occurrences = space.rollouts[index], space.occurrences[index]
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
    return cells, judged, (bad_row, counts.bad_column)
