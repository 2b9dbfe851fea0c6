"""The torch backend: tensor operations on any device, around one sort.

Sorting the tokens by (group, token) turns each group's token into a run, and all that it needs are
sums over runs. What these say of a token is computed by the kernels of the CPU backend, on the
host: of verdicts few distinct tables occur. Groups are taken in chunks, so that the memory beyond
the output stays bounded. `batch_on_device` makes the batch.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import torch

from ktae import statistics
from ktae.arrays import LARGEST, MAX_TOKEN_ID, ArrayLike, as_array, on_host
from ktae.backends.compiled import associations, in_threads
from ktae.batch import (
    Batch,
    ScoreRange,
    check_mask,
    check_per_rollout,
    check_tokens,
    correctness,
    finite_per_rollout,
    group_bounds,
    group_labels,
)
from ktae.statistics import Formula

MEMORY_BYTES = 2**30
"""Bound on the memory beyond the output, as far as the largest group allows."""

BYTES_PER_POSITION = 256
"""Extra memory at the peak for each position of a chunk that has no masked one and no two tokens
alike, with some air for what the allocator does not give back at once."""

KEYS_AT_ONCE = 1 << 16
"""Keys whose statistics a thread of the host computes at a time."""


class Totals(NamedTuple):
    """The margins of all of a group's contingency tables, (n_groups,) float64 each. With graded
    scores n_true is their sum, and a rollout of score r adds the share r of its tokens to the
    correct ones'."""

    n_true: torch.Tensor
    n_false: torch.Tensor
    length_true: torch.Tensor
    length_false: torch.Tensor
    variance: torch.Tensor
    """Of the scores, divided by n. Exactly 0 where all are equal."""


class Runs(NamedTuple):
    """The key tokens of a chunk: one entry for each of its groups' distinct tokens."""

    group: torch.Tensor
    m: torch.Tensor
    """int64: rollouts that hold it."""
    a: torch.Tensor
    """float64: their scores' sum."""
    occurrences: torch.Tensor
    occur_true: torch.Tensor
    """float64: the sum of their scores, once for each occurrence."""


def batch_on_device(
    token_ids: torch.Tensor,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    *,
    score_range: ScoreRange = None,
    **optional: Any,
) -> Batch:
    """A batch on the device of `token_ids`, without the host ever waiting for it.

    Shapes and dtypes are known to the host and always checked, and so are the values of what is in
    the host's memory. Nobody looks at what is on the device: ids out of range count as some token,
    and what is neither 0 nor NaN in `correct` as correct.
    Graded scores on the device are clamped to their range. Otherwise as `make_batch`.
    """
    device, ids, mask = token_ids.device, token_ids.detach(), _on_host_or_tensor("mask", mask)
    check_tokens(ids, mask)
    n_rows = len(ids)
    if not isinstance(mask, torch.Tensor):
        check_mask(mask)
        mask = torch.from_numpy(np.not_equal(mask, 0))  # torch does not know every dtype
    mask = mask.to(device)
    if not isinstance(groups, torch.Tensor):
        groups = torch.from_numpy(np.unique(group_labels(groups, n_rows), return_inverse=True)[1])
    check_per_rollout("groups", groups, n_rows, "i", "integers or strings")
    ordered, rows = groups.to(device).long().sort(stable=True)
    number = torch.zeros_like(rows)
    number[1:] = (ordered[1:] != ordered[:-1]).cumsum(0)
    group_b = torch.empty_like(rows).scatter_(0, rows, number)
    evidence = _evidence(correct, n_rows, score_range).to(device)
    return Batch(ids, mask, evidence, group_b, score_range is not None, **optional)


def numbers_on_device(name: str, values: ArrayLike, batch: Batch) -> torch.Tensor:
    """(B,) float64 on the batch's device; values are looked at where they are the host's."""
    n_rows, device = len(batch.evidence), batch.evidence.device
    values = _on_host_or_tensor(name, values)
    if not isinstance(values, torch.Tensor):
        return torch.from_numpy(finite_per_rollout(name, values, n_rows)).to(device)
    check_per_rollout(name, values, n_rows, "bif", "numbers")
    return values.to(device).double()


def _evidence(correct: ArrayLike, n_rows: int, score_range: ScoreRange) -> torch.Tensor:
    correct = _on_host_or_tensor("correct", correct)
    if not isinstance(correct, torch.Tensor):
        return torch.from_numpy(correctness(correct, n_rows, score_range)[0])
    check_per_rollout("correct", correct, n_rows, "bif", "bool, or 0, 1 and NaN (unknown)")
    numbers = correct.double()
    if score_range is not None:
        return numbers.clamp(*score_range)  # NaN stays
    return torch.where(numbers.isnan(), numbers, (numbers != 0).double())


def _on_host_or_tensor(name: str, values: ArrayLike) -> Any:
    """An array of whatever is in the host's memory; a tensor of other memory as it is."""
    if not isinstance(values, torch.Tensor):
        return as_array(name, values)
    return values.detach() if values.device.type != "cpu" else on_host(values)


