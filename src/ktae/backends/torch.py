"""The torch backend: tensor operations on any device, around one sort.

Sorting the tokens by (group, token) turns each group's token into a run, and all that it needs are
sums over runs. Groups are taken in chunks, so that the memory beyond the output stays bounded.
`batch_on_device` makes the batch; the statistics are those of `ktae.statistics`, which explains
them and names their sources, for many contingency tables at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from ktae import statistics
from ktae.arrays import LARGEST, MAX_TOKEN_ID, ArrayLike, as_array, on_host
from ktae.batch import (
    Batch,
    ScoreRange,
    check_mask,
    check_per_rollout,
    check_tokens,
    correctness,
    finite_per_rollout,
    group_labels,
)
from ktae.statistics import Formula

MEMORY_BYTES = 2**30
"""Bound on the memory beyond the output, as far as the largest group allows. One half is for a
chunk of groups, the other for Fisher's test while the chunk is there."""

BYTES_PER_POSITION = 256
"""Extra memory at the peak for each position of a chunk that has no masked one and no two tokens
alike, with some air for what the allocator does not give back at once."""

BYTES_PER_TABLE = 64
"""Extra memory for each table of the same margins that Fisher's test compares with."""

SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
"""Instead of the types that torch stores and does not compute with."""


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

    Args:
        token_ids: as in `ktae.token_credit`, and so are the next three.
        mask: (B, T)
        correct: (B,)
        groups: (B,)
        score_range: what graded scores may be; those on the device are clamped to it.
        **optional: fields of the batch beside the rollouts.

    Raises:
        InputError: shapes, dtypes or values in the host's memory do not fit.
    """
    device, ids, mask = token_ids.device, token_ids.detach(), _on_host_or_tensor("mask", mask)
    check_tokens(ids, mask)
    n_rows = len(ids)
    if not isinstance(mask, torch.Tensor):
        check_mask(mask)
        mask = torch.from_numpy(np.not_equal(mask, 0))  # torch does not know every dtype
    mask = mask.to(device)
    mask = mask.view(SIGNED.get(mask.dtype, mask.dtype))  # not 0 remains not 0
    if ids.dtype in SIGNED:  # out of range remains out of range, but for 16 bits
        ids = ids.int() if ids.dtype == torch.uint16 else ids.view(SIGNED[ids.dtype])
    if not isinstance(groups, torch.Tensor):
        groups = torch.from_numpy(np.unique(group_labels(groups, n_rows), return_inverse=True)[1])
    check_per_rollout("groups", groups, n_rows, "i", "integers or strings")
    # Torch sorts no unsigned ones but bytes.
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
    for chunk in _chunks(group_of, max(1, batch.token_ids.shape[1])):
        some = rows[chunk]
        part = batch._replace(
            token_ids=batch.token_ids[some],
            mask=batch.mask[some],
            evidence=batch.evidence[some],
            group_b=group_of[chunk] - group_of[chunk.start],
        )
        out[some] = _chunk_credit(part, formula)
    return out


def _chunks(group_of: torch.Tensor, width: int) -> Iterator[slice]:
    """Consecutive groups, as many as fit into the memory but at least one."""
    rows_at_once = max(1, MEMORY_BYTES // 2 // (BYTES_PER_POSITION * width))
    stops = torch.bincount(group_of).cumsum(0).cpu()
    start, n_rows = 0, len(group_of)
    while start < n_rows:
        fitting = int(torch.searchsorted(stops, start + rows_at_once, right=True)) - 1
        first = int(torch.searchsorted(stops, start, right=True))
        stop = int(stops[max(fitting, first)])
        yield slice(start, stop)
        start = stop


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
    """The totals over the rollouts that have tokens.

    Args:
        group: (n,) int64, from 0, ascending.
        scores: (n,) float64.
        tokens: (n,) how many of each rollout's tokens count: 0 for those of unknown correctness.
    """
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
    """(n_runs,) float32 credit."""
    of_run = Totals(*(values[runs.group] for values in totals))
    if formula.z:
        n = of_run.n_true + of_run.n_false
        moments = runs.m, n, of_run.n_true / n, of_run.variance
        z = presence_z(runs.a, *moments)
        if formula.sharp:
            z = sharpened(z, *moments)
        return (formula.credit_scale * z).float()
    if graded:
        tables = runs.a, runs.m - runs.a, of_run.n_true, of_run.n_false
        strength, effect = strength_and_effect(*tables, formula).unbind(1)
    else:
        strength, effect = _of_distinct_pairs(runs, totals, formula).unbind(1)
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
    credit = formula.credit_scale * 0.5 * torch.tanh(0.5 * value)
    return torch.where(of_run.variance > 0, credit, 0.0).float()


def _of_distinct_pairs(runs: Runs, totals: Totals, formula: Formula) -> torch.Tensor:
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
    tables = (a_and_b // columns, a_and_b % columns, totals.n_true[group], totals.n_false[group])
    return strength_and_effect(*tables, formula)[place]


def strength_and_effect(
    a: torch.Tensor,
    b: torch.Tensor,
    n_true: torch.Tensor,
    n_false: torch.Tensor,
    formula: Formula,
) -> torch.Tensor:
    """(n, 2) float64 strength and effect size of n tables; 0 where one class is empty.

    `a`, `b`, `n_true`, `n_false` are (n,) counts, or fractions with graded scores.
    """
    tables = torch.stack([x.double() for x in (a, b, n_true, n_false)])
    out = torch.zeros(len(a), 2, dtype=torch.float64, device=a.device)
    if len(a) == 0:
        return out
    most_tables = int(torch.minimum(torch.minimum(n_true, n_false), a + b).max()) + 2
    at_once = max(1, MEMORY_BYTES // 2 // (BYTES_PER_TABLE * most_tables))
    for start in range(0, len(a), at_once):
        part = tables[:, start : start + at_once]
        p = fisher_p_value(*part, formula=formula, most_tables=most_tables)
        fisher = torch.where(p == 1, 0.0, torch.exp(-2 * p))
        strength = formula.h1 * fisher + formula.h2 * information_gain(*part)
        both = torch.stack((formula.value_scale * strength, effect_size(*part)), dim=1)
        is_mixed = (part[2] > 0) & (part[3] > 0)
        out[start : start + at_once] = torch.where(is_mixed.unsqueeze(1), both, 0.0)
    return out


def fisher_p_value(
    a: torch.Tensor,
    b: torch.Tensor,
    n_true: torch.Tensor,
    n_false: torch.Tensor,
    *,
    formula: Formula,
    most_tables: int,
) -> torch.Tensor:
    """(n,) float64, of the tables [[a, b], [n_true - a, n_false - b]].

    `most_tables` is at least the number of tables that any of these margins allow. Weights relative
    to the table's own differ from exact ties by far less than the slack of 1e-7; where every table
    counts the result is exactly 1.
    """
    k = a + b
    low, high = (k - n_false).clamp(min=0), torch.minimum(k, n_true)
    first = a - torch.floor(a - low + 1e-9)  # sums of fractions may miss a table by their rounding

    x = first.unsqueeze(1) + torch.arange(most_tables, device=a.device)
    exists = x <= high.unsqueeze(1) + 1e-9
    x = torch.minimum(x, high.unsqueeze(1))
    margins = tuple(v.unsqueeze(1) for v in (k, n_true, n_false))
    if formula.single:
        weight, seen = (_in_single_precision(y, *margins) for y in (x, a.unsqueeze(1)))
        return torch.where(exists & (weight <= seen), weight.double(), 0.0).sum(1).float().double()
    log_seen = _log_weight(a.unsqueeze(1), *margins)
    weight = torch.where(exists, torch.exp(_log_weight(x, *margins) - log_seen), 0.0)
    total = weight.sum(1)
    if formula.point:
        return 1 / total
    as_extreme = weight <= 1 + 1e-7
    p = torch.where(as_extreme, weight, 0.0).sum(1) / total
    return torch.where(as_extreme.all(1), 1.0, p)


def _log_weight(x: torch.Tensor, k: Any, n_true: Any, n_false: Any) -> torch.Tensor:
    """The logarithm of a table's probability, but for a constant of the margins."""
    cells = (x, n_true - x, k - x, n_false - k + x)
    return -sum(torch.lgamma(cell.clamp(min=0) + 1) for cell in cells)


