"""The compiled loops of credit that follows the order of tokens: a prefix tree, and conflicts.

Each group takes two passes. The first looks at every token id and writes the bases. The second
goes from token to token of all rollouts at once, and only as far as rollouts have something in
common: as a rule that is a small part of them.

To numba a literal 0 has another type than a variable, and a kernel called with both is compiled
twice: hence `np.int64(0)`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktae.arrays import MAX_TOKEN_ID
from ktae.backends._cpu_kernels import _is_ignored, largest_group
from ktae.backends._kernel import jit
from ktae.backends.unit_kernels import NO_ERROR, length_of
from ktae.rollout_advantages import EPSILON

POSITIVE, NEGATIVE = 1, 2
"""Bits: a rollout of positive, of negative advantage holds the token."""

NOTHING = -1


class Table(NamedTuple):
    """The distinct keys at one place of a group's rollouts; a hash table that need not be cleared.

    Keys have numbers from 0 in the order in which they come.
    """

    stamps: np.ndarray
    """(n_slots,) int64: the place that filled the slot."""
    keys: np.ndarray
    """(n_slots,) int64"""
    numbers: np.ndarray
    """(n_slots,) int64"""
    counts: np.ndarray
    """(n,) int64, by number: known rollouts that hold the key."""
    sums: np.ndarray
    """(n,) float64, by number: of their rewards, or of their credit."""
    bits: np.ndarray
    """(n,) int64, by number: which classes hold the key; for the tree, how many rollouts do, with
    those of unknown correctness."""


@jit
def _table(n):
    """For n keys at a time, at most half full."""
    n_slots = 2
    while n_slots < 2 * n:
        n_slots *= 2
    return Table(
        np.zeros(n_slots, dtype=np.int64), np.empty(n_slots, dtype=np.int64),
        np.empty(n_slots, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n),
        np.empty(n, dtype=np.int64),
    )  # fmt: skip


@jit
def _number(table, key, stamp, n_keys):
    """The key's number; n_keys if it is new, whose counts then are 0."""
    last_slot = np.uint64(len(table.stamps) - 1)
    slot = (np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32) & last_slot
    while table.stamps[slot] == stamp:
        if table.keys[slot] == key:
            return table.numbers[slot]
        slot = slot + np.uint64(1) & last_slot
    table.stamps[slot], table.keys[slot], table.numbers[slot] = stamp, key, n_keys
    table.counts[n_keys], table.sums[n_keys], table.bits[n_keys] = 0, 0.0, 0
    return n_keys


@jit
def _next(ids, mask, ignored, t, step, end):
    """The nearest counted position after t in that direction, or NOTHING."""
    t += step
    while 0 <= t < end:
        if mask[t] != 0 and not (len(ignored) > 0 and _is_ignored(np.int64(ids[t]), ignored)):
            return t
        t += step
    return NOTHING


@jit
def _check_and_base(ids, mask, end, base, out):
    """Write the base to the unmasked positions; the first bad token id's position, or NOTHING."""
    bad = False
    for t in range(end):  # no branch, so that it is done for many tokens at a time
        bad |= mask[t] != 0 and (ids[t] < 0 or ids[t] > MAX_TOKEN_ID)
    if base != 0.0:
        for t in range(end):
            if mask[t] != 0:
                out[t] = base
    if bad:
        for t in range(end):
            if mask[t] != 0 and (ids[t] < 0 or ids[t] > MAX_TOKEN_ID):
                return t
    return NOTHING


@jit
def _prepare(ids, mask, id_rows, mask_rows, rows, ignored, base, out, ends):
    """Check a group's ids, write its bases, find each rollout's end; (row, column) of a bad id."""
    for i in range(len(rows)):
        ends[i] = length_of(mask[mask_rows[i]])
        row_ids, row_mask = ids[id_rows[i]], mask[mask_rows[i]]
        t = _check_and_base(row_ids, row_mask, ends[i], base[rows[i]], out[rows[i]])
        if t != NOTHING:
            return rows[i], t
    return NO_ERROR, 0


@jit
def _moments(rewards, takes_part, equal, scale_by_std):
    """The mean reward and what differences are divided by; NaN: rewards do not differ."""
    n, total, low, high = 0, 0.0, np.inf, -np.inf
    for i in range(len(rewards)):
        if takes_part[i] and not np.isnan(rewards[i]):
            n += 1
            total += rewards[i]
            low, high = min(low, rewards[i]), max(high, rewards[i])
    if n == 0 or high - low <= equal * max(abs(low), abs(high)):
        return np.nan, 1.0
    mean, squares = total / n, 0.0
    if not scale_by_std:
        return mean, 1.0
    for i in range(len(rewards)):
        if takes_part[i] and not np.isnan(rewards[i]):
            squares += (rewards[i] - mean) * (rewards[i] - mean)
    return mean, np.sqrt(squares / (n - 1)) + EPSILON


