"""The portable backend: tensor operations on any device, around one sort.

Sorting the tokens by (group, token) turns each group's token into a run, and all that it needs are
sums over runs. Groups are taken in chunks, so that the memory beyond the output stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from ktae import statistics
from ktae.arrays import MAX_TOKEN_ID
from ktae.backends._torch_statistics import (
    GroupTotals,
    group_totals,
    presence_z,
    sharpened,
    strength_and_effect,
)
from ktae.backends.tensors import Tensors
from ktae.statistics import Formula

BYTES_PER_POSITION = 256
"""Extra memory at the peak for each position of a chunk that has no masked one and no two tokens
alike, with some air for what the allocator does not give back at once."""


class _Runs(NamedTuple):
    """The key tokens of a chunk: one entry for each of its groups' distinct tokens."""

    group: torch.Tensor
    m: torch.Tensor
    """int64: rollouts that hold it."""
    a: torch.Tensor
    """float64: their scores' sum."""
    occurrences: torch.Tensor
    occur_true: torch.Tensor
    """float64: the sum of their scores, once for each occurrence."""


def credit(batch: Tensors, formula: Formula, *, memory_bytes: int) -> torch.Tensor:
    """(B, T) float32: each unmasked token's credit plus its rollout's base.

    Token ids out of range are not looked for; they count as some token.
    """
    for_chunk = memory_bytes // 2  # the other half is for Fisher's test, while the chunk is there
    out = torch.zeros(batch.token_ids.shape, dtype=torch.float32, device=batch.token_ids.device)
    for chunk in _chunks(batch, for_chunk):
        out[batch.rows[chunk]] = _chunk_credit(batch, chunk, formula, memory_bytes - for_chunk)
    return out


def _chunks(batch: Tensors, memory_bytes: int) -> Iterator[slice]:
    """Consecutive groups, as many as fit into the memory but at least one."""
    width = max(1, batch.token_ids.shape[1])
    rows_at_once = max(1, memory_bytes // (BYTES_PER_POSITION * width))
    stops = torch.bincount(batch.group_of).cumsum(0).cpu()
    start, n_rows = 0, len(batch.rows)
    while start < n_rows:
        fitting = int(torch.searchsorted(stops, start + rows_at_once, right=True)) - 1
        first = int(torch.searchsorted(stops, start, right=True))
        stop = int(stops[max(fitting, first)])
        yield slice(start, stop)
        start = stop


def _chunk_credit(
    batch: Tensors, chunk: slice, formula: Formula, memory_bytes: int
) -> torch.Tensor:
    """(n, T) credit plus base of the chunk's n rows."""
    rows = batch.rows[chunk]
    group_of_row = batch.group_of[chunk] - batch.group_of[chunk.start]
    ids, unmasked, correct = batch.token_ids[rows], batch.mask[rows] != 0, batch.correct[rows]
    out = torch.where(unmasked, batch.base[rows].float().unsqueeze(1), 0.0)
    counted = unmasked & (correct >= 0).unsqueeze(1)
    for ignored in batch.ignored:
        counted &= ids != ignored
    position = counted.flatten().nonzero().squeeze(1)
    if len(position) == 0:
        return out
    row = position // ids.shape[1]
    # An unchecked id may be anything; it must not reach into the bits of the group.
    token = ids.flatten()[position].long() & MAX_TOKEN_ID
    key, order = (group_of_row[row] << 32 | token).sort(stable=True)
    del token
    position, row = position[order], row[order]
    del order
    new_run = torch.ones_like(key, dtype=torch.bool)
    new_run[1:] = key[1:] != key[:-1]
    group_of_run = key[new_run] >> 32
    del key
    run = new_run.cumsum(0) - 1
    scores = batch.correct[rows].double() if batch.scores is None else batch.scores[rows]
    runs = _sum_runs(group_of_run, run, new_run, row, scores)
    del row, new_run
    totals = group_totals(group_of_row, scores, counted.sum(1))
    credit_of_run = _credit(runs, totals, batch.scores is None, formula, memory_bytes)
    out.view(-1)[position] += credit_of_run[run]
    return out


def _sum_runs(
    group: torch.Tensor,
    run: torch.Tensor,
    new_run: torch.Tensor,
    row: torch.Tensor,
    scores: torch.Tensor,
) -> _Runs:
    """Count each run's occurrences and rollouts. The sort is stable: a run's rows are in order, so
    a token is new to its rollout where the row changes."""
    fresh = new_run.clone()
    fresh[1:] |= row[1:] != row[:-1]

    def total(values: torch.Tensor) -> torch.Tensor:
        return values.new_zeros(len(group)).index_add_(0, run, values)

    score = scores[row]
    return _Runs(
        group, total(fresh.long()), total(score * fresh), total(torch.ones_like(run)), total(score)
    )


def _credit(
    runs: _Runs, totals: GroupTotals, verdicts: bool, formula: Formula, memory_bytes: int
) -> torch.Tensor:
    """(n_runs,) float32 credit."""
    own = GroupTotals(*(values[runs.group] for values in totals))
    if formula.z:
        n = own.n_true + own.n_false
        mean = own.n_true / n
        z = presence_z(runs.a, runs.m, n, mean, own.variance)
        if formula.sharp:
            z = sharpened(z, runs.m, n, mean, own.variance)
        return (formula.credit_scale * z).float()
    if verdicts:
        both = _of_distinct_pairs(runs, totals, formula, memory_bytes)
    else:
        both = strength_and_effect(
            runs.a, runs.m - runs.a, own.n_true, own.n_false, formula, memory_bytes=memory_bytes
        )
    strength, effect = both.unbind(1)
    mean_length = (own.length_true + own.length_false) / 2
    frequency_true, frequency_false = (
        statistics.saturated_term_frequency(
            occurrences / torch.where(length > 0, length, 1.0), length / mean_length,
            formula.k1, formula.b_len,
        )
        for occurrences, length in (
            (runs.occur_true, own.length_true),
            (runs.occurrences - runs.occur_true, own.length_false),
        )
    )  # fmt: skip
    contrast = statistics.frequency_contrast(frequency_true, frequency_false, formula.eps)
    value = strength * (effect + formula.h3 * contrast)
    credit = formula.credit_scale * 0.5 * torch.tanh(0.5 * value)
    return torch.where(own.variance > 0, credit, 0.0).float()


def _of_distinct_pairs(
    runs: _Runs, totals: GroupTotals, formula: Formula, memory_bytes: int
) -> torch.Tensor:
    """`strength_and_effect` of the runs of verdicts: both depend on (a, b) and the group's classes
    alone, so they are computed for the few pairs that occur, and looked up."""
    n_true, n_false = totals.n_true.long(), totals.n_false.long()
    n_pairs = (n_true + 1) * (n_false + 1)
    offset = n_pairs.cumsum(0) - n_pairs
    a = runs.a.long()
    pair = offset[runs.group] + a * (n_false[runs.group] + 1) + runs.m - a
    pair, place = pair.unique(return_inverse=True)
    group = torch.searchsorted(offset, pair, right=True) - 1
    a_and_b, columns = pair - offset[group], n_false[group] + 1
    both = strength_and_effect(
        (a_and_b // columns).double(), (a_and_b % columns).double(),
        totals.n_true[group], totals.n_false[group], formula, memory_bytes=memory_bytes,
    )  # fmt: skip
    return both[place]
