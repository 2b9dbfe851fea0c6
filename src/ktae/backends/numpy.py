"""The NumPy backend: counts by sorting, and each distinct table through `ktae.statistics` once.

It makes every credit table, and the credit of a process's first tokens, for which the CPU backend's
compiler would take longer than the work. Both give the same numbers. Groups are taken some at a
time, so counting takes some megabytes, or what the largest group needs; a table lies in memory
twice while its parts are put together.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ktae import statistics
from ktae.arrays import AT_ONCE, MAX_TOKEN_ID, Array
from ktae.backends import CreditTable
from ktae.batch import Batch, group_bounds
from ktae.statistics import Formula, Lengths, Margins


class Counts(NamedTuple):
    """What is counted of each key, a distinct token of a group; ascending by group and token."""

    group: Array
    token_id: Array
    a: Array
    """float64: the scores' sum over the rollouts that hold it."""
    m: Array
    """float64: how many these are."""
    occur_true: Array
    """float64: the scores' sum over its occurrences."""
    occur_false: Array


association = functools.lru_cache(1 << 16)(statistics.association)


def credit(batch: Batch, formula: Formula) -> np.ndarray:
    """(B, T) float32 credit; an InputError for a token id that is out of range and unmasked."""
    out = np.zeros(batch.token_ids.shape, dtype=np.float32)
    for rows, _, part in _parts(batch):
        place, key, counts = _count(part)
        credit_bt = np.zeros(part.token_ids.shape, dtype=np.float32)
        credit_bt.flat[place] = _statistics(part, counts, formula, tested=False)[-1][key]
        out[rows] = credit_bt
    return out


def table(batch: Batch, formula: Formula) -> CreditTable:
    """The credit table of the batch, with the same error."""
    # Of other scores than verdicts, which may be anything, a z-score is all that there is.
    tested = not (formula.z and batch.graded)
    dtype = np.float64 if batch.graded else np.int64
    assert batch.labels is not None
    parts = []
    for _, first_group, part in _parts(batch):
        _, _, counts = _count(part)
        columns = _statistics(part, counts, formula, tested)
        cells = (x.astype(dtype) for x in columns[:4])
        labels = batch.labels[first_group + counts.group]
        parts.append((labels, counts.token_id, *cells, *columns[4:]))
    return CreditTable(*map(np.concatenate, zip(*parts, strict=True)))


def _parts(batch: Batch) -> Iterator[tuple[np.ndarray, int, Batch]]:
    """Some whole groups at a time: their rows, the number of the first one, and they as a batch."""
    batch.check_token_ids()
    rows, starts = batch.by_group()
    bounds = group_bounds(starts, AT_ONCE // max(1, batch.token_ids.shape[1]))
    for begin, end in itertools.pairwise(bounds if len(rows) else (0, 0)):
        some = rows[starts[begin] : starts[end]]
        part = batch._replace(
            token_ids=batch.token_ids[some],
            mask=batch.mask[some],
            evidence=batch.evidence[some],
            group_b=batch.group_b[some] - begin,
        )
        yield some, begin, part


def _count(batch: Batch) -> tuple[np.ndarray, np.ndarray, Counts]:
    """The flat places of the counted tokens, the number of each one's key, and the keys.

    Where they are looked up, rollouts of unknown correctness count with weight 0.
    """
    counted_bt, known_b = batch.counted(), batch.known()
    if not batch.look_up_unknown:
        counted_bt &= known_b[:, None]
    place = np.flatnonzero(counted_bt)
    row = place // max(1, counted_bt.shape[1])
    bits = max(0, counted_bt.size - 1).bit_length()
    token = batch.token_ids.ravel()[place].astype(np.int64)
    # Of several groups there are at most `AT_ONCE` positions, so this has 16 + 31 + 16 bits.
    code = (batch.group_b[row] << 31 | token) << bits | place
    code.sort()
    # Within a key rows are in order: it is new to its rollout where the row changes, and sums
    # round as they do elsewhere.
    place = code & (1 << bits) - 1
    code >>= bits
    row = place // max(1, counted_bt.shape[1])
    is_first = np.diff(code, prepend=-1) != 0
    is_new = is_first | (np.diff(row, prepend=-1) != 0)
    key, code = np.cumsum(is_first) - 1, code[is_first]
    score, known = np.where(known_b, batch.evidence, 0.0)[row], known_b[row]

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(key, values, len(code))

    occur_true = total(score)
    counts = Counts(
        group=code >> 31,
        token_id=code & MAX_TOKEN_ID,
        a=total(score * is_new),
        m=total(known & is_new),
        occur_true=occur_true,
        occur_false=total(known) - occur_true,
    )
    return place, key, counts


def _statistics(
    batch: Batch, counts: Counts, formula: Formula, tested: bool
) -> tuple[np.ndarray, ...]:
    """Of each key the columns of a `CreditTable` from `a` on."""
    _, starts = batch.by_group()
    tokens, scores = batch.counted().sum(axis=1).tolist(), batch.evidence.tolist()
    slices = map(slice, starts[:-1].tolist(), starts[1:].tolist())
    totals = [statistics.totals(tokens[part], scores[part]) for part in slices]
    group, _, a, m, occur_true, occur_false = counts
    margins = Margins(*np.array([x for x, _ in totals]).reshape(-1, 4)[group].T)
    lengths = Lengths(*np.array([x for _, x in totals]).reshape(-1, 2)[group].T)
    b = m - a
    cells = (a, b, margins.n_true - a, margins.n_false - b)
    shares = (
        occur_true / np.where(lengths.true != 0, lengths.true, 1.0),
        occur_false / np.where(lengths.false != 0, lengths.false, 1.0),
    )
    # Of verdicts there are few tables in a group, which many keys share.
    is_compared = (margins.variance > 0) & (m > 0)
    size = int(m.max(initial=0)) + 1
    first = place = np.arange(len(m))
    if not batch.graded:
        table = ((group * size + m) * size + a).astype(np.int64)
        _, first, place = np.unique(table, return_index=True, return_inverse=True)
    compute = statistics.association if batch.graded else association
    keys = zip(*(x[first].tolist() for x in (a, m, group, is_compared)), strict=True)
    rows_of_keys = [
        compute(a, m, totals[group][0], formula, tested) if compared else (0.0, 0.0, 1.0, 0.0)
        for a, m, group, compared in keys
    ]
    strength, effect, p, gain = np.array(rows_of_keys).reshape(-1, 4)[place].T
    fisher = np.array([statistics.fisher_score(x) for x in p[first].tolist()])[place]
    with np.errstate(all="ignore"):  # where there is nothing to compare
        raw = statistics.direction(effect, occur_true, occur_false, margins, lengths, formula)
    direction = np.where(is_compared, raw, 0.0)
    value = strength * direction + 0.0  # not -0.0
    credit: Array = statistics.credit(value, formula)
    return (*cells, *shares, p, fisher, gain, direction, value, credit)