@jit
def _first_places(ids, mask, id_rows, mask_rows, ends, ignored, rewards, look_up, places):
    """Each rollout's first counted position; NOTHING for those that take no part."""
    for i in range(len(rewards)):
        places[i] = NOTHING
        if look_up or not np.isnan(rewards[i]):
            places[i] = _next(
                ids[id_rows[i]], mask[mask_rows[i]], ignored, np.int64(-1), np.int64(1), ends[i]
            )


@jit
def tempo_groups(
    ids, mask, id_rows, mask_rows, rows, starts, rewards, ignored, look_up, weight, scale_by_std,
    equal, base, out,
):  # fmt: skip
    """Write TEMPO's credit plus `base` of the groups `rows[starts[g]:starts[g + 1]]` to `out`.

    `rewards` is (n,) float64, NaN where unknown. Returns (row, column) of the bad token id with
    the smallest row, or (NO_ERROR, 0).
    """
    largest = largest_group(starts)
    table = _table(largest)
    ends, places = np.empty(largest, dtype=np.int64), np.empty(largest, dtype=np.int64)
    stamp, bad_row, bad_column = np.int64(0), NO_ERROR, 0
    for g in range(len(starts) - 1):
        group = slice(starts[g], starts[g + 1])
        own = rewards[group]
        row, column = _prepare(
            ids, mask, id_rows[group], mask_rows[group], rows[group], ignored, base, out, ends
        )
        if row < bad_row:
            bad_row, bad_column = row, column
        if bad_row != NO_ERROR:
            continue
        _first_places(
            ids, mask, id_rows[group], mask_rows[group], ends, ignored, own, look_up, places
        )
        mean, scale = _moments(own, places[: len(own)] != NOTHING, equal, scale_by_std)
        if not np.isnan(mean):
            stamp = _descend(
                ids, mask, id_rows[group], mask_rows[group], rows[group], own, ends, places,
                ignored, weight, mean, scale, base, out, table, stamp,
            )  # fmt: skip
    return bad_row, bad_column


@jit
def _count_children(ids, id_rows, members, rewards, places, table, stamp, child_of):
    """Fill the table with a node's next tokens, `child_of` with each member's; how many there are.

    A member that has ended is in no child.
    """
    n_children = np.int64(0)
    for i in members:
        if places[i] == NOTHING:
            continue
        child = _number(table, np.int64(ids[id_rows[i], places[i]]), stamp, n_children)
        n_children = max(n_children, child + 1)
        child_of[i] = child
        table.bits[child] += 1
        if not np.isnan(rewards[i]):
            table.counts[child] += 1
            table.sums[child] += rewards[i]
    return n_children


@jit
def _descend(
    ids, mask, id_rows, mask_rows, rows, rewards, ends, places, ignored, weight, mean, scale, base,
    out, table, stamp,
):  # fmt: skip
    """Write the credit of one group's tree, level by level; `places` are used up.

    A node is a slice of `members`, in which rollouts of one prefix lie side by side, in the order
    of their rows. A node of fewer than two known rollouts has the same value from there on.
    """
    n = len(rewards)
    members, following = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    child_of, starts_of = np.empty(n, dtype=np.int64), np.empty(n + 1, dtype=np.int64)
    bounds, values = np.zeros(2 * n, dtype=np.int64), np.empty(n)
    next_bounds, next_values = np.empty(2 * n, dtype=np.int64), np.empty(n)
    n_members = 0
    for i in range(n):
        if places[i] != NOTHING:
            members[n_members] = i
            n_members += 1
    bounds[1], values[0], n_nodes = n_members, mean, 1
    while n_nodes > 0:
        filled = n_next = 0
        for node in range(n_nodes):
            start, stop, value = bounds[2 * node], bounds[2 * node + 1], values[node]
            stamp += 1
            n_children = _count_children(
                ids, id_rows, members[start:stop], rewards, places, table, stamp, child_of
            )
            total = filled
            for child in range(n_children):
                starts_of[child] = total
                if table.counts[child] > 1:
                    next_bounds[2 * n_next] = total
                    total += table.bits[child]
                    next_bounds[2 * n_next + 1] = total
                    next_values[n_next] = table.sums[child] / table.counts[child]
                    n_next += 1
            for m in range(start, stop):
                i = members[m]
                if places[i] == NOTHING:
                    continue
                child, t = child_of[i], places[i]
                if table.counts[child] > 0:
                    after = table.sums[child] / table.counts[child]
                    out[rows[i], t] = base[rows[i]] + weight * (after - value) / scale
                if table.counts[child] > 1:
                    following[starts_of[child]] = i
                    starts_of[child] += 1
                    places[i] = _next(
                        ids[id_rows[i]], mask[mask_rows[i]], ignored, t, np.int64(1), ends[i]
                    )
            filled = total
        members, following = following, members
        bounds, next_bounds = next_bounds, bounds
        values, next_values = next_values, values
        n_nodes = n_next
    return stamp


