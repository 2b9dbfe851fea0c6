"""Which units of text go with correctness, in which groups, and which of them beyond chance.

One table for the whole page: each distinct unit of a group with the responses that contain it. Of
identical responses of a group only the first is evidence (`ktae.validity.repeats`).

"Beyond chance" is corrected over all groups of the dump at once. Units that split the responses of
a group in the same way are one test, since they have one and the same evidence; the tests of all
groups together keep a false discovery rate of `FDR` (Benjamini and Hochberg 1995). So no single
token is called beyond chance on a dump whose labels are random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ktae.inference import n_discoveries
from ktae.report.frame import Frame
from ktae.report.strongest import fisher_p, p_values
from ktae.validity import repeats

FDR = 0.02
"""False discovery rate of what is called beyond chance. Below the usual .05, since a page makes
several kinds of claims: all together are false on at most 1 in 20 dumps of random labels."""

TOKENS_AT_ONCE = 1 << 21
"""Tokens whose units are counted in one go, in whole groups."""

SIZES = {"token": 1, "bigram": 2, "trigram": 3}

CELL = ("unit", "a", "n_correct", "b", "n_incorrect", "p", "beyond")
"""The columns of `Units.cells`: which unit; correct and incorrect responses that contain it, of how
many; Fisher's p over distinct responses; 1 where that is beyond chance."""


class Units(NamedTuple):
    """The units of all mixed groups; R rows are of single tokens and a group each."""

    names: tuple[str, ...]
    """The kinds of unit, `token` first or alone."""
    cells: np.ndarray
    """(C, 7) float64, the distinct contingency tables: see `CELL`."""
    cell_un: np.ndarray
    """(kinds, N) int32: the table of each token's unit of each kind; -1 where it counts nowhere."""
    tests: int
    """Distinct splits of responses in all groups: so many tests were made."""
    bound: float
    """The largest p beyond chance; 0 where none is."""
    beyond_g: np.ndarray
    """(G,) int64: distinct splits of each group that are beyond chance."""
    best_p_g: np.ndarray
    """(G,) the smallest p in each group; 1 where nothing is compared."""
    mixed_g: np.ndarray
    """(G,) bool: correct and incorrect responses with a token that counts."""
    row_n: np.ndarray
    """(N,) int32: each token's row of single tokens; -1 where it counts nowhere."""
    which: np.ndarray
    """(R,) the token: its place in `Dump.token_ids`."""
    group: np.ndarray
    """(R,) ascending."""
    counts: np.ndarray
    """(4, R): a, b, c, d of all responses."""
    distinct: np.ndarray
    """(4, R): the same of distinct ones."""
    split: np.ndarray
    """(R,) uint64: equal where the same responses of a group contain the token."""


class _Rows(NamedTuple):
    """The distinct units of one kind in some groups."""

    code: np.ndarray
    group: np.ndarray
    counts: np.ndarray
    """(4, R): correct and incorrect responses with it, and the same of distinct ones."""
    split: np.ndarray


def find_units(frame: Frame, names: Sequence[str], ignored: Sequence[int] = ()) -> Units:
    """Count the units of these kinds in all mixed groups.

    Args:
        frame: the rollouts.
        names: of `SIZES`; single tokens are counted in any case.
        ignored: token ids that count nowhere.
    """
    kinds = ("token", *(name for name in names if name != "token"))
    counts_n = frame.mask_n & ~np.isnan(np.repeat(frame.correct_b, frame.lengths_b))
    if len(ignored):
        counts_n &= ~np.isin(frame.dump.token_ids, ignored)[frame.which_n]
    has_token_b = frame.sum_tokens(counts_n) > 0
    evidence_b = has_token_b & ~_repeated(frame, has_token_b)
    margins_kg = np.array([
        frame.sum_rollouts(rows_b & (frame.correct_b == verdict))
        for rows_b in (has_token_b, evidence_b)
        for verdict in (1, 0)
    ]).astype(np.int64)  # fmt: skip
    mixed_g = (margins_kg[0] > 0) & (margins_kg[1] > 0)
    counts_n &= np.repeat(mixed_g[frame.group_b], frame.lengths_b)
    row_kn = np.full((len(kinds), len(frame.which_n)), -1, dtype=np.int32)
    all_rows = [list[_Rows]() for _ in kinds]
    n_rows = [0] * len(kinds)
    for places in _chunks(frame, counts_n):
        rollout_n = np.searchsorted(frame.offsets_b, places, side="right") - 1
        for kind, name in enumerate(kinds):
            code_n = _codes(frame.which_n[places], rollout_n, SIZES[name])
            rows, row_n = _count(frame, code_n, rollout_n, evidence_b)
            row_kn[kind, places] = row_n + n_rows[kind]
            all_rows[kind].append(rows)
            n_rows[kind] += len(rows.group)
    tables = [_joined(rows) for rows in all_rows]
    return _tested(frame, kinds, tables, row_kn, margins_kg, mixed_g, set(names))