def credit(batch: Batch, formula: Formula) -> torch.Tensor:
    """(B, T) float32 credit. Token ids out of range count as some token."""
    out = torch.zeros(batch.token_ids.shape, dtype=torch.float32, device=batch.token_ids.device)
    group_of, rows = batch.group_b.sort(stable=True)
    ends = torch.bincount(group_of).cumsum(0).cpu().numpy()
    starts = np.concatenate([[0], ends])
    bounds = group_bounds(starts, MEMORY_BYTES // (BYTES_PER_POSITION * max(1, out.shape[1])))
    # Whole groups, as many as fit into the memory but at least one.
    for begin, end in itertools.pairwise(starts[bounds].tolist()):
        chunk = slice(begin, end)
        some = rows[chunk]
        part = batch._replace(
            token_ids=batch.token_ids[some],
            mask=batch.mask[some],
            evidence=batch.evidence[some],
            group_b=group_of[chunk] - group_of[chunk.start],
        )
        out[some] = _chunk_credit(part, formula)
    return out


def _chunk_credit(batch: Batch, formula: Formula) -> torch.Tensor:
    """(n, T) credit of some whole groups, whose rows are sorted by group."""
    ids, scores = batch.token_ids, batch.evidence.nan_to_num(nan=0.0)
    out = torch.zeros(ids.shape, dtype=torch.float32, device=ids.device)
    counted = batch.counted() & batch.known().unsqueeze(1)
    position = counted.flatten().nonzero().squeeze(1)
    if len(position) == 0:
        return out
    row = position // ids.shape[1]
    # An unchecked id may be anything; it must not reach into the bits of the group.
    token = ids.flatten()[position].long() & MAX_TOKEN_ID
    key, order = (batch.group_b[row] << 32 | token).sort(stable=True)
    del token
    position, row = position[order], row[order]
    del order
    # A run is one token of one group. Its rows are in order, since the sort is stable; so the token
    # is new to its rollout where the row changes.
    begins = torch.ones_like(key, dtype=torch.bool)
    begins[1:] = key[1:] != key[:-1]
    fresh = begins.clone()
    fresh[1:] |= row[1:] != row[:-1]
    group = key[begins] >> 32
    del key
    run = begins.cumsum(0) - 1

    def total(values: torch.Tensor) -> torch.Tensor:
        return values.new_zeros(len(group)).index_add_(0, run, values)

    score = scores[row]
    runs = Runs(
        group, total(fresh.long()), total(score * fresh), total(torch.ones_like(run)), total(score)
    )
    del row, fresh, begins, score
    totals = group_totals(batch.group_b, scores, counted.sum(1))
    out.view(-1)[position] = _credit_of_runs(runs, totals, batch.graded, formula)[run]
    return out


def group_totals(group: torch.Tensor, scores: torch.Tensor, tokens: torch.Tensor) -> Totals:
    """The totals over the rollouts that have tokens, (n,) how many each; groups ascend from 0."""
    n_groups = int(group[-1]) + 1
    counts = (tokens > 0).double()

    def total(values: torch.Tensor) -> torch.Tensor:
        return values.new_zeros(n_groups).index_add_(0, group, values)

    n = total(counts)
    n_true = total(scores * counts)
    length_true = total(scores * tokens)
    # From a score of the group, so that equal scores leave no rounding.
    origin = scores.new_full((n_groups,), -torch.inf)
    origin.scatter_reduce_(0, group, torch.where(tokens > 0, scores, -torch.inf), "amax")
    shifted = (scores - origin.clamp(min=-LARGEST).gather(0, group)) * counts
    mean = total(shifted) / n.clamp(min=1)
    variance = total((shifted - mean.gather(0, group)) ** 2 * counts) / n.clamp(min=1)
    return Totals(n_true, n - n_true, length_true, total(tokens.double()) - length_true, variance)


def _credit_of_runs(runs: Runs, totals: Totals, graded: bool, formula: Formula) -> torch.Tensor:
    """(n_runs,) float32 credit; 0 where there is nothing to compare."""
    of_run = Totals(*(values[runs.group] for values in totals))
    strength, effect = _associations(runs, of_run, graded, formula).unbind(1)
    if formula.z:
        return (formula.credit_scale * effect).float()
    lengths = of_run.length_true, of_run.length_false
    relative = statistics.relative_lengths(
        *lengths, of_run.n_true, of_run.n_false, formula.mean_lengths
    )
    occurrences = runs.occur_true, runs.occurrences - runs.occur_true
    frequency_true, frequency_false = (
        statistics.saturated_term_frequency(
            occur / torch.where(length > 0, length, 1.0), of_class, formula.k1, formula.b_len
        )
        for occur, length, of_class in zip(occurrences, lengths, relative, strict=True)
    )
    contrast = statistics.frequency_contrast(frequency_true, frequency_false, formula.eps)
    value = strength * (effect + formula.h3 * contrast)
    credit = formula.credit_scale * 0.5 * torch.tanh(0.5 * value) + 0.0  # not -0.0
    return torch.where(of_run.variance > 0, credit, 0.0).float()


def _associations(runs: Runs, of_run: Totals, graded: bool, formula: Formula) -> torch.Tensor:
    """(n_runs, 2) float64 strength and effect of each run's key, computed on the host."""
    n = of_run.n_true + of_run.n_false
    keys = torch.stack([runs.a, runs.m.double(), n, of_run.n_true, of_run.variance], dim=1)
    if graded:
        return _on_host(keys, formula)
    # Of verdicts both depend on (a, b) and the group alone, so they are computed once for each pair
    # that occurs. One run of each stands for the others.
    size = int(n.max()) + 1
    pair, place = ((runs.group * size + runs.m) * size + runs.a.long()).unique(return_inverse=True)
    stands = torch.empty_like(pair).scatter_(0, place, torch.arange(len(place), device=pair.device))
    return _on_host(keys[stands], formula)[place]


def _on_host(keys: torch.Tensor, formula: Formula) -> torch.Tensor:
    keys_n5 = keys.cpu().numpy()
    bounds = [*range(0, len(keys_n5), KEYS_AT_ONCE), len(keys_n5)]
    parts = in_threads(lambda part: associations(keys_n5[part], formula), bounds)
    return torch.from_numpy(np.concatenate(parts)).to(keys.device)
