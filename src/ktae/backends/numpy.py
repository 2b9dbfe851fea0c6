"""The NumPy backend: counts by sorting, and each distinct table through `ktae.statistics` once.

It makes every credit table, and the credit of a process's first tokens, for which the CPU backend's
compiler would take longer than the work. Both give the same numbers.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from ktae import statistics
from ktae.arrays import MAX_TOKEN_ID, Array
from ktae.backends import CreditTable
from ktae.batch import Batch
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
    places, key, counts = _count(batch)
    out = np.zeros(batch.token_ids.shape, dtype=np.float32)
    out[places] = _statistics(batch, counts, formula, tested=False)[-1][key]
    return out


def table(batch: Batch, formula: Formula) -> CreditTable:
    """The credit table of the batch, with the same error."""
    _, _, counts = _count(batch)
    # Of other scores than verdicts, which may be anything, a z-score is all that there is.
    columns = _statistics(batch, counts, formula, tested=not (formula.z and batch.graded))
    dtype = np.float64 if batch.graded else np.int64
    cells = (x.astype(dtype) for x in columns[:4])
    assert batch.labels is not None
    return CreditTable(batch.labels[counts.group], counts.token_id, *cells, *columns[4:])


def _count(batch: Batch) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray, Counts]:
    """The rows and columns of the counted tokens, the number of each one's key, and the keys.

    Where they are looked up, rollouts of unknown correctness count with weight 0.
    """
    batch.check_token_ids()
    counted_bt, known_b = batch.counted(), batch.known()
    if not batch.look_up_unknown:
        counted_bt &= known_b[:, None]
    row, column = np.nonzero(counted_bt)
    code = batch.group_b[row] << 32 | batch.token_ids[row, column].astype(np.int64)
    # The sort is stable, so within a key rows are in order: it is new to its rollout where the row
    # changes, and sums round as they do elsewhere.
    order = np.argsort(code, kind="stable")
    code, row, column = code[order], row[order], column[order]
    is_first = np.diff(code, prepend=-1) != 0
    is_new = is_first | (np.diff(row, prepend=-1) != 0)
    key, code = np.cumsum(is_first) - 1, code[is_first]
    score, known = np.where(known_b, batch.evidence, 0.0)[row], known_b[row]

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(key, values, len(code))

    occur_true = total(score)
    counts = Counts(
        group=code >> 32,
        token_id=code & MAX_TOKEN_ID,
        a=total(score * is_new),
        m=total(known & is_new),
        occur_true=occur_true,
        occur_false=total(known) - occur_true,
    )
    return (row, column), key, counts


def _statistics(
    batch: Batch, counts: Counts, formula: Formula, tested: bool
) -> tuple[np.ndarray, ...]:
    """Of each key the columns of a `CreditTable` from `a` on."""
    rows, starts = batch.by_group()
    tokens, scores = batch.counted().sum(axis=1)[rows].tolist(), batch.evidence[rows].tolist()
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
    credit = np.array([statistics.credit(x, formula) for x in value.tolist()])
    return (*cells, *shares, p, fisher, gain, direction, value, credit)
