"""Counts of arrays: one hash table a group, compiled by numba, in threads over groups."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numba
import numpy as np

from ktae.arrays import Array
from ktae.batch import Batch, group_bounds
from ktae.counting import Counts, Totals, kernels
from ktae.counting.units import NGRAMS

CHUNK_POSITIONS = 1 << 19
"""Padded positions that are counted at a time; a group that is larger is counted whole."""

MAX_MEMO = 1 << 26
"""Pairs of counts of a group whose rows are remembered, at most."""


class Layout(NamedTuple):
    """A batch's tokens as compiled code takes them."""

    ids: np.ndarray
    mask: np.ndarray
    ends: np.ndarray  # (B,) one past the last token that counts
    lengths: np.ndarray  # (B,) how many tokens count
    begins: np.ndarray  # (B,) where among the N tokens each response's begin


def credit(batch: Batch, function: Callable[..., Array], units: Sequence[str]) -> np.ndarray:
    """(B, T) float32 credit, as `ktae.counting.credit` has it."""
    out = np.zeros(batch.token_ids.shape, dtype=np.float32)
    rows, starts = batch.by_group()
    bounds = starts[group_bounds(starts, CHUNK_POSITIONS // max(1, out.shape[1]))].tolist()

    def fill(part: slice) -> None:
        members: Any = rows[part]
        if np.all(np.diff(members) == 1):  # a slice copies nothing
            members = slice(members[0], members[-1] + 1)
        chunk = batch._replace(
            token_ids=batch.token_ids[members],
            mask=batch.mask[members],
            evidence=batch.evidence[members],
            group_b=np.unique(batch.group_b[members], return_inverse=True)[1],
        )
        layout = _layout(chunk, batch)
        with np.errstate(all="ignore"):
            values = function(*(count(chunk, unit, layout=layout) for unit in units))
        credit_bt = out[members]  # a view, if it is a slice
        values = np.ascontiguousarray(values, dtype=np.float32)
        kernels.spread(values, layout.mask, layout.ends, layout.begins, credit_bt)
        if not isinstance(members, slice):
            out[members] = credit_bt

    parts = [slice(*pair) for pair in itertools.pairwise(bounds)]
    # Python's own threads, which work after a fork, too. numba's do not, and to ask it by
    # numba.get_num_threads() would start them.
    n_threads = min(len(parts), numba.config.NUMBA_NUM_THREADS)
    if n_threads < 2:
        list(map(fill, parts))
        return out
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(fill, parts))
    return out


def _layout(batch: Batch, whole: Batch) -> Layout:
    """The layout of a part of the whole batch, in which the first bad token id is looked for."""
    mask = batch.counted() if batch.ignored else batch.mask
    mask = mask if mask.itemsize == 1 else np.not_equal(mask, 0)
    mask = np.require(mask, None, ["C", "A"]).view(np.uint8)
    dtype = batch.token_ids.dtype if batch.token_ids.dtype in (np.int32, np.int64) else np.int64
    ids = np.require(batch.token_ids, dtype, ["C", "A"]).view()
    # numba would compile once more for arrays that can be written.
    ids.flags.writeable = mask.flags.writeable = False
    ends, lengths = np.zeros((2, len(ids)), dtype=np.int64)
    if not kernels.measure(ids, mask, ends, lengths):
        whole.check_token_ids()
    return Layout(ids, mask, ends, lengths, np.cumsum(lengths) - lengths)


def count(
    batch: Batch, unit: str = "token", *, by_unit: bool = False, layout: Layout | None = None
) -> Counts:
    """The counts of a batch, as `ktae.counting.count` has it."""
    layout = layout or _layout(batch, batch)
    rows, starts = batch.by_group()
    n_tokens, largest = int(layout.lengths.sum()), int(np.diff(starts).max(initial=0))
    n_of_group = np.add.reduceat(np.append(layout.lengths[rows], 0), starts[:-1])
    n_keys, half = int(n_of_group.max(initial=0)) + 1, largest // 2 + 1
    table = (
        np.zeros(1 << max(4, (4 * n_keys).bit_length()), dtype=np.uint64),
        np.zeros(n_keys, dtype=np.uint64),
        np.zeros(2 * n_keys, dtype=np.int64),
    )
    index = np.zeros(n_tokens, dtype=np.int64)
    totals = np.zeros((max(1, len(starts) - 1), len(Totals._fields)))
    # Most of this is never touched. Row 0 is that of no unit.
    keys, groups = np.empty((2, n_tokens + 1), dtype=np.int64)
    numbers = np.empty((4, len(keys)))
    keys[0], groups[0], numbers[:, 0] = -1, 0, 0.0
    n_rows = kernels.count_groups(
        tuple(layout),
        (rows, starts, batch.evidence),
        NGRAMS.index(unit) + 1,
        (batch.look_up_unknown, not by_unit),
        table,
        np.zeros((n_keys if batch.graded else 0, 2)),
        np.zeros(min(MAX_MEMO, (half + 1) ** 2), dtype=np.int32),
        np.zeros(n_keys, dtype=np.int32),
        (index, totals, (keys, groups, numbers)),
    )
    columns: Any = [groups[:n_rows], *numbers[:, :n_rows]]
    if by_unit:  # rows by group and key, behind that of no unit, whose key is -1
        order = np.lexsort((keys[:n_rows], np.where(keys[:n_rows] < 0, -1, groups[:n_rows])))
        columns = [column[order] for column in (*columns, keys)]
        index = np.argsort(order)[index]
    return Counts(index, Totals(*totals.T), layout.lengths, *columns)
