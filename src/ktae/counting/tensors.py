"""Counts of tensors on any device: sorted by (group, key), each unit is a run to sum over."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import torch

from ktae.arrays import MAX_MAGNITUDE, MAX_TOKEN_ID, Array
from ktae.batch import Batch, group_bounds, group_extreme
from ktae.counting import Counts, Totals
from ktae.counting.units import ngram_keys

MEMORY_BYTES = 2**30
"""Bound on the memory beyond the output, if one group fits into it."""

BYTES_PER_POSITION = 256
"""Extra memory at the peak for each position of a chunk."""


def credit(batch: Batch, function: Callable[..., Array], units: Sequence[str]) -> torch.Tensor:
    """(B, T) float32 credit, as `ktae.counting.credit` has it. Ids out of range are some token."""
    out = torch.zeros(batch.token_ids.shape, dtype=torch.float32, device=batch.token_ids.device)
    group_of, rows = batch.group_b.sort(stable=True)
    starts = np.concatenate([[0], torch.bincount(group_of).cumsum(0).cpu().numpy()])
    memory = BYTES_PER_POSITION * max(1, out.shape[1]) * len(units)
    # Whole groups, as many as fit into the memory but at least one.
    bounds = starts[group_bounds(starts, MEMORY_BYTES // memory)].tolist()
    for begin, end in itertools.pairwise(bounds):
        members = rows[begin:end]
        part = batch._replace(
            token_ids=batch.token_ids[members],
            mask=batch.mask[members],
            evidence=batch.evidence[members],
            group_b=group_of[begin:end] - group_of[begin],
        )
        credit_bt = out.new_zeros(part.token_ids.shape)
        credit_bt[part.counted()] = function(*(count(part, unit) for unit in units)).float()
        out[members] = credit_bt
    return out


def count(batch: Batch, unit: str = "token") -> Counts:
    """The counts of a batch, as `ktae.counting.count` has it: a row for each unit of a group."""
    counted_bt = batch.counted()
    row, column = counted_bt.nonzero(as_tuple=True)
    # An unchecked id may be anything; it must not reach into the bits of the group.
    token = batch.token_ids[row, column].long() & MAX_TOKEN_ID
    length_b = counted_bt.sum(1)
    place = torch.arange(len(row), device=row.device) - (length_b.cumsum(0) - length_b)[row]
    key = batch.group_b[row] << 32 | ngram_keys(unit, token, place)
    known_b = batch.known()
    scores = batch.evidence.nan_to_num(nan=0.0)
    known_n = known_b[row].nonzero().squeeze(1)
    key, order = key[known_n].sort(stable=True)
    row = row[known_n][order]
    # A run is one unit of one group. Its rows are in order if those of the batch are sorted by
    # group, since the sort is stable; so the unit is new to its response where the row changes.
    begins = torch.ones_like(key, dtype=torch.bool)
    begins[1:] = key[1:] != key[:-1]
    fresh = begins.clone()
    fresh[1:] |= row[1:] != row[:-1]
    run = begins.cumsum(0)  # from 1: row 0 is that of no unit
    n_rows = int(begins.sum()) + 1

    def total(values: torch.Tensor) -> torch.Tensor:
        return scores.new_zeros(n_rows).index_add_(0, run, values.double())

    score = scores[row]
    index = torch.zeros_like(token)
    index[known_n[order]] = run
    group = torch.cat([run.new_zeros(1), key[begins] >> 32])
    responses = total(score * fresh), total(fresh)
    occurrences = total(score), total(torch.ones_like(run))
    totals = group_totals(batch.group_b, scores, length_b * known_b)
    return Counts(index, totals, length_b, group, *responses, *occurrences)


def group_totals(group: torch.Tensor, scores: torch.Tensor, tokens: torch.Tensor) -> Totals:
    """The totals over the responses that have tokens, (n,) how many each; groups count from 0."""
    n_groups = int(group.max()) + 1 if len(group) else 1
    counts = (tokens > 0).double()

    def total(values: torch.Tensor) -> torch.Tensor:
        return values.new_zeros(n_groups).index_add_(0, group, values)

    n = total(counts)
    tokens_correct = total(scores * tokens)
    # From a score of the group, so that equal scores leave no rounding.
    origin_b = group_extreme(scores, tokens > 0, group, "max").clamp(min=-MAX_MAGNITUDE)
    shifted = (scores - origin_b) * counts
    mean = total(shifted) / n.clamp(min=1)
    variance = total((shifted - mean.gather(0, group)) ** 2 * counts) / n.clamp(min=1)
    tokens_incorrect = total(tokens.double()) - tokens_correct
    return Totals(n, total(scores * counts), tokens_correct, tokens_incorrect, variance)