@jit
def conflict_groups(
    ids, mask, id_rows, mask_rows, rows, starts, rewards, ignored, look_up, weight, scale_by_std,
    amplify, runs, equal, base, out,
):  # fmt: skip
    """Write the credit of conflict tokens plus `base` to `out`, as `tempo_groups` does."""
    largest = largest_group(starts)
    table = _table(largest)
    ends, places = np.empty(largest, dtype=np.int64), np.empty(largest, dtype=np.int64)
    credit, sign = np.empty(largest), np.empty(largest, dtype=np.int64)
    stamp, bad_row, bad_column = np.int64(0), NO_ERROR, 0
    for g in range(len(starts) - 1):
        group = slice(starts[g], starts[g + 1])
        own = rewards[group]
        row, column = _prepare(
            ids, mask, id_rows[group], mask_rows[group], rows[group], ignored, base, out, ends
        )
        if row < bad_row:
            bad_row, bad_column = row, column
        if bad_row != NO_ERROR:
            continue
        _first_places(
            ids, mask, id_rows[group], mask_rows[group], ends, ignored, own, look_up, places
        )
        mean, scale = _moments(own, places[: len(own)] != NOTHING, equal, scale_by_std)
        if np.isnan(mean):
            continue
        for i in range(len(own)):
            advantage = (own[i] - mean) / scale
            sign[i] = POSITIVE if advantage > 0 else NEGATIVE if advantage < 0 else 0
            credit[i] = weight * ((amplify - 1.0) * advantage if advantage > 0 else -advantage)
        for step in (1, -1):
            stamp = _from_one_end(
                ids, mask, id_rows[group], mask_rows[group], rows[group], own, ends, places,
                ignored, step, credit, sign, runs, base, out, table, stamp,
            )  # fmt: skip
    return bad_row, bad_column


@jit
def _from_one_end(
    ids, mask, id_rows, mask_rows, rows, rewards, ends, places, ignored, step, credit, sign, runs,
    base, out, table, stamp,
):  # fmt: skip
    """Write the credit of one group's conflict tokens, place by place from the start (`step` 1) or
    from the end (-1)."""
    n = len(rewards)
    inside, at, number = np.empty(n, dtype=np.bool_), np.empty(n, np.int64), np.empty(n, np.int64)
    n_inside = 0
    for i in range(n):
        # A rollout of advantage 0 is of neither class; one of unknown correctness only looks up.
        inside[i] = places[i] != NOTHING and (sign[i] != 0 or np.isnan(rewards[i]))
        n_inside += inside[i]
        at[i] = NOTHING
        if inside[i]:
            before = -1 if step == 1 else ends[i]
            at[i] = _next(ids[id_rows[i]], mask[mask_rows[i]], ignored, before, step, ends[i])
    while n_inside > 0:
        stamp += 1
        n_keys = np.int64(0)
        for i in range(n):
            if at[i] == NOTHING or np.isnan(rewards[i]):
                continue
            number[i] = _number(table, np.int64(ids[id_rows[i], at[i]]), stamp, n_keys)
            n_keys = max(n_keys, number[i] + 1)
            table.counts[number[i]] += 1
            table.sums[number[i]] += credit[i]
            table.bits[number[i]] |= sign[i]
        for i in range(n):
            if inside[i] and at[i] != NOTHING:
                known = not np.isnan(rewards[i])
                key = np.int64(ids[id_rows[i], at[i]])
                held = number[i] if known else _find(table, key, stamp)
                in_conflict = held != NOTHING and table.bits[held] == POSITIVE | NEGATIVE
                if in_conflict:
                    mean = credit[i] if known else table.sums[held] / table.counts[held]
                    out[rows[i], at[i]] = base[rows[i]] + mean
                elif runs:
                    inside[i] = False
                    n_inside -= 1
            if at[i] != NOTHING:
                at[i] = _next(ids[id_rows[i]], mask[mask_rows[i]], ignored, at[i], step, ends[i])
                if at[i] == NOTHING and inside[i]:
                    inside[i] = False
                    n_inside -= 1
    return stamp


@jit
def _find(table, key, stamp):
    """The number of a key, or NOTHING."""
    last_slot = np.uint64(len(table.stamps) - 1)
    slot = (np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32) & last_slot
    while table.stamps[slot] == stamp:
        if table.keys[slot] == key:
            return table.numbers[slot]
        slot = slot + np.uint64(1) & last_slot
    return NOTHING
