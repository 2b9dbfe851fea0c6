"""The estimator as whole-array operations: for small batches, since nothing is compiled.

Its numbers are those of the CPU backend, bit for bit: it adds in the same order, and the statistics
are that backend's own text, interpreted. So `auto` may take either.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ktae.arrays import MAX_TOKEN_ID
from ktae.backends import _cpu_statistics
from ktae.backends._kernel import interpreted
from ktae.backends.table import CreditTable
from ktae.batch import UNKNOWN, Batch, bad_token_id
from ktae.statistics import Formula

TOKEN_BITS = 31

statistics: Any = interpreted(_cpu_statistics)


class Tokens(NamedTuple):
    """The N unmasked positions, row by row."""

    rows: np.ndarray
    """(N,) int64"""
    columns: np.ndarray
    """(N,) int64"""
    keys: np.ndarray
    """(N,) int64: the row's group and the token id."""
    counted: np.ndarray
    """(N,) bool: not an ignored token."""


class Counts(NamedTuple):
    """The V distinct tokens of the groups' known rollouts, by group and token id."""

    keys: np.ndarray
    """(V,) int64: group and token id."""
    a: np.ndarray
    """(V,) float64: the scores of the rollouts that hold it, added up."""
    m: np.ndarray
    """(V,) float64: these rollouts."""
    occur_true: np.ndarray
    """(V,) float64: the scores once an occurrence, added up."""
    occur_false: np.ndarray
    """(V,) float64: occurrences less `occur_true`."""
    entry: np.ndarray
    """(N,) int64: for each position its place among the V; -1 where it is not counted."""


def credit(batch: Batch, formula: Formula) -> np.ndarray:
    """(B, T) float32: each unmasked token's credit plus its rollout's base."""
    tokens = unmasked(batch)
    counts = _count(batch, tokens)
    credit_v = _credit(batch, counts, _totals(batch, tokens), formula)
    entry = counts.entry
    if batch.look_up_unknown:
        entry = _looked_up(batch, tokens, counts)
    # The last one, 0, is of entry -1.
    credit_n = np.append(credit_v, np.float32(0.0))[entry]
    out = np.zeros(batch.token_ids.shape, dtype=np.float32)
    with np.errstate(over="ignore"):  # as in compiled loops
        out[tokens.rows, tokens.columns] = batch.base[tokens.rows] + credit_n
    return out


def table(batch: Batch, formula: Formula) -> CreditTable:
    """The credit table of the whole batch."""
    tokens = unmasked(batch)
    counts, graded = _count(batch, tokens), batch.scores is not None
    totals = _totals(batch, tokens)
    found: dict[tuple[float, ...], tuple[float, ...]] = {}
    rows = []
    for key in _arguments(counts):
        if key not in found:
            g, *numbers = key
            found[key] = statistics.table_row(*numbers, totals[int(g)], formula, graded)
        rows.append(found[key])
    columns = np.array(rows, dtype=np.float64).reshape(-1, 12).T
    cells = columns[:4] if graded else columns[:4].astype(np.int64)
    labels = batch.group_ids[counts.keys >> TOKEN_BITS]
    return CreditTable(labels, counts.keys & MAX_TOKEN_ID, *cells, *columns[4:])


def unmasked(batch: Batch) -> Tokens:
    """Where there are tokens, and which.

    Raises:
        InputError: a token id is out of range.
    """
    rows, columns = np.nonzero(batch.mask)
    ids = batch.token_ids[rows, columns]
    bad = np.flatnonzero((ids < 0) | (ids > MAX_TOKEN_ID))
    if bad.size:
        raise bad_token_id(batch.token_ids, int(rows[bad[0]]), int(columns[bad[0]]))
    ids = ids.astype(np.int64)
    counted = ~np.isin(ids, batch.ignored)
    return Tokens(rows, columns, batch.group_b[rows] << TOKEN_BITS | ids, counted)


def _count(batch: Batch, tokens: Tokens) -> Counts:
    taken = np.flatnonzero(tokens.counted & (batch.correct[tokens.rows] != UNKNOWN))
    # Stable: a token's positions stay in the order in which the compiled loops add them up.
    taken = taken[np.argsort(tokens.keys[taken], kind="stable")]
    keys, rows = tokens.keys[taken], tokens.rows[taken]
    is_new = np.diff(keys, prepend=-1) != 0
    fresh = is_new | (np.diff(rows, prepend=-1) != 0)
    place = np.cumsum(is_new) - 1
    n = int(is_new.sum())
    score = (batch.correct if batch.scores is None else batch.scores)[rows].astype(np.float64)
    occur_true = np.bincount(place, score, minlength=n)
    entry = np.full(len(tokens.keys), -1)
    entry[taken] = place
    return Counts(
        keys[is_new],
        np.bincount(place, score * fresh, minlength=n),
        np.bincount(place, fresh, minlength=n),
        occur_true,
        np.bincount(place, minlength=n) - occur_true,
        entry,
    )


def _totals(batch: Batch, tokens: Tokens) -> list[Any]:
    """Each group's `GroupTotals`."""
    tokens_b = np.bincount(tokens.rows[tokens.counted], minlength=len(batch.correct))
    found = []
    for start, stop in zip(batch.starts[:-1], batch.starts[1:], strict=True):
        rows = batch.rows[start:stop]
        scores = None if batch.scores is None else batch.scores[rows].tolist()
        counted, correct = tokens_b[rows].tolist(), batch.correct[rows].tolist()
        found.append(statistics.group_totals(counted, correct, scores))
    return found


def _arguments(counts: Counts) -> zip[tuple[float, ...]]:
    """For each of the V tokens its group, a, m, occur_true and occur_false, as Python's numbers."""
    columns = (counts.keys >> TOKEN_BITS, *counts[1:5])
    return zip(*(column.tolist() for column in columns), strict=True)


def _credit(batch: Batch, counts: Counts, totals: list[Any], formula: Formula) -> np.ndarray:
    """(V,) float32"""
    credit_v = np.zeros(len(counts.keys))
    found: dict[tuple[float, ...], float] = {}
    of_pair: dict[tuple[float, ...], tuple[float, float]] = {}  # what frequencies do not change
    for v, key in enumerate(_arguments(counts)):
        if key not in found:
            g, a, m, occur_true, occur_false = key
            own = totals[int(g)]
            if own.variance == 0.0:  # nothing to compare
                continue
            if (g, a, m) not in of_pair:
                of_pair[g, a, m] = statistics._strength_and_effect(a, m, own, formula)
            strength, effect = of_pair[g, a, m]
            direction = statistics._direction(
                strength, effect, occur_true, occur_false, own, formula
            )
            found[key] = statistics._credit(strength * direction, formula)
        credit_v[v] = found[key]
    with np.errstate(over="ignore"):
        return credit_v.astype(np.float32)


def _looked_up(batch: Batch, tokens: Tokens, counts: Counts) -> np.ndarray:
    """(N,) `Counts.entry`, with that of equal tokens for rollouts of unknown correctness."""
    if not len(counts.keys):
        return counts.entry
    place = np.searchsorted(counts.keys, tokens.keys).clip(max=len(counts.keys) - 1)
    unknown = tokens.counted & (batch.correct[tokens.rows] == UNKNOWN)
    return np.where(unknown & (counts.keys[place] == tokens.keys), place, counts.entry)