def _in_single_precision(x: torch.Tensor, k: Any, n_true: Any, n_false: Any) -> torch.Tensor:
    """A table's probability, each step rounded as in `statistics.single_precision_p_value`."""

    def log_binomial(n: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        logs = [torch.lgamma(v.clamp(min=0) + 1).float() for v in (n, k, n - k)]
        return logs[0] - logs[1] - logs[2]

    logs = log_binomial(n_true, x) + log_binomial(n_false, k - x)
    return (logs - log_binomial(n_true + n_false, k)).double().exp().float()


def information_gain(
    a: torch.Tensor, b: torch.Tensor, n_true: torch.Tensor, n_false: torch.Tensor
) -> torch.Tensor:
    """(n,) float64 bits, never negative."""

    def n_times_entropy(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x, y = x.clamp(min=0), y.clamp(min=0)  # sums of fractions may round to below
        nats = torch.xlogy(x + y, x + y) - torch.xlogy(x, x) - torch.xlogy(y, y)
        return nats / math.log(2)

    c, d = n_true - a, n_false - b
    gain = n_times_entropy(n_true, n_false) - n_times_entropy(a, b) - n_times_entropy(c, d)
    n = n_true + n_false
    gain = torch.where(a + b == n, 0.0, gain)  # every rollout has the token: exactly 0
    return gain.clamp(min=0) / n.clamp(min=1)


def effect_size(
    a: torch.Tensor, b: torch.Tensor, n_true: torch.Tensor, n_false: torch.Tensor
) -> torch.Tensor:
    """(n,) float64: asin √(a / n_true) - asin √(b / n_false)."""
    share_true, share_false = (
        torch.where(n > 0, x / n, 0.0).clamp(0, 1) for x, n in ((a, n_true), (b, n_false))
    )
    return torch.asin(torch.sqrt(share_true)) - torch.asin(torch.sqrt(share_false))


def presence_z(
    score_sum: torch.Tensor,
    m: torch.Tensor,
    n: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
) -> torch.Tensor:
    """(n,) float64; 0 where every rollout has the token or all scores are equal."""
    spread = m * (n - m) / (n - 1).clamp(min=1) * variance
    z = (score_sum - m * mean) / torch.where(spread > 0, spread, 1.0).sqrt()
    return torch.where(spread > 0, z, 0.0)


def sharpened(
    z: torch.Tensor,
    m: torch.Tensor,
    n: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
) -> torch.Tensor:
    """(n,) float64; 0 where every rollout has the token or all verdicts are equal."""
    tells = (m < n) & (variance > 0)
    skewness = (1 - 2 * mean) / torch.where(tells, variance, 1.0).sqrt()
    spread = torch.where(tells, m * (n - m), 1.0).sqrt() * (n - 2).clamp(min=1)
    others = (n - 1).clamp(min=1)
    expected = torch.where(n > 2, skewness * (n - 2 * m) * others.sqrt() / spread, 0.0)
    return torch.where(tells, (z**3 - expected) / others, 0.0)