def _tested(
    frame: Frame,
    kinds: tuple[str, ...],
    tables: list[_Rows],
    row_kn: np.ndarray,
    margins_kg: np.ndarray,
    mixed_g: np.ndarray,
    names: set[str],
) -> Units:
    shown = [i for i, kind in enumerate(kinds) if kind in names] or [0]
    cells_k = [_cells(i, table, margins_kg) for i, table in enumerate(tables)]
    p_k = [p for _, _, p in cells_k]
    # One test for each way to split the responses of a group, whatever units do so.
    test_k = [_hash(tables[i].group, tables[i].split) for i in shown]
    _, first = np.unique(np.concatenate(test_k), return_index=True)
    p_t = np.concatenate([p_k[i] for i in shown])[first]
    group_t = np.concatenate([tables[i].group for i in shown])[first]
    bound = largest_discovery(p_t)
    best_p_g = np.ones(len(mixed_g))
    np.minimum.at(best_p_g, group_t, p_t)
    # The tables of all kinds in one list, each with whether it is beyond chance.
    cells, cell_un, begin = [], [], 0
    for place, i in enumerate(shown):
        distinct, of_row, _ = cells_k[i]
        distinct[:, 0] = place
        distinct[:, 6] = distinct[:, 5] <= bound
        row_n = row_kn[i]
        cell_un.append(np.where(row_n >= 0, np.append(of_row, 0)[row_n] + begin, -1))
        cells.append(distinct)
        begin += len(distinct)
    tokens = tables[0]
    n = margins_kg[:, tokens.group]
    return Units(
        tuple(kinds[i] for i in shown),
        np.concatenate(cells),
        np.array(cell_un, dtype=np.int32),
        len(p_t),
        bound,
        np.bincount(group_t[p_t <= bound], minlength=len(mixed_g)),
        best_p_g,
        mixed_g,
        row_kn[0],
        tokens.code.astype(np.int64),
        tokens.group,
        np.vstack([tokens.counts[:2], n[:2] - tokens.counts[:2]]),
        np.vstack([tokens.counts[2:], n[2:] - tokens.counts[2:]]),
        tokens.split,
    )  # fmt: skip


def largest_discovery(p: np.ndarray) -> float:
    """The largest of these p-values that a false discovery rate of `FDR` lets stand; 0: none."""
    n = n_discoveries(p, np.ones(len(p), dtype=np.int64), FDR)
    return float(np.sort(p)[n - 1]) if n else 0.0


def by_evidence(units: Units) -> np.ndarray:
    """(G,) the groups by most evidence: most that is beyond chance, then the smallest p."""
    order: np.ndarray = np.lexsort((units.best_p_g, -units.beyond_g, ~units.mixed_g))
    return order


