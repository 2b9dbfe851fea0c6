"""The compiled inner loops of the CPU backend, with the formulas of `ktae.statistics`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktae import statistics
from ktae.backends._kernel_cache import jit
from ktae.config import MAX_TOKEN_ID, KTAEConfig

NO_ERROR = 2**62
"""In the row of a (row, column) of the first bad token id: there is none."""

INITIAL_BITS = 10
MEMO_ENTRIES = 1 << 12

TOO_SMALL = -1
IGNORED = 0
"""The index of all ignored tokens together: nothing is counted there, and its term is 0."""
LOW = 0xFFFFFFFF
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


fisher_p_value = jit(statistics.fisher_p_value)
fisher_score = jit(statistics.fisher_score)
information_gain = jit(statistics.information_gain)
saturated_term_frequency = jit(statistics.saturated_term_frequency)
effect_size = jit(statistics.effect_size)
frequency_contrast = jit(statistics.frequency_contrast)
term = jit(statistics.term)


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
def _count_rollout(ids, mask, indices, number, shift, ignored, stamp, space, n_used):
    """Count one rollout's tokens and leave each one's index in `indices`.

    About every second token of a rollout is new to its group, which no processor can predict, so
    no branch may depend on that: `differ` is 0 where the slot holds the token, below 2**31 where
    it holds another one of this group, and above where it is free.

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
    return n_used, tokens, -1


@jit
def workspace(width, bits):
    """At least 2**bits slots. Before each rollout at most half of them are used, so that with
    four times a rollout's length the table cannot fill up within one."""
    while 1 << bits < 4 * width:
        bits += 1
    n_slots = 1 << bits
    return Workspace(
        bits, np.zeros(n_slots, dtype=np.uint64), np.zeros(n_slots, dtype=np.int32),
        np.zeros(n_slots, dtype=np.int64), np.zeros(n_slots, dtype=np.int64),
        np.zeros(n_slots, dtype=np.float32),
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
    ids, mask, id_rows, mask_rows, rows, first, correct, ignored, stamp, space, n_used, indices,
    lengths,
):  # fmt: skip
    """Fill `space` with the group's tokens and `indices` with the index of each position's.

    Its rows are `first` to `first + len(rows)` of the chunk. `lengths[i]` becomes one past the
    last unmasked position of rollout i. Rollouts of unknown correctness are only checked. `n_used`
    is IGNORED + 1, or what earlier rows of the group have left; other counts are these rows' alone.
    """
    n_true, n_false, length_true, length_false = 0, 0, 0, 0
    for i in range(len(rows)):
        lengths[i] = _end(mask[mask_rows[i]])
        row_ids, row_mask = ids[id_rows[i], : lengths[i]], mask[mask_rows[i], : lengths[i]]
        tokens = 0
        if correct[i] < 0:
            bad = _check_rollout(row_ids, row_mask)
        else:
            n_used, tokens, bad = _count_rollout(
                row_ids, row_mask, indices[rows[i]], np.int32(first + i + 1),
                32 * np.int64(correct[i]), ignored, stamp, space, n_used,
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


@jit
def _strength(a, b, n_true, n_false, weights):
    p = fisher_p_value(a, b, n_true, n_false, weights.point)
    fisher = fisher_score(p)
    gain = information_gain(a, b, n_true, n_false)
    # The released code divides by h1 + h2, the paper does not: value_scale.
    return p, fisher, gain, (weights.h1 * fisher + weights.h2 * gain) * weights.value_scale


@jit
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


@jit
def judge_group(counts, space, weights, memo):
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
    if remembered:
        memo[:n_pairs] = np.nan
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


@jit
def _spread(indices, mask, terms, base, length, known, out):
    """Turn one rollout's indices into terms plus `base`."""
    for t in range(length):
        if mask[t] != 0:
            out[t] = base + (terms[indices[t]] if known else 0.0)


@jit
def spread_rows(mask, mask_rows, rows, verdicts, terms, base, lengths, indices, out):
    """Turn the indices of some rows of a group into terms plus `base`."""
    for i in range(len(rows)):
        row = rows[i]
        if verdicts[i] >= 0 or base[row] != 0.0:
            _spread(
                indices[row], mask[mask_rows[i]], terms, base[row],
                lengths[i], verdicts[i] >= 0, out[row],
            )  # fmt: skip


@jit
def score_groups(
    ids, mask, id_rows, mask_rows, rows, starts, correct, ignored, weights, base, out, indices
):
    """Write the terms plus `base` of the groups `rows[starts[g]:starts[g + 1]]` to `out`.

    `indices` is the memory of `out` seen as int32: between counting and spreading it holds the
    tokens' indices, so no token is looked up twice and no buffer of the batch's size is needed.
    Returns (row, column) of the bad token id with the smallest row, or (NO_ERROR, 0).
    """
    space = workspace(ids.shape[1], INITIAL_BITS)
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
            counts = count_group(
                ids, mask, id_rows[group], mask_rows[group], rows[group], starts[g],
                verdicts, ignored, _stamp(g, space), space, IGNORED + 1, indices, lengths,
            )  # fmt: skip
            if counts.n_used != TOO_SMALL:
                break
            space = workspace(ids.shape[1], space.bits + 1)
        if counts.bad_row < bad_row:
            bad_row, bad_column = counts.bad_row, counts.bad_column
        if bad_row == NO_ERROR:
            judge_group(counts, space, weights, memo)
            spread_rows(
                mask, mask_rows[group], rows[group], verdicts, space.terms, base, lengths,
                indices, out,
            )  # fmt: skip
        space.rollouts[: counts.n_used] = 0
        space.occurrences[: counts.n_used] = 0
    return bad_row, bad_column


@jit
def tabulate_group(ids, mask, id_rows, mask_rows, rows, correct, ignored, weights):
    """One group's columns token_id, a, b, c, d, and tf_true to term, in no particular order."""
    space = workspace(ids.shape[1], INITIAL_BITS)
    lengths = np.empty(len(rows), dtype=np.int64)
    indices = np.empty((len(rows), ids.shape[1]), dtype=np.int32)
    local = np.arange(len(rows))
    while True:
        counts = count_group(
            ids, mask, id_rows, mask_rows, local, 0,
            correct, ignored, np.uint64(1), space, IGNORED + 1, indices, lengths,
        )  # fmt: skip
        if counts.n_used != TOO_SMALL:
            break
        space = workspace(ids.shape[1], space.bits + 1)
    n_true, n_false = counts.n_true, counts.n_false
    cells = np.empty((counts.n_used - 1, 5), dtype=np.int64)
    judged = np.zeros((counts.n_used - 1, 8))
    for n, entry in enumerate(space.table[space.table != 0]):
        token = np.int64(entry >> np.uint64(space.bits)) & MAX_TOKEN_ID
        index = np.int64(entry) & (len(space.table) - 1)
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
    bad_row = rows[counts.bad_row] if counts.bad_row != NO_ERROR else NO_ERROR
    return cells, judged, (bad_row, counts.bad_column)
