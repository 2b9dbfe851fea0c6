"""The CPU backend: one hash table a group, compiled by numba, threads over chunks of groups.

Each group takes three passes, all linear in its tokens: count (every token finds its key's index in
the hash table, and the index is written down), compute (each used index gets its credit) and spread
(each token gets that of its index). Threads are Python's own, since the compiled
code releases the GIL: safe to call from any thread and across forks, unlike numba's thread pools.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from ktae.arrays import MAX_TOKEN_ID
from ktae.backends import _cpu_kernels as kernels
from ktae.backends import _cpu_statistics as statistics
from ktae.backends._cpu_kernels import score_groups, tabulate_group
from ktae.backends._cpu_workspace import GROWTH_BITS, INITIAL_BITS, Workspace, workspace
from ktae.backends.table import CreditTable
from ktae.backends.unit_kernels import NO_ERROR
from ktae.batch import Batch, bad_token_id
from ktae.statistics import Formula

POSITIONS_PER_CHUNK = 1 << 20
"""Padded positions that a thread takes at a time: enough to keep it busy for milliseconds, few
enough that converting a chunk's dtype stays within a few megabytes."""


class Chunk(NamedTuple):
    """Some consecutive groups of a batch, as the kernels take them."""

    ids: np.ndarray
    mask: np.ndarray
    id_rows: np.ndarray
    """(n,) where in `ids` each of the chunk's rollouts lies."""
    mask_rows: np.ndarray
    """(n,) where in `mask`."""
    rows: np.ndarray
    """(n,) where in the batch and the output."""
    starts: np.ndarray
    """(n_groups + 1,) bounds of the groups within the n rollouts."""
    correct: np.ndarray
    """(n,)"""
    scores: np.ndarray | None
    """(n,)"""


def credit(batch: Batch, formula: Formula, sizes: tuple[int, ...] = (1,)) -> np.ndarray:
    """(B, T) float32: each unmasked token's credit plus its rollout's base.

    `sizes` are those of the n-grams whose credit is added up, each rounded by itself: 1 for the
    token, 2 for its bigram, 3 for its trigram.
    """
    out = np.zeros(batch.token_ids.shape, dtype=np.float32)
    ignored, sizes_u = ignored_ids(batch), np.array(sizes, dtype=np.int64)
    with_cells = max(sizes) > 1
    spaces: list[Workspace] = []  # a thread takes one and lays it back

    def score(groups: slice) -> tuple[int, int]:
        if _is_large(batch, groups) and _must_convert(batch):
            return _score_in_slices(batch, groups, formula, ignored, sizes, out)
        chunk, done = chunk_of(batch, groups), 0
        try:
            space = spaces.pop()
        except IndexError:
            space = _workspace(batch, INITIAL_BITS, with_cells)
        while True:
            row, column, done = score_groups(
                *chunk, ignored, batch.look_up_unknown, formula, sizes_u, batch.base, done, space,
                out,
            )  # fmt: skip
            if row != NO_ERROR or done == (groups.stop - groups.start) * len(sizes):
                break
            space = _workspace(batch, space.bits + GROWTH_BITS, with_cells)
        spaces.append(space)
        return row, column

    in_threads(batch, score)
    return out


def _workspace(batch: Batch, bits: int, with_cells: bool) -> Workspace:
    largest = int(np.diff(batch.starts).max(initial=0))
    graded, width = batch.scores is not None, batch.token_ids.shape[1]
    return workspace(len(batch.group_ids), largest, width, bits, graded, with_cells)


def in_threads(batch: Batch, score: Callable[[slice], tuple[int, int]]) -> None:
    """Call `score` on consecutive groups of the batch, so that all are scored.

    Raises:
        InputError: for the first (row, column) of a bad token id that it gave.
    """
    import numba  # not before something is computed

    chunks = list(_chunks(batch))
    # Not numba.get_num_threads(), which would start numba's own pool of threads.
    n_threads = numba.config.NUMBA_NUM_THREADS
    if len(chunks) > 1 and n_threads > 1:
        with ThreadPoolExecutor(n_threads) as pool:
            errors = list(pool.map(score, chunks))
    else:
        errors = [score(chunk) for chunk in chunks]
    _raise_first(batch, errors)


