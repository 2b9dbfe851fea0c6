"""All code that numba compiles, in one file, since numba's cache looks at one file alone.

In a group's hash table a key's slot holds the key and its number, by which arrays hold its counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from ktae import stats
from ktae.arrays import MAX_TOKEN_ID
from ktae.counting.units import FINISH, MIX

HASH = 0x9E3779B97F4A7C15
"""Odd: what a key is multiplied by, and the top bits of the product spread it evenly."""
TAKEN = 1 << 31
"""In the upper half of a slot, beside the key: the slot holds one."""
LOW = 0xFFFFFFFF

MAX_PAIRS = 4
"""Pairs (correct, incorrect responses) a key of a group, up to which equal ones share a row."""


def compiled(compiler: Callable[..., Any], *signature: Any, **options: Any) -> Any:
    """A decorator that keeps what it compiles in numba's cache, where there is a place for it."""

    def compile_function(function: Callable[..., Any]) -> Any:
        try:
            return compiler(*signature, cache=True, **options)(function)
        except RuntimeError:  # no folder can be written to: it is compiled in each process
            return compiler(*signature, **options)(function)

    return compile_function


jit = compiled(numba.njit, nogil=True, error_model="numpy")
fisher_p_values = compiled(numba.vectorize, ["f8(f8, f8, f8, f8, b1)"])(stats.fisher_p_value)
single_precision_p_values = compiled(numba.vectorize, ["f8(f8, f8, f8, f8)"])(
    stats.single_precision_p_value
)


@jit
def measure(ids, mask, ends, lengths):
    """Fill in where rows end and how many tokens they have; whether all ids are in range."""
    bad = False
    for i in range(len(ids)):
        end, n = np.int32(0), np.int32(0)
        for t in range(mask.shape[1]):  # no branch, so that many positions are one step
            end = max(end, np.int32(t + 1 if mask[i, t] != 0 else 0))
        for t in range(end):
            n += np.int32(mask[i, t] != 0)
            bad |= (mask[i, t] != 0) & ((ids[i, t] < 0) | (ids[i, t] > MAX_TOKEN_ID))
        ends[i], lengths[i] = end, n
    return not bad


@jit
def totals_of(lengths, scores, totals):
    """Fill in a group's `Totals`, with the variance last."""
    mean = squares = 0.0
    totals[:] = 0.0
    for i in range(len(scores)):
        score = scores[i]
        if lengths[i] == 0 or np.isnan(score):
            continue
        totals[0] += 1.0
        deviation = score - mean  # Welford's algorithm: exactly 0 for equal scores
        mean += deviation / totals[0]
        squares += deviation * (score - mean)
        totals[1] += score
        totals[2] += score * lengths[i]
        totals[3] += (1.0 - score) * lengths[i]
    totals[4] = squares / max(totals[0], 1.0)


@jit
def mixed(state, number):
    """`ktae.counting.units.mixed` of uint64."""
    state = (state ^ (number + np.uint64(1))) * np.uint64(MIX)
    return state ^ state >> np.uint64(32)


@jit
def slot_of(slots, entry, key, bits):
    """Where `entry`, a key with number 0, stands in the first 2**bits slots, or would stand.

    What the slot's upper half differs by from the entry's is 0 where it holds the key, below 2**31
    where it holds another one, and above where it is free. No branch depends on which it is.
    """
    step, last_slot = np.uint64(1), (np.uint64(1) << bits) - np.uint64(1)
    slot = (key * np.uint64(HASH)) >> (np.uint64(64) - bits)
    # Less 1, a difference of 0 becomes the largest number: one comparison ends the search for both.
    while ((slots[slot] ^ entry) >> np.uint64(32)) - step < np.uint64(MAX_TOKEN_ID):
        slot = slot + step & last_slot
    return slot


@jit
def keys_of(ids, mask, order, keys):
    """Write the keys of a response's n-grams of `order` tokens; how many."""
    last = pair = np.uint64(0)  # the states of the n-grams of 1 and 2 tokens that end before
    n = 0
    for t in range(len(mask)):
        if mask[t] == 0:
            continue
        key = np.uint64(ids[t])
        if order > 1:
            bigram = mixed(last, key)
            state = bigram if order == 2 else mixed(pair, key)
            last, pair = mixed(np.uint64(0), key), bigram
            key = state * np.uint64(FINISH) >> np.uint64(33)
        keys[n] = key
        n += 1
    return n


