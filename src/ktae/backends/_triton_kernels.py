"""The Triton kernels of the `triton` backend.

Two kernels run one after the other. `survey_rows`, one program a rollout, fills the output with the
rollouts' bases and finds out what the second needs to know about each group. `score_groups` takes
whole groups: each program owns a hash table, counts a group's tokens in it, judges each distinct
token once, and spreads the terms onto the output.

A table belongs to one program, so its only order of events is that program's own. Within a program,
one thread's writes and atomics are visible to the others after `tl.debug_barrier`, which is CUDA's
`__syncthreads` (CUDA C++ programming guide, "Synchronization functions"); the compiler adds no
barriers for global memory by itself. All atomics are relaxed: what orders them is the barriers.

Names: an *entry* is a rollout's place in the group order, `rows[entry]` its row in the batch; a
token's *index* counts the distinct tokens of its group in the order in which they were found.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ktae.backends._triton_statistics import strength_and_effect, term

PAIRS = 2048
"""Entries (a, b) of a program's memo of strengths: groups of up to about 88 rollouts fit."""

EMPTY = tl.constexpr(-1)
CLAIM = tl.constexpr(1 << 31)
FIRST_OCCURRENCE = tl.constexpr(1 << 32 | 1)
"""Counts are an int64 each: the rollouts that hold the token above, its occurrences below."""

# Columns of a group's tallies, offset by 2 for correct rollouts.
ROLLOUTS = tl.constexpr(0)
TOKENS = tl.constexpr(1)


@triton.jit
def _token(ids):
    """Token ids as int32, never negative: an invalid id is some other token, and no more harm."""
    return ids.to(tl.int32) & 0x7FFFFFFF


@triton.jit
def _is_counted(token, unmasked, settings: tl.constexpr):
    counted = unmasked
    for i in tl.static_range(len(settings.ignored)):
        counted = counted & (token != settings.ignored[i])
    return counted