def table(batch: Batch, formula: Formula) -> CreditTable:
    """The credit table of the whole batch."""
    ignored = ignored_ids(batch)
    ids, found = [np.empty(0, dtype=np.int64)], [np.empty((0, 12))]
    sizes, errors = [], []
    for group in range(len(batch.group_ids)):
        chunk = chunk_of(batch, slice(group, group + 1))
        bits, fits = INITIAL_BITS, False
        while not fits:
            space = _workspace(batch, bits, with_cells=False)
            token_ids, n_by_12, error, fits = tabulate_group(
                *chunk[:5], chunk.correct, chunk.scores, ignored, formula, space
            )
            bits = space.bits + GROWTH_BITS
        order = np.argsort(token_ids)
        ids.append(token_ids[order])
        found.append(n_by_12[order])
        sizes.append(len(order))
        errors.append(error)
    _raise_first(batch, errors)
    labels = np.repeat(batch.group_ids, sizes)
    columns = np.concatenate(found).T
    cells = columns[:4] if batch.scores is not None else columns[:4].astype(np.int64)
    return CreditTable(labels, np.concatenate(ids), *cells, *columns[4:])


def fisher_p_values(a: np.ndarray, b: np.ndarray, n_true: int, n_false: int) -> np.ndarray:
    """(n,) two-sided p-values of Fisher's test of [[a, b], [n_true - a, n_false - b]].

    Args:
        a: (n,) counts.
        b: (n,) counts.
        n_true: correct rollouts of the group.
        n_false: incorrect ones.
    """
    cells = (np.ascontiguousarray(x, dtype=np.float64) for x in (a, b))
    p: np.ndarray = statistics.fisher_p_values(*cells, float(n_true), float(n_false))
    return p


def _score_in_slices(
    batch: Batch,
    groups: slice,
    formula: Formula,
    ignored: np.ndarray,
    sizes: tuple[int, ...],
    out: np.ndarray,
) -> tuple[int, int]:
    """What `score_groups` does, for groups too large to be converted at once: slice by slice."""
    first = NO_ERROR, 0
    for group in range(groups.start, groups.stop):
        rows = batch.rows[batch.starts[group] : batch.starts[group + 1]]
        verdicts = batch.correct[rows]
        scores = None if batch.scores is None else batch.scores[rows]
        if scores is None and not (np.any(verdicts == 0) and np.any(verdicts == 1)):
            verdicts = np.full_like(verdicts, -1)  # nothing to compare: only check the token ids
        tokens = np.empty(len(rows), dtype=np.int64)
        for unit, size in enumerate(sizes):
            counts = _count_slices(batch, rows, verdicts, scores, ignored, size, tokens)
            if counts.bad_row != NO_ERROR:
                first = min(first, (counts.bad_row, counts.bad_column))
                break
            totals = statistics.group_totals(tokens, verdicts, scores)
            statistics.fill_credit(counts.n_used, totals, counts.space, formula, scores)
            for part, chunk, bounds, lengths, keys, _ in _slices(batch, rows, size):
                kernels.spread_keys(
                    chunk.mask, chunk.mask_rows, chunk.rows, verdicts[part], batch.look_up_unknown,
                    False, np.uint64(1), counts.space, batch.base, unit > 0, lengths, bounds, keys,
                    out,
                )  # fmt: skip
    return first


class SliceCounts(NamedTuple):
    """How counting a group slice by slice ended."""

    n_used: int
    space: Workspace
    bad_row: int
    bad_column: int


def _count_slices(
    batch: Batch,
    rows: np.ndarray,
    verdicts: np.ndarray,
    scores: np.ndarray | None,
    ignored: np.ndarray,
    size: int,
    tokens: np.ndarray,
) -> SliceCounts:
    """Count one group, slice by slice, in a table that is large enough for it."""
    bits = INITIAL_BITS
    while True:
        space = _workspace(batch, bits, with_cells=False)
        n_used = statistics.IGNORED + 1
        for part, _, bounds, _, keys, error in _slices(batch, rows, size):
            if error[0] != NO_ERROR:
                return SliceCounts(n_used, space, *error)
            n_used = kernels.count_keys(
                keys, bounds, part.start, verdicts[part], None if scores is None else scores[part],
                ignored, np.uint64(1), space, n_used, tokens[part],
            )  # fmt: skip
            if n_used == kernels.TOO_SMALL:
                break
        if n_used != kernels.TOO_SMALL:
            return SliceCounts(n_used, space, NO_ERROR, 0)
        bits = space.bits + GROWTH_BITS


class Slice(NamedTuple):
    """Some of a group's rollouts, and the keys of their n-grams."""

    part: slice
    chunk: Chunk
    bounds: np.ndarray
    lengths: np.ndarray
    keys: np.ndarray
    error: tuple[int, int]
    """See `_cpu_kernels.read_keys`, which fills the last four."""