@jit
def count_keys(keys, place, weights, bits, n_used, table, sums, index):
    """Count one response's keys, and write each one's number to `index`; the next free number.

    `place` is the response's in its group, from 1; `weights` are how much one counts, and the score
    (for `sums`). `table` has 2**bits slots, the last response with each key, and its counts: at 2 i
    the responses with key i, at 2 i + 1 how often it is there again; their upper halves are those
    of correct ones.
    """
    slots, seen, counts = table
    step, score = weights
    for i in range(len(keys)):
        key = keys[i]
        entry = (key | np.uint64(TAKEN)) << np.uint64(32)
        slot = slot_of(slots, entry, key, bits)
        is_new = slots[slot] == 0
        number = np.uint64(n_used) if is_new else slots[slot] & np.uint64(LOW)
        n_used += is_new
        slots[slot] = entry | number
        index[i] = np.int64(number)
        holder = key << np.uint64(32) | np.uint64(place)
        again = (seen[number] == holder) & (not is_new)
        seen[number] = holder
        counts[number << np.uint64(1) | np.uint64(again)] += step
        if len(sums) > 0 and step != 0:
            sums[number, 0] += (not again) * score
            sums[number, 1] += score
    return n_used


@jit
def rows_of_group(g, n_used, totals, shares_rows, table, sums, memo, row_of, n_rows, columns):
    """Write rows (key, group, four counts) for a group's numbers or pairs; the next free row."""
    _, seen, counts = table
    keys, groups, numbers = columns
    n_incorrect = int(totals[0] - totals[1]) + 1
    n_pairs = (int(totals[1]) + 1) * n_incorrect
    shares_rows = shares_rows and len(sums) == 0 and n_pairs <= min(len(memo), MAX_PAIRS * n_used)
    if shares_rows:
        memo[:n_pairs] = 0
    for i in range(1, n_used):
        new, again = counts[2 * i], counts[2 * i + 1]
        if new == 0:  # it is in responses of unknown correctness alone
            row_of[i] = 0
            continue
        a, b = new >> 32, new & LOW
        shares = shares_rows and again == 0
        if shares and memo[a * n_incorrect + b] != 0:
            row_of[i] = memo[a * n_incorrect + b]
            continue
        if shares:
            memo[a * n_incorrect + b] = n_rows
        row_of[i] = n_rows
        keys[n_rows], groups[n_rows] = np.int64(seen[i] >> np.uint64(32)), g
        if len(sums) > 0:
            numbers[0, n_rows], numbers[1, n_rows] = sums[i, 0], float(b)
            numbers[2, n_rows], numbers[3, n_rows] = sums[i, 1], float(b + again)
        else:
            more, less = again >> 32, again & LOW
            numbers[0, n_rows], numbers[1, n_rows] = float(a), float(a + b)
            numbers[2, n_rows], numbers[3, n_rows] = float(a + more), float(a + b + more + less)
        n_rows += 1
    return n_rows


@jit
def count_groups(tokens, responses, order, options, table, sums, memo, row_of, output):
    """Count all groups; how many rows there are.

    Args:
        tokens: (B, T) ids and mask; (B,) where rows end, how many tokens they have, and where in
            the index they begin.
        responses: (B,) row numbers group by group, (G + 1,) where in them groups begin, and (B,)
            scores, NaN where unknown.
        order: tokens of the n-grams.
        options: whether unknown responses are looked up, and whether keys may share rows.
        table, sums, memo, row_of: memory for the largest group (`count_keys`, `rows_of_group`).
        output: the index, (G, 5) totals, and the columns of `rows_of_group`.
    """
    ids, mask, ends, lengths, begins = tokens
    rows, starts, scores = responses
    look_up, shares_rows = options
    slots, _, counts = table
    index, totals, columns = output
    keys = np.empty(ids.shape[1], np.uint64)
    n_rows = 1
    for g in range(len(starts) - 1):
        members = rows[starts[g] : starts[g + 1]]
        totals_of(lengths[members], scores[members], totals[g])
        if totals[g, 4] == 0.0 and shares_rows:
            continue  # there is nothing to compare, and so nothing to count
        bits = np.uint64(4)
        while np.int64(1) << np.int64(bits) < 2 * lengths[members].sum():
            bits += np.uint64(1)
        slots[: np.int64(1) << np.int64(bits)] = 0
        n_used = 1
        for place in range(len(members)):
            row = members[place]
            score, end = scores[row], ends[row]
            known = not np.isnan(score)
            if lengths[row] == 0 or not (known or look_up):
                continue
            step = np.int64(known) << (32 if known and len(sums) == 0 and score != 0.0 else 0)
            n = keys_of(ids[row, :end], mask[row, :end], order, keys)
            out = index[begins[row] : begins[row] + n]
            weights = step, score
            n_used = count_keys(keys[:n], place + 1, weights, bits, n_used, table, sums, out)
        n_rows = rows_of_group(
            g, n_used, totals[g], shares_rows, table, sums, memo, row_of, n_rows, columns
        )
        for place in range(len(members)):
            row = members[place]
            if np.isnan(scores[row]) and not look_up:
                continue
            for n in range(begins[row], begins[row] + lengths[row]):
                index[n] = row_of[index[n]]
        counts[: 2 * n_used] = 0
        sums[:n_used] = 0.0
    return n_rows


@jit
def spread(values, mask, ends, begins, out):
    """Write (N,) values of tokens to the places of these tokens in (B, T)."""
    for i in range(len(ends)):
        n = begins[i]
        for t in range(ends[i]):
            if mask[i, t] != 0:
                out[i, t] = values[n]
                n += 1
