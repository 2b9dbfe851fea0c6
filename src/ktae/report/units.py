"""Which units of text go with correctness, in which groups, and which of them beyond chance.

Units are counted by `ktae.counting`: each distinct unit of a group with the responses that contain
it. Of identical responses of a group only the first is evidence (`ktae.validity.repeats`).

"Beyond chance" is corrected over all groups of the dump at once. Units that split the responses of
a group in the same way are one test, since they have one and the same evidence; the tests of all
groups together keep a false discovery rate of `FDR` (Benjamini and Hochberg 1995). So no single
token is called beyond chance on a dump whose labels are random.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ktae import counting
from ktae.batch import make_batch
from ktae.inference import n_discoveries
from ktae.report.frame import Frame

FDR = 0.02  # below the usual .05, since a page makes several kinds of claims


class Rows(NamedTuple):
    """The distinct units of one kind in the mixed groups, R rows, group after group."""

    key: np.ndarray  # (R,) int64; of a single token its place in `Dump.token_ids`
    group: np.ndarray  # (R,) ascending
    table: np.ndarray  # (4, R): correct and incorrect responses with it, and without it
    distinct: np.ndarray  # (4, R): the same of distinct responses
    split: np.ndarray  # (R,) uint64: equal where the same responses of a group contain the unit
    p: np.ndarray  # (R,) Fisher's two-sided p over distinct responses
    row_n: np.ndarray  # (N,) int32: each token's row; -1 where it counts nowhere


@dataclasses.dataclass(frozen=True)
class Units:
    """The units of all mixed groups, and what they tell of correctness."""

    rows: dict[str, Rows]  # by the kind of unit: `token` in any case
    tested: tuple[str, ...]  # the kinds that were asked for
    tests: int  # distinct splits of responses in all groups: so many tests were made
    bound: float  # the largest p beyond chance; 0 where none is
    beyond_g: np.ndarray  # (G,) int64: distinct splits of each group that are beyond chance
    best_p_g: np.ndarray  # (G,) the smallest p in each group; 1 where nothing is compared
    mixed_g: np.ndarray  # (G,) bool: correct and incorrect responses with a token that counts

    @property
    def tokens(self) -> Rows:
        """Single tokens."""
        return self.rows["token"]

    @property
    def by_evidence(self) -> np.ndarray:
        """(G,) the groups by most evidence: most that is beyond chance, then the smallest p."""
        return np.lexsort((self.best_p_g, -self.beyond_g, ~self.mixed_g))


def find_units(frame: Frame, kinds: Sequence[str], ignored: Sequence[int] = ()) -> Units:
    """Count the units of these kinds (`ktae.counting.units.NGRAMS`) in all mixed groups.

    `ignored`: token ids that count nowhere.
    """
    counts_n = frame.mask_n
    if len(ignored):
        counts_n = counts_n & ~np.isin(frame.dump.token_ids, ignored)[frame.which_n]
    has_token_b = frame.known_b & (frame.sum_tokens(counts_n) > 0)
    correct_b = np.where(has_token_b, frame.correct_b, np.nan)
    evidence_b = has_token_b & ~frame.repeated(correct_b)
    rows = _count(frame, {"token": None, **dict.fromkeys(kinds)}, counts_n, evidence_b)
    # One test for each way to split the responses of a group, whatever units do so.
    group, split, p = (
        np.concatenate([getattr(rows[kind], name) for kind in kinds])
        for name in ("group", "split", "p")
    )
    _, first = np.unique(_hash(group, split), return_index=True)
    p_t, group_t = p[first], group[first]
    n = n_discoveries(p_t, np.ones(len(p_t), dtype=np.int64), FDR)
    bound = float(np.sort(p_t)[n - 1]) if n else 0.0
    best_p_g = np.ones(len(frame.sizes_g))
    np.minimum.at(best_p_g, group_t, p_t)
    beyond_g = np.bincount(group_t[p_t <= bound], minlength=len(best_p_g))
    correct_g, incorrect_g = (frame.sum_rollouts(correct_b == x) > 0 for x in (1, 0))
    mixed_g = correct_g & incorrect_g
    return Units(rows, tuple(kinds), len(p_t), bound, beyond_g, best_p_g, mixed_g)


def _count(
    frame: Frame, kinds: dict[str, None], counts_n: np.ndarray, evidence_b: np.ndarray
) -> dict[str, Rows]:
    """The rows of each kind, some whole groups at a time."""
    row_n = {kind: np.full(len(counts_n), -1, dtype=np.int32) for kind in kinds}
    parts: dict[str, list[tuple[np.ndarray, ...]]] = {kind: [] for kind in kinds}
    n_rows = dict.fromkeys(kinds, 0)
    margins = [frame.sum_rollouts(evidence_b & (frame.correct_b == x)) for x in (1, 0)]
    for rows, span, which_bt, mask_bt, _ in frame.batches(counts_n):
        batch = make_batch(which_bt, mask_bt, frame.correct_b[rows], frame.group_b[rows])
        places = span.start + np.flatnonzero(counts_n[span])
        for kind in kinds:
            counts = counting.count(batch, kind, by_unit=True)
            compared = counts.comparable()
            rank = np.where(compared, np.cumsum(compared) - 1, -1)
            row_p = rank[counts.index]
            row_n[kind][places] = np.where(row_p >= 0, row_p + n_rows[kind], -1)
            group = counts.group[compared] + frame.group_b[rows[0]]
            a, b, n_correct, n_incorrect = (x[compared] for x in counts.table)
            response_p = np.repeat(rows, counts.lengths)
            with_it, split = _evidence(frame, row_p, response_p, evidence_b, len(group))
            table = np.array([a, b, n_correct - a, n_incorrect - b], dtype=np.int64)
            without = [n[group] - x for n, x in zip(margins, with_it, strict=True)]
            distinct = np.array([*with_it, *without], dtype=np.int64)
            assert counts.key is not None
            parts[kind].append((counts.key[compared], group, table, distinct, split))
            n_rows[kind] += len(group)
    counted = {}
    for kind in kinds:
        columns = [np.concatenate(x, axis=-1) for x in zip(*parts[kind], strict=True)]
        # Fisher's p is computed once for each distinct table.
        _, first, number = np.unique(_hash(*columns[3]), return_index=True, return_inverse=True)
        a, b, c, d = columns[3][:, first].astype(np.float64)
        p = np.asarray(counting.p_values((a, b, a + c, b + d)))[number]
        counted[kind] = Rows(*[*columns, p, row_n[kind]])
    return counted


def _evidence(
    frame: Frame, row_p: np.ndarray, response_p: np.ndarray, evidence_b: np.ndarray, n_rows: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Correct and incorrect distinct responses with each unit, and a signature of them all."""
    is_evidence = (row_p >= 0) & evidence_b[response_p]
    pairs = np.sort(row_p[is_evidence] * len(evidence_b) + response_p[is_evidence])
    pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    row, response = np.divmod(pairs, len(evidence_b))
    is_correct = frame.correct_b[response] == 1
    with_it = [np.bincount(row, side, n_rows) for side in (is_correct, ~is_correct)]
    # The signature of a set is the sum of its members', modulo 2^64.
    marks_b = _hash(np.arange(len(evidence_b)))
    marks = np.concatenate([[np.uint64(0)], np.cumsum(marks_b[response], dtype=np.uint64)])
    bounds = np.searchsorted(row, np.arange(n_rows + 1))
    return with_it, np.diff(marks[bounds])