def _slices(batch: Batch, rows: np.ndarray, size: int) -> Iterator[Slice]:
    width = batch.token_ids.shape[1]
    rows_at_once = max(1, POSITIONS_PER_CHUNK // max(1, width))
    for start in range(0, len(rows), rows_at_once):
        part = slice(start, start + rows_at_once)
        chunk = _convert(batch, rows[part], np.empty(0))
        lengths, bounds = (np.empty(len(chunk.rows) + n, dtype=np.int64) for n in (0, 1))
        keys = np.empty(len(chunk.rows) * width, dtype=np.int32)
        error = kernels.read_keys(*chunk[:5], size, lengths, bounds, keys)
        yield Slice(part, chunk, bounds, lengths, keys, error)


def ignored_ids(batch: Batch) -> np.ndarray:
    """The ignored token ids as the kernels take them."""
    return np.array(batch.ignored, dtype=np.int64)


def _raise_first(batch: Batch, errors: list[tuple[int, int]]) -> None:
    first = min(errors, default=(NO_ERROR, 0))
    if first[0] != NO_ERROR:
        raise bad_token_id(batch.token_ids, *first)


def _chunks(batch: Batch) -> Iterator[slice]:
    """Consecutive groups of about POSITIONS_PER_CHUNK padded positions."""
    n_groups, n_rows = len(batch.group_ids), len(batch.rows)
    rows_per_chunk = max(1, POSITIONS_PER_CHUNK // max(1, batch.token_ids.shape[1]))
    n_chunks = min(n_groups, math.ceil(n_rows / rows_per_chunk))
    targets = np.linspace(0, n_rows, n_chunks + 1)[:-1] if n_chunks else np.empty(0)
    bounds = np.unique(np.append(np.searchsorted(batch.starts[:-1], targets), n_groups))
    for start, stop in itertools.pairwise(bounds.tolist()):
        yield slice(start, stop)


def chunk_of(batch: Batch, groups: slice) -> Chunk:
    """The rows of some consecutive groups in the form that the kernels are compiled for."""
    starts = batch.starts[groups.start : groups.stop + 1]
    return _convert(batch, batch.rows[starts[0] : starts[-1]], starts - starts[0])


def _convert(batch: Batch, rows: np.ndarray, starts: np.ndarray) -> Chunk:
    """These rows as contiguous int32 or int64 ids with a one-byte mask.

    Arrays of that form are used where they lie; of others only these rows are converted, so
    nothing is copied whole.
    """
    # A run of rows is taken as a view; anything else as a copy.
    selection = slice(rows[0], rows[-1] + 1) if np.all(np.diff(rows) == 1) else rows
    ids, mask, id_rows, mask_rows = batch.token_ids, batch.mask, rows, rows
    if not _fitting_ids(ids):
        ids, id_rows = _as_int64(ids[selection]), np.arange(len(rows))
    if not _fitting_mask(mask):
        mask, mask_rows = np.not_equal(mask[selection], 0, order="C"), np.arange(len(rows))
    # All read-only: numba would compile the kernels once more for arrays of the other kind.
    ids, mask = ids.view(), mask.view(np.uint8)
    ids.flags.writeable = mask.flags.writeable = False
    scores = None if batch.scores is None else batch.scores[rows]
    return Chunk(ids, mask, id_rows, mask_rows, rows, starts, batch.correct[rows], scores)


def _fitting_ids(ids: np.ndarray) -> bool:
    known = ids.dtype in (np.int32, np.int64)
    return known and ids.flags.c_contiguous and ids.flags.aligned


def _fitting_mask(mask: np.ndarray) -> bool:
    # The kernels look at eight bytes at a time.
    return mask.flags.c_contiguous and mask.itemsize == 1 and mask.ctypes.data % 8 == 0


def _must_convert(batch: Batch) -> bool:
    return not (_fitting_ids(batch.token_ids) and _fitting_mask(batch.mask))


def _is_large(batch: Batch, groups: slice) -> bool:
    """Whether converting all rows of these groups at once would take more than a chunk should."""
    n_rows = batch.starts[groups.stop] - batch.starts[groups.start]
    return bool(n_rows * batch.token_ids.shape[1] > 2 * POSITIONS_PER_CHUNK)


def _as_int64(ids: np.ndarray) -> np.ndarray:
    if ids.dtype == np.uint64:  # would wrap to a negative number, which the error would then name
        ids = np.minimum(ids, np.uint64(MAX_TOKEN_ID + 1))
    return np.ascontiguousarray(ids, dtype=np.int64)
