"""The first two Triton kernels of the `triton` backend: the rows surveyed, pairs (a, b) tabulated.

`_triton_kernels` says what they are for, and has the third.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from ktae.backends._triton_statistics import strength_and_effect

MEMO_PER_ROLLOUT = tl.constexpr(24)  # pairs (a, b): enough for groups of 88

TOTALS = tl.constexpr(5)  # the columns of a group's totals, the fields of `GroupTotals`


class Matrix(NamedTuple):
    """A (B, T) tensor: its memory, and how far apart its rows and columns are."""

    pointer: Any
    row_stride: int
    column_stride: int


class Groups(NamedTuple):
    """What the survey finds out, and the memo."""

    rows: Any
    """(B,) int64: the entries' rows."""
    reach: Any
    """(B,) int32: one past the last counted column; negative: incorrect; 0: does not count."""
    starts: Any
    """(B + 1,) int32: the groups' first entries, B for all groups that there aren't."""
    tokens: Any
    """(B,) int32: the entries' counted tokens; 0 where the rollout does not count."""
    totals: Any
    """(B, 5) float64: the groups' `GroupTotals`."""
    scores: Any
    """(B,) float64: the rows' graded scores, if the settings have them."""
    memo: Any
    """(B, MEMO_PER_ROLLOUT, 2) float64: strength and effect size of a group's pairs (a, b)."""


@triton.jit
def of_row(matrix, row, column):
    return matrix.pointer + row * matrix.row_stride + column.to(tl.int64) * matrix.column_stride


@triton.jit
def as_token(ids):
    """Token ids as int32, never negative: an invalid id is some other token, and no more harm."""
    return ids.to(tl.int32) & 0x7FFFFFFF


@triton.jit
def is_counted(token, unmasked, settings: tl.constexpr):
    counted = unmasked
    for i in tl.static_range(len(settings.ignored)):
        counted = counted & (token != settings.ignored[i])
    return counted


@triton.jit
def survey_rows(
    ids_bt, mask_bt, group_of, correct_b, base_b, out_bt, groups, n_columns,
    settings: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program `entry` fills its row of `out_bt`, and reach, tokens and starts of `groups`.

    `out_bt` becomes the rollout's base where unmasked and 0 elsewhere, so that `score_groups` need
    visit only the tokens that have a value.
    """
    entry = tl.program_id(0)
    row = tl.load(groups.rows + entry)
    group = tl.load(group_of + entry)
    verdict = tl.load(correct_b + row)
    base = tl.load(base_b + row).to(tl.float32)
    lanes = tl.arange(0, BLOCK)
    reach = tl.zeros([BLOCK], dtype=tl.int32)
    tokens = tl.zeros([BLOCK], dtype=tl.int32)
    for first in range(0, n_columns, BLOCK):
        column = first + lanes
        inside = column < n_columns
        unmasked = inside & (tl.load(of_row(mask_bt, row, column), inside, other=0) != 0)
        tl.store(out_bt + row * n_columns + column, tl.where(unmasked, base, 0.0), mask=inside)
        counted = unmasked
        if len(settings.ignored) > 0:
            token = as_token(tl.load(of_row(ids_bt, row, column), unmasked, other=0))
            counted = is_counted(token, unmasked, settings)
        reach = tl.where(counted, column + 1, reach)
        tokens += counted.to(tl.int32)
    n_tokens = tl.where(verdict >= 0, tl.sum(tokens, 0), 0)
    sign = tl.where(n_tokens == 0, 0, tl.where(verdict > 0, 1, -1))
    tl.store(groups.reach + entry, sign * tl.max(reach, 0))
    is_first = group != tl.load(group_of + entry - 1, mask=entry > 0, other=-1)
    tl.store(groups.starts + group, entry, mask=is_first)
    tl.store(groups.tokens + entry, n_tokens)


@triton.jit
def load_totals(groups, group):
    """N_true, n_false, length_true, length_false and the scores' variance."""
    at = groups.totals + group.to(tl.int64) * TOTALS
    return tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3), tl.load(at + 4)


@triton.jit
def has_memo(totals, start, stop):
    """Whether the group has fewer pairs than tokens, and room for them."""
    n_pairs = (totals[0] + 1) * (totals[1] + 1)
    n_tokens = totals[2] + totals[3]
    return n_pairs <= tl.minimum(n_tokens, (stop - start).to(tl.float64) * MEMO_PER_ROLLOUT)


@triton.jit
def memo_of(groups, start):
    """Where the memo of the group begins whose first entry is `start`."""
    return groups.memo + start.to(tl.int64) * (2 * MEMO_PER_ROLLOUT)


@triton.jit
def tabulate_groups(groups, settings: tl.constexpr, BLOCK: tl.constexpr):
    """Program `group` fills its group's memo, with (a, b) at a * (n_false + 1) + b.

    Fisher's test and the information gain depend on (a, b) alone and cost a hundred times the rest
    of the credit. Groups of 16 rollouts have at most 81 pairs and thousands of tokens; only in
    large groups it is the other way round.
    """
    group = tl.program_id(0).to(tl.int64)
    start = tl.load(groups.starts + group)
    stop = tl.load(groups.starts + group + 1)
    totals = load_totals(groups, group)
    if (totals[4] > 0) & has_memo(totals, start, stop):
        columns = totals[1].to(tl.int32) + 1
        n_pairs = (totals[0].to(tl.int32) + 1) * columns
        memo = memo_of(groups, start)
        for first in range(0, n_pairs, BLOCK):
            pair = first + tl.arange(0, BLOCK)
            inside = pair < n_pairs
            a = tl.where(inside, pair // columns, 0)
            m = tl.where(inside, a + pair % columns, 0)
            strength, effect = strength_and_effect(
                a.to(tl.float64), m.to(tl.float64), totals, settings
            )
            tl.store(memo + 2 * pair, strength, mask=inside)
            tl.store(memo + 2 * pair + 1, effect, mask=inside)