def tokens_beyond_chance(units: Units, n_tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """(V,) p of each token over groups, and whether that is beyond chance among all tokens.

    Tokens that the same responses of the same groups contain are one test.
    """
    p_v = p_values(units.distinct, units.which, n_tokens)
    signature_v = np.zeros(n_tokens, dtype=np.uint64)
    np.add.at(signature_v, units.which, _hash(units.group, units.split))
    counted = np.unique(units.which)
    _, first = np.unique(signature_v[counted], return_index=True)
    return p_v, p_v <= largest_discovery(p_v[counted[first]])


def _repeated(frame: Frame, has_token_b: np.ndarray) -> np.ndarray:
    spans = map(frame.span, range(len(frame.lengths_b)))
    counted = [frame.which_n[span][frame.mask_n[span]] for span in spans]
    correct_b = np.where(has_token_b, frame.correct_b, np.nan)
    return repeats.repeated(frame.group_b, counted, correct_b)


def _chunks(frame: Frame, counts_n: np.ndarray) -> Iterator[np.ndarray]:
    """The places of tokens that count, some whole groups at a time."""
    ends_g = frame.offsets_b[frame.starts_g[1:]]
    begin = 0
    while begin < len(counts_n):
        last = int(np.searchsorted(ends_g, begin + TOKENS_AT_ONCE, side="right")) - 1
        end = int(ends_g[max(last, np.searchsorted(ends_g, begin, side="right"))])
        if len(places := begin + np.flatnonzero(counts_n[begin:end])):
            yield places
        begin = end


def _codes(which_n: np.ndarray, rollout_n: np.ndarray, size: int) -> np.ndarray:
    """(n,) uint64: the unit that ends at each token. Before a response's first is a mark."""
    if size == 1:
        return which_n.astype(np.uint64)
    columns = []
    for back in range(size):
        before_n = np.full(len(which_n), -1, dtype=np.int64)
        rest = len(which_n) - back
        same_n = rollout_n[back:] == rollout_n[:rest]
        before_n[back:] = np.where(same_n, which_n[:rest], -1)
        columns.append(before_n)
    return _hash(*columns)


def _count(
    frame: Frame, code_n: np.ndarray, rollout_n: np.ndarray, evidence_b: np.ndarray
) -> tuple[_Rows, np.ndarray]:
    """The distinct units of each group, and each token's place among them."""
    group_n = frame.group_b[rollout_n]
    _, first, row_n = np.unique(_hash(group_n, code_n), return_index=True, return_inverse=True)
    # Rows in the order of groups, so that what is said of a group stands together.
    order = np.argsort(group_n[first], kind="stable")
    row_n = np.argsort(order, kind="stable")[row_n]
    first = first[order]
    begin = int(rollout_n[0])
    width = int(rollout_n[-1]) - begin + 1
    row_p, rollout_p = np.divmod(np.unique(row_n * width + (rollout_n - begin)), width)
    rollout_p += begin
    correct_p, evidence_p = frame.correct_b[rollout_p] == 1, evidence_b[rollout_p]
    sides = (correct_p, ~correct_p, correct_p & evidence_p, ~correct_p & evidence_p)
    counts = np.array([np.bincount(row_p, side, len(first)) for side in sides], dtype=np.int64)
    marks_p = np.where(evidence_p, _hash(rollout_p), np.uint64(0))
    split = np.add.reduceat(marks_p, np.searchsorted(row_p, np.arange(len(first))))
    return _Rows(code_n[first], group_n[first], counts, split), row_n


def _joined(rows: list[_Rows]) -> _Rows:
    none = np.zeros(0, np.uint64)
    rows = rows or [_Rows(none, np.zeros(0, np.int64), np.zeros((4, 0), np.int64), none)]
    code, group, counts, split = zip(*rows, strict=True)
    return _Rows(
        np.concatenate(code), np.concatenate(group), np.hstack(counts), np.concatenate(split)
    )


def _cells(
    kind: int, rows: _Rows, margins_kg: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct tables of some rows as `CELL` has them, each row's among them, and its p."""
    n = margins_kg[:, rows.group]
    a, b, distinct_a, distinct_b = rows.counts
    columns = (a, n[0], b, n[1], distinct_a, n[2], distinct_b, n[3])
    _, first, of_row = np.unique(_hash(*columns), return_index=True, return_inverse=True)
    tables = np.array(columns)[:, first]
    a, n_a, b, n_b = tables[4:].tolist()
    p = np.array([fisher_p(*x, False) for x in zip(a, b, n_a, n_b, strict=True)])
    cells = np.zeros((len(first), len(CELL)))
    cells[:, 0], cells[:, 1:5], cells[:, 5] = kind, tables[:4].T, p
    return cells, of_row, p[of_row]


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
