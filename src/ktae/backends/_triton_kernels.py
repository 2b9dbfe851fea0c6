"""The Triton kernel that scores groups, and how the three kernels of the backend work together.

Three kernels run one after the other. `survey_rows`, one program a rollout, fills the output with
the rollouts' bases and finds out what the others need to know about each group. `tabulate_groups`,
one program a group, computes what depends on (a, b) alone. `score_groups` takes whole groups: each
program owns a table, counts a group's tokens in it, computes each distinct token's credit once, and
spreads it onto the output.

A table belongs to one program. Within a program, one thread's writes and atomics are visible to the
others after `tl.debug_barrier`, which is CUDA's `__syncthreads` (CUDA C++ programming guide,
"Synchronization functions"); the compiler itself adds no barriers for global memory. So the
barriers put the atomics in order, and all of them are relaxed.

Names: an *entry* is a rollout's place in the group order, `rows[entry]` its row in the batch; a
token's *index* counts the distinct tokens of its group in the order in which they were found.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from ktae.backends._triton_statistics import credit, strength_and_effect
from ktae.backends._triton_survey import (
    as_token,
    has_memo,
    is_counted,
    load_totals,
    memo_of,
    of_row,
)

EMPTY = tl.constexpr(-1)
CLAIM = tl.constexpr(1 << 31)
FIRST_OCCURRENCE = tl.constexpr(1 << 32 | 1)


class Table(NamedTuple):
    """A program's memory."""

    slots: Any
    """(capacity,) int64: a token above; below it its index, or at first CLAIM plus the lane."""
    last_entry: Any
    """(capacity,) int32: by index, the last entry that holds the token."""
    counts: Any
    """(2, capacity) int64: by class and index, rollouts with the token above, occurrences below.
    With graded scores all count as incorrect here."""
    scores: Any
    """(2, capacity) float64: by index, graded scores summed over rollouts, and over occurrences."""
    credit: Any
    """(capacity,) float32: by index."""
    capacity: Any


@triton.jit
def _hash(token):
    """A bijection of 32 bits (Wellons' lowbias32): distinct tokens have distinct hashes."""
    bits = token.to(tl.uint32)
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    return bits ^ (bits >> 16)


@triton.jit
def _load_tokens(
    ids_bt, mask_bt, row, column, inside, ids_needed, part, log2_parts, settings: tl.constexpr
):
    """A block's tokens, and which of them count and belong to the part.

    A token's part is the upper bits of its hash; where it is looked for is the lower ones.
    """
    token = as_token(tl.load(of_row(ids_bt, row, column), inside & ids_needed, other=0))
    unmasked = inside & (tl.load(of_row(mask_bt, row, column), inside, other=0) != 0)
    counted = is_counted(token, unmasked, settings)
    in_part = (_hash(token) >> 1) >> (31 - log2_parts) == part.to(tl.uint32)
    return token, counted & in_part


@triton.jit
def _find(token, wanted, slots, n_slots, BLOCK: tl.constexpr):
    """Each wanted lane's slot, what it holds, and which lanes have just taken one.

    Triton has no compare-and-swap with a mask, so a slot is taken in two steps: every lane that
    finds it empty writes its claim, and after a barrier all see whose claim was the last. A slot
    that has an index does not change, so a lane that finds its token there is done at once. Lanes
    with the same token stay together: they see the same slots after each barrier.
    """
    lanes = tl.arange(0, BLOCK)
    bits = _hash(token)
    last = (n_slots - 1).to(tl.uint32)
    slot = (bits & last).to(tl.int32)
    # Odd, so that it visits every slot of a table whose size is a power of two.
    step = (((bits >> 16) | 1) & last).to(tl.int32)
    wide = token.to(tl.int64)
    claim = (wide << 32) | CLAIM | lanes
    content = tl.zeros([BLOCK], dtype=tl.int64)
    took = wanted & (lanes < 0)
    pending = wanted
    while tl.max(pending.to(tl.int32), 0) > 0:
        content = tl.where(pending, tl.load(slots + slot, pending, other=0), content)
        has_index = (content & CLAIM) == 0
        claims = pending & (content == EMPTY)
        tl.atomic_xchg(slots + slot, claim, mask=claims, sem="relaxed")
        tl.debug_barrier()
        unsure = pending & (has_index == 0)
        content = tl.where(unsure, tl.load(slots + slot, unsure, other=0), content)
        took = took | (claims & (content == claim))
        pending = pending & (content >> 32 != wide)
        slot = tl.where(pending, (slot + step) & (n_slots - 1), slot)
    return slot, content, took