def cells(units: Units) -> tuple[np.ndarray, list[np.ndarray]]:
    """The distinct tables of the kinds that were asked for, and for each kind (N,) the number of
    each token's table, counted from 1; 0 where it counts nowhere.

    A table is the kind's number; correct and incorrect responses with the unit, each followed by
    of how many; p over distinct responses; 1 where that is beyond chance.
    """
    tables, number_kn, begin = [], [], 1
    for place, kind in enumerate(units.tested):
        rows = units.rows[kind]
        (a, b, c, d), beyond = rows.table, rows.p <= units.bound
        codes = _hash(*rows.table, *rows.distinct)
        _, first, number = np.unique(codes, return_index=True, return_inverse=True)
        columns = np.array([np.full(len(a), place), a, a + c, b, b + d, rows.p, beyond])
        tables.append(columns[:, first].T)
        number_kn.append(np.where(rows.row_n >= 0, np.append(number, 0)[rows.row_n] + begin, 0))
        begin += len(first)
    return np.concatenate(tables), number_kn


def _hash(*columns: np.ndarray) -> np.ndarray:
    """(n,) uint64: a mixed number of each row, different for different rows but for 1 in 2^32."""
    mixed = np.full(len(columns[0]), len(columns), dtype=np.uint64)
    for column in columns:
        mixed += np.uint64(0x243F6A8885A308D3)  # so that zeros mix, too
        mixed ^= np.asarray(column).astype(np.int64).view(np.uint64)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
    return mixed