@triton.jit
def survey_rows(
    ids_bt, ids_row_stride, ids_column_stride, mask_bt, mask_row_stride, mask_column_stride,
    rows, group_of, correct_b, base_b, out_bt, widths, starts, tallies, n_columns,
    settings: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Program `entry` fills its row of `out_bt` and notes what its group's program will need.

    `out_bt` becomes the rollout's base where unmasked and 0 elsewhere, so the second kernel visits
    only what it changes. `widths[entry]` is one past the last counted column (0: skip the row),
    `starts[group]` the group's first entry, `tallies[group]` its rollouts and tokens, incorrect
    and correct.
    """
    entry = tl.program_id(0)
    row = tl.load(rows + entry)
    group = tl.load(group_of + entry)
    verdict = tl.load(correct_b + row)
    base = tl.load(base_b + row).to(tl.float32)
    lanes = tl.arange(0, BLOCK)
    width = tl.zeros([BLOCK], dtype=tl.int32)
    tokens = tl.zeros([BLOCK], dtype=tl.int32)
    for first in range(0, n_columns, BLOCK):
        column = first + lanes
        inside = column < n_columns
        at = column.to(tl.int64)
        mask = tl.load(mask_bt + row * mask_row_stride + at * mask_column_stride, inside, other=0)
        unmasked = inside & (mask != 0)
        tl.store(out_bt + row * n_columns + at, tl.where(unmasked, base, 0.0), mask=inside)
        counted = unmasked
        if len(settings.ignored) > 0:
            ids = ids_bt + row * ids_row_stride + at * ids_column_stride
            token = _token(tl.load(ids, unmasked, other=0))
            counted = _is_counted(token, unmasked, settings)
        width = tl.where(counted, column + 1, width)
        tokens += counted.to(tl.int32)
    n_tokens = tl.where(verdict >= 0, tl.sum(tokens, 0), 0)
    tl.store(widths + entry, tl.where(n_tokens > 0, tl.max(width, 0), 0))
    is_first = group != tl.load(group_of + entry - 1, mask=entry > 0, other=-1)
    tl.store(starts + group, entry, mask=is_first)
    tally = tallies + group * 4 + tl.where(verdict > 0, 2, 0)
    tl.atomic_add(tally + ROLLOUTS, 1, mask=n_tokens > 0, sem="relaxed")
    tl.atomic_add(tally + TOKENS, n_tokens.to(tl.int64), mask=n_tokens > 0, sem="relaxed")


@triton.jit
def _hash(token):
    """A bijection of 32 bits (Wellons' lowbias32): distinct tokens have distinct hashes."""
    bits = token.to(tl.uint32)
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    return bits ^ (bits >> 16)


@triton.jit
def _is_in_part(token, part, log2_parts):
    """A token's part is the upper bits of its hash; its place in the table starts at the lower."""
    return (_hash(token) >> 1) >> (31 - log2_parts) == part.to(tl.uint32)


@triton.jit
def _load_tokens(ids, needed, mask, inside, part, log2_parts, settings: tl.constexpr):
    """A block's tokens, and which of them count and belong to the part."""
    token = _token(tl.load(ids, needed, other=0))
    counted = inside & (tl.load(mask, inside, other=0) != 0)
    counted = _is_counted(token, counted, settings)
    return token, counted & _is_in_part(token, part, log2_parts)


@triton.jit
def _find(token, wanted, table, capacity, BLOCK: tl.constexpr):
    """Each wanted lane's slot in `table`, what it holds, and which lanes have just taken one.

    A slot of the table is an int64: the token above and below it either the token's index or,
    until `_indices` has given it one, CLAIM plus the number of the lane that took the slot. Triton
    has no compare-and-swap with a mask, so a slot is taken in two steps: every lane that finds it
    empty writes its claim, and after a barrier all see whose claim was the last. Slots that
    have an index don't change, so a lane that finds its token there is done at once.
    """
    lanes = tl.arange(0, BLOCK)
    bits = _hash(token)
    last = (capacity - 1).to(tl.uint32)
    slot = (bits & last).to(tl.int32)
    # Odd, so that it visits every slot of a table whose size is a power of two.
    step = (((bits >> 16) | 1) & last).to(tl.int32)
    wide = token.to(tl.int64)
    claim = (wide << 32) | CLAIM | lanes
    content = tl.zeros([BLOCK], dtype=tl.int64)
    took = wanted & (lanes < 0)
    pending = wanted
    while tl.max(pending.to(tl.int32), 0) > 0:
        content = tl.where(pending, tl.load(table + slot, pending, other=0), content)
        has_index = (content & CLAIM) == 0
        found = pending & has_index & (content >> 32 == wide)
        claims = pending & (content == EMPTY)
        tl.atomic_xchg(table + slot, claim, mask=claims, sem="relaxed")
        tl.debug_barrier()
        unsure = pending & (has_index == 0)
        content = tl.where(unsure, tl.load(table + slot, unsure, other=0), content)
        took = took | (claims & (content == claim))
        found = found | (unsure & (content >> 32 == wide))
        pending = pending & (found == 0)
        slot = tl.where(pending, (slot + step) & (capacity - 1), slot)
    return slot, content, took


@triton.jit
def _count_block(
    token, counted, entry, is_true, table, last_entry, counts, max_slots, capacity, n_used,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Count a block of one rollout's tokens; their indices, and the tokens found so far.

    A token that is new to the group costs no atomic on its counts: the lane that took its slot
    writes them. Of a known token's occurrences in a rollout, the one whose exchange brings up an
    older entry is the first: it counts the rollout.
    """
    slot, content, took = _find(token, counted, table, capacity, BLOCK)
    is_new = took.to(tl.int32)
    index = tl.where(took, n_used + tl.cumsum(is_new, 0) - 1, content.to(tl.int32))
    ours = counts + is_true * max_slots
    theirs = counts + (1 - is_true) * max_slots
    tl.store(table + slot, (token.to(tl.int64) << 32) | index, mask=took)
    tl.store(last_entry + index, entry, mask=took)
    tl.store(ours + index, FIRST_OCCURRENCE, mask=took)
    tl.store(theirs + index, 0, mask=took)
    tl.debug_barrier()
    has_no_index = counted & (took == 0) & ((content & CLAIM) != 0)
    found = tl.load(table + slot, has_no_index, other=0).to(tl.int32)
    index = tl.where(has_no_index, found, index)
    known = counted & (took == 0)
    fresh = tl.atomic_xchg(last_entry + index, entry, mask=known, sem="relaxed") != entry
    tl.atomic_add(ours + index, (fresh.to(tl.int64) << 32) | 1, mask=known, sem="relaxed")
    return index, n_used + tl.sum(is_new, 0)


@triton.jit
def _count_group(
    ids_bt, ids_row_stride, ids_column_stride, mask_bt, mask_row_stride, mask_column_stride,
    rows, correct_b, widths, start, stop, index_bt, n_columns,
    table, last_entry, counts, max_slots, capacity, part, log2_parts,
    settings: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Fill the tables with the group's tokens of one part; each position's index to `index_bt`.

    Returns how many distinct tokens there are, and 0 instead of 1 if they did not fit. A quarter
    of the slots stays empty, so that looking for one always ends, and soon.
    """
    lanes = tl.arange(0, BLOCK)
    for first in range(0, capacity, BLOCK):
        tl.store(table + first + lanes, tl.full([BLOCK], EMPTY, dtype=tl.int64))
    tl.debug_barrier()
    n_used = 0
    fits = 1
    for entry in range(start, stop):
        row = tl.load(rows + entry)
        width = tl.load(widths + entry)
        is_true = (tl.load(correct_b + row) > 0).to(tl.int32)
        for first in range(0, width, BLOCK):
            fits = tl.where(n_used + BLOCK <= capacity // 4 * 3, fits, 0)
            if fits > 0:
                column = (first + lanes).to(tl.int64)
                inside = column < width
                token, counted = _load_tokens(
                    ids_bt + row * ids_row_stride + column * ids_column_stride, inside,
                    mask_bt + row * mask_row_stride + column * mask_column_stride, inside,
                    part, log2_parts, settings,
                )  # fmt: skip
                index, n_used = _count_block(
                    token, counted, entry, is_true, table, last_entry, counts, max_slots,
                    capacity, n_used, BLOCK,
                )  # fmt: skip
                tl.store(index_bt + row * n_columns + column, index, mask=counted)
    tl.debug_barrier()
    return n_used, fits


@triton.jit
def _fill_memo(memo, n_true, n_false, settings: tl.constexpr, BLOCK: tl.constexpr):
    """Strength and effect size of every (a, b), at a * (n_false + 1) + b."""
    n_pairs = (n_true + 1) * (n_false + 1)
    for first in range(0, n_pairs, BLOCK):
        pair = first + tl.arange(0, BLOCK)
        inside = pair < n_pairs
        a = tl.where(inside, pair // (n_false + 1), 0)
        b = tl.where(inside, pair % (n_false + 1), 0)
        strength, effect = strength_and_effect(a, b, n_true, n_false, settings)
        tl.store(memo + 2 * pair, strength, mask=inside)
        tl.store(memo + 2 * pair + 1, effect, mask=inside)
    tl.debug_barrier()


@triton.jit
def _judge_tokens(
    counts, max_slots, n_used, terms, memo, n_true, n_false, length_true, length_false,
    settings: tl.constexpr, BLOCK: tl.constexpr, REMEMBERED: tl.constexpr,
):  # fmt: skip
    """`terms[index]` of the group's tokens, by the memo or each by itself."""
    for first in range(0, n_used, BLOCK):
        index = first + tl.arange(0, BLOCK)
        inside = index < n_used
        false = tl.load(counts + index, inside, other=0)
        true = tl.load(counts + max_slots + index, inside, other=0)
        a, b = (true >> 32).to(tl.int32), (false >> 32).to(tl.int32)
        if REMEMBERED:
            pair = a * (n_false + 1) + b
            strength = tl.load(memo + 2 * pair, inside, other=0.0)
            effect = tl.load(memo + 2 * pair + 1, inside, other=0.0)
        else:
            strength, effect = strength_and_effect(a, b, n_true, n_false, settings)
        terms_of = term(strength, effect, true, false, length_true, length_false, settings)
        tl.store(terms + index, terms_of, mask=inside)


@triton.jit
def _judge_group(
    counts, max_slots, n_used, terms, memo, tally,
    settings: tl.constexpr, BLOCK: tl.constexpr, MEMO_BLOCK: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """`terms[index]` of the group's tokens.

    Fisher's test and the information gain depend on (a, b) alone and cost a hundred times the rest,
    in float64, which tied tables need. A group has fewer pairs (81 at most for 16 rollouts) than
    tokens, so they are tabulated, unless the group is so large that it is the other way round.
    """
    n_false = tl.load(tally + ROLLOUTS).to(tl.int32)
    n_true = tl.load(tally + 2 + ROLLOUTS).to(tl.int32)
    length_false = tl.load(tally + TOKENS).to(tl.float64)
    length_true = tl.load(tally + 2 + TOKENS).to(tl.float64)
    n_pairs = (n_true + 1).to(tl.int64) * (n_false + 1)
    if n_pairs <= tl.minimum(n_used, PAIRS):
        _fill_memo(memo, n_true, n_false, settings, MEMO_BLOCK)
        _judge_tokens(
            counts, max_slots, n_used, terms, memo, n_true, n_false, length_true, length_false,
            settings, BLOCK, True,
        )  # fmt: skip
    else:
        _judge_tokens(
            counts, max_slots, n_used, terms, memo, n_true, n_false, length_true, length_false,
            settings, MEMO_BLOCK, False,
        )  # fmt: skip
    tl.debug_barrier()


@triton.jit
def _spread_terms(
    ids_bt, ids_row_stride, ids_column_stride, mask_bt, mask_row_stride, mask_column_stride,
    rows, base_b, widths, start, stop, index_bt, out_bt, n_columns, terms, part, log2_parts,
    settings: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Turn the indices of one part's tokens into terms plus base."""
    lanes = tl.arange(0, BLOCK)
    # With one part and nothing ignored the mask alone says which positions have an index.
    ids_needed = (log2_parts > 0) | (len(settings.ignored) > 0)
    for entry in range(start, stop):
        row = tl.load(rows + entry)
        width = tl.load(widths + entry)
        base = tl.load(base_b + row).to(tl.float64)
        for first in range(0, width, BLOCK):
            column = (first + lanes).to(tl.int64)
            inside = column < width
            _, counted = _load_tokens(
                ids_bt + row * ids_row_stride + column * ids_column_stride, inside & ids_needed,
                mask_bt + row * mask_row_stride + column * mask_column_stride, inside,
                part, log2_parts, settings,
            )  # fmt: skip
            at = row * n_columns + column
            index = tl.load(index_bt + at, counted, other=0)
            value = base + tl.load(terms + index, counted, other=0.0).to(tl.float64)
            tl.store(out_bt + at, value.to(tl.float32), mask=counted)


@triton.jit
def score_groups(
    ids_bt, ids_row_stride, ids_column_stride, mask_bt, mask_row_stride, mask_column_stride,
    rows, correct_b, base_b, out_bt, index_bt, widths, starts, tallies, queue,
    tables, last_entries, all_counts, all_terms, memos, max_slots, n_rows, n_columns,
    settings: tl.constexpr, BLOCK: tl.constexpr, MEMO_BLOCK: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """Each program takes groups, first its own number and then from `queue`, until none is left.

    `index_bt` is the memory of `out_bt` seen as int32: between counting and spreading it holds
    each position's index, so no token is looked up twice. Groups that are all correct or all
    incorrect, and rows of unknown correctness, are right since the survey.

    The table starts with as many slots as the group has tokens, which is more than it needs as
    long as some repeat. Where it is too small it doubles, up to the memory given; beyond that the
    tokens are halved by their hash, as often as it takes, and the parts done one by one. No part
    is so small that this has no end: hashes of distinct tokens are distinct.
    """
    program = tl.program_id(0).to(tl.int64)
    table = tables + program * max_slots
    last_entry = last_entries + program * max_slots
    counts = all_counts + program * max_slots * 2
    terms = all_terms + program * max_slots
    memo = memos + program * (2 * PAIRS)
    group = tl.program_id(0)
    start = tl.load(starts + group)
    while start < n_rows:
        stop = tl.load(starts + group + 1)
        tally = tallies + group.to(tl.int64) * 4
        n_mixed = tl.minimum(tl.load(tally + ROLLOUTS), tl.load(tally + 2 + ROLLOUTS))
        n_tokens = tl.load(tally + TOKENS) + tl.load(tally + 2 + TOKENS)
        capacity = 4 * BLOCK
        while (capacity < n_tokens) & (capacity < max_slots):
            capacity *= 2
        part = 0
        log2_parts = 0
        while (n_mixed > 0) & (part < (1 << log2_parts)):
            n_used, fits = _count_group(
                ids_bt, ids_row_stride, ids_column_stride,
                mask_bt, mask_row_stride, mask_column_stride,
                rows, correct_b, widths, start, stop, index_bt, n_columns,
                table, last_entry, counts, max_slots, capacity, part, log2_parts,
                settings, BLOCK,
            )  # fmt: skip
            if fits > 0:
                _judge_group(
                    counts, max_slots, n_used, terms, memo, tally,
                    settings, BLOCK, MEMO_BLOCK, PAIRS,
                )  # fmt: skip
                _spread_terms(
                    ids_bt, ids_row_stride, ids_column_stride,
                    mask_bt, mask_row_stride, mask_column_stride,
                    rows, base_b, widths, start, stop, index_bt, out_bt, n_columns,
                    terms, part, log2_parts, settings, BLOCK,
                )  # fmt: skip
                part += 1
            elif capacity < max_slots:
                capacity *= 2
            else:
                part *= 2
                log2_parts += 1
        group = tl.num_programs(0) + tl.atomic_add(queue, 1, sem="relaxed")
        start = tl.load(starts + tl.minimum(group, n_rows))