@triton.jit
def _count_block(
    token, counted, entry, is_true, score, table, n_slots, n_used,
    settings: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Count a block of one rollout's tokens. Returns their indices and the tokens known now.

    A token that is new to the group costs no atomic on its counts: the lane that took its slot
    writes them. Of a known token's occurrences in a rollout, the one whose exchange brings up an
    older entry is the first: it counts the rollout.
    """
    slot, content, took = _find(token, counted, table.slots, n_slots, BLOCK)
    is_new = took.to(tl.int32)
    index = tl.where(took, n_used + tl.cumsum(is_new, 0) - 1, content.to(tl.int32))
    ours = table.counts + tl.where(is_true, table.capacity, 0)
    theirs = table.counts + tl.where(is_true, 0, table.capacity)
    tl.store(table.slots + slot, (token.to(tl.int64) << 32) | index, mask=took)
    tl.store(table.last_entry + index, entry, mask=took)
    tl.store(ours + index, FIRST_OCCURRENCE, mask=took)
    tl.store(theirs + index, 0, mask=took)
    if settings.has_scores:
        tl.store(table.scores + index, score, mask=took)
        tl.store(table.scores + table.capacity + index, score, mask=took)
    tl.debug_barrier()
    known = counted & (took == 0)
    just_taken = known & ((content & CLAIM) != 0)
    content = tl.where(just_taken, tl.load(table.slots + slot, just_taken, other=0), content)
    index = tl.where(known, content.to(tl.int32), index)
    fresh = tl.atomic_xchg(table.last_entry + index, entry, mask=known, sem="relaxed") != entry
    tl.atomic_add(ours + index, (fresh.to(tl.int64) << 32) | 1, mask=known, sem="relaxed")
    if settings.has_scores:
        scores = tl.where(known, score, 0.0)
        tl.atomic_add(table.scores + index, scores, mask=known & fresh, sem="relaxed")
        at = table.scores + table.capacity + index
        tl.atomic_add(at, scores, mask=known, sem="relaxed")
    return index, n_used + tl.sum(is_new, 0)


@triton.jit
def _count_group(
    ids_bt, mask_bt, groups, start, stop, index_bt, n_columns, table, n_slots, part, log2_parts,
    settings: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Fill the table with the group's tokens of one part; each position's index to `index_bt`.

    Returns how many distinct tokens there are, and 0 instead of 1 if they did not fit. A quarter
    of the slots stays empty, so that looking for one always ends, and soon.
    """
    lanes = tl.arange(0, BLOCK)
    for first in range(0, n_slots, BLOCK):
        tl.store(table.slots + first + lanes, tl.full([BLOCK], EMPTY, dtype=tl.int64))
    tl.debug_barrier()
    n_used = 0
    fits = 1
    for entry in range(start, stop):
        row = tl.load(groups.rows + entry)
        reach = tl.load(groups.reach + entry)
        score = 0.0
        if settings.has_scores:
            score = tl.load(groups.scores + row)
        for first in range(0, tl.abs(reach), BLOCK):
            fits = tl.where(n_used + BLOCK <= n_slots // 4 * 3, fits, 0)
            if fits > 0:
                column = first + lanes
                inside = column < tl.abs(reach)
                token, counted = _load_tokens(
                    ids_bt, mask_bt, row, column, inside, True, part, log2_parts, settings
                )
                index, n_used = _count_block(
                    token,
                    counted,
                    entry,
                    reach > 0,
                    score,
                    table,
                    n_slots,
                    n_used,
                    settings,
                    BLOCK,
                )
                tl.store(index_bt + row * n_columns + column, index, mask=counted)
    tl.debug_barrier()
    return n_used, fits


@triton.jit
def _fill_credit(
    groups, totals, start, table, n_used,
    settings: tl.constexpr, BLOCK: tl.constexpr, REMEMBERED: tl.constexpr,
):  # fmt: skip
    """The credit of the table's tokens, by the memo or each by itself."""
    columns = totals[1].to(tl.int32) + 1
    memo = memo_of(groups, start)
    for first in range(0, n_used, BLOCK):
        index = first + tl.arange(0, BLOCK)
        inside = index < n_used
        false = tl.load(table.counts + index, inside, other=0)
        true = tl.load(table.counts + table.capacity + index, inside, other=0)
        m = ((true >> 32) + (false >> 32)).to(tl.float64)
        a = (true >> 32).to(tl.float64)
        occur_true = (true & 0xFFFFFFFF).to(tl.float64)
        occur_false = (false & 0xFFFFFFFF).to(tl.float64)
        if settings.has_scores:
            a = tl.load(table.scores + index, inside, other=0.0)
            occur_true = tl.load(table.scores + table.capacity + index, inside, other=0.0)
            occur_false -= occur_true
        if REMEMBERED:
            pair = (true >> 32).to(tl.int32) * columns + (false >> 32).to(tl.int32)
            strength = tl.load(memo + 2 * pair, inside, other=0.0)
            effect = tl.load(memo + 2 * pair + 1, inside, other=0.0)
        else:
            strength, effect = strength_and_effect(a, m, totals, settings)
        value = credit(strength, effect, occur_true, occur_false, totals, settings)
        tl.store(table.credit + index, value, mask=inside)


@triton.jit
def _spread_credit(
    ids_bt, mask_bt, groups, start, stop, base_b, index_bt, out_bt, n_columns, table,
    part, log2_parts, settings: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Turn the indices of one part's tokens into credit plus base."""
    # With one part and nothing ignored the mask alone says which positions have an index.
    ids_needed = (log2_parts > 0) | (len(settings.ignored) > 0)
    for entry in range(start, stop):
        row = tl.load(groups.rows + entry)
        reach = tl.abs(tl.load(groups.reach + entry))
        base = tl.load(base_b + row).to(tl.float64)
        for first in range(0, reach, BLOCK):
            column = first + tl.arange(0, BLOCK)
            inside = column < reach
            at = row * n_columns + column
            index = tl.load(index_bt + at, inside, other=0)
            _, counted = _load_tokens(
                ids_bt, mask_bt, row, column, inside, ids_needed, part, log2_parts, settings
            )
            value = tl.load(table.credit + index, counted, other=0.0).to(tl.float64)
            tl.store(out_bt + at, (base + value).to(tl.float32), mask=counted)


@triton.jit(do_not_specialize=["n_rows", "n_columns"])
def score_groups(
    ids_bt, mask_bt, groups, base_b, out_bt, index_bt, queue, tables, n_rows, n_columns,
    settings: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Each program takes groups, first its own number and then from `queue`, until none is left.

    `index_bt` is the memory of `out_bt` seen as int32: between counting and spreading it holds
    each position's index, so no token is looked up twice. Groups that are all correct or all
    incorrect, and rows of unknown correctness, are right since the survey.

    At first as many slots are used as the group has tokens: enough if some repeat. If not, they
    are doubled, up to the table's capacity; beyond that the tokens are halved by their hash, as
    often as it takes (it ends: distinct tokens have distinct hashes), and done part by part.
    """
    program = tl.program_id(0).to(tl.int64)
    table = Table(
        slots=tables.slots + program * tables.capacity,
        last_entry=tables.last_entry + program * tables.capacity,
        counts=tables.counts + program * tables.capacity * 2,
        scores=tables.scores + program * tables.capacity * 2,
        credit=tables.credit + program * tables.capacity,
        capacity=tables.capacity,
    )
    group = tl.program_id(0)
    start = tl.load(groups.starts + group)
    while start < n_rows:
        stop = tl.load(groups.starts + group + 1)
        totals = load_totals(groups, group)
        n_tokens = totals[2] + totals[3]
        n_slots = 4 * BLOCK
        while (n_slots < n_tokens) & (n_slots < table.capacity):
            n_slots *= 2
        part = 0
        log2_parts = 0
        while (totals[4] > 0) & (part < (1 << log2_parts)):
            n_used, fits = _count_group(
                ids_bt, mask_bt, groups, start, stop, index_bt, n_columns, table, n_slots,
                part, log2_parts, settings, BLOCK,
            )  # fmt: skip
            if fits > 0:
                if settings.has_scores:
                    _fill_credit(groups, totals, start, table, n_used, settings, BLOCK, False)
                elif has_memo(totals, start, stop):
                    _fill_credit(groups, totals, start, table, n_used, settings, BLOCK, True)
                else:
                    _fill_credit(groups, totals, start, table, n_used, settings, BLOCK, False)
                tl.debug_barrier()
                _spread_credit(
                    ids_bt, mask_bt, groups, start, stop, base_b, index_bt, out_bt, n_columns,
                    table, part, log2_parts, settings, BLOCK,
                )  # fmt: skip
                part += 1
            elif n_slots < table.capacity:
                n_slots *= 2
            else:
                part *= 2
                log2_parts += 1
        group = tl.num_programs(0) + tl.atomic_add(queue, 1, sem="relaxed")
        start = tl.load(groups.starts + tl.minimum(group, n_rows))
