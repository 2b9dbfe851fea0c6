"""Keys of larger units: by compiled loops for arrays, by whole-array operations for tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from ktae.arrays import MAX_TOKEN_ID
from ktae.backends import unit_kernels
from ktae.backends._kernel import interpreted
from ktae.batch import bad_token_id

if TYPE_CHECKING:
    import torch

    from ktae.batch import Vocabulary

POSITION_BUCKET = 8
"""Tokens in a bucket of the unit `position`."""

POSITIONS_PER_CHUNK = 1 << 20
"""Padded positions that a thread takes at a time."""

NGRAMS = {"token": 1, "bigram": 2, "trigram": 3}
"""How many tokens these units are of."""


def array_keys(
    unit: str,
    ids_bt: np.ndarray,
    mask_bt: np.ndarray,
    vocabulary: Vocabulary | None,
    *,
    compiled: bool,
) -> np.ndarray:
    """(B, T) int32 keys of a unit larger than a token, of arrays; 0 where masked.

    The compiled loops, over some rows at a time, in threads as the CPU backend does; or for few
    tokens, with equal results, whole-array operations and loops that are interpreted.
    `ktae.estimators.unit_keys` says what the keys are; `vocabulary` is for units of text.

    Raises:
        InputError: an id is out of range at an unmasked position.
    """
    if not compiled and (unit == "position" or unit in NGRAMS):
        return _keys_at_once(unit, ids_bt, mask_bt)
    kernel = _kernel(unit, vocabulary, compiled=compiled)
    keys = np.zeros(ids_bt.shape, dtype=np.int32)

    def fill(rows: slice) -> tuple[int, int]:
        row, column = kernel(*_plain(ids_bt[rows], mask_bt[rows]), keys[rows])
        return row + rows.start, column

    n_rows, width = ids_bt.shape
    step = max(1, POSITIONS_PER_CHUNK // max(1, width))
    bounds = [*range(0, n_rows, step), n_rows]
    chunks = [slice(*pair) for pair in itertools.pairwise(bounds)]
    n_threads = _n_threads() if compiled and len(chunks) > 1 else 1
    if n_threads > 1:
        with ThreadPoolExecutor(n_threads) as pool:
            errors = list(pool.map(fill, chunks))
    else:
        with np.errstate(over="ignore"):  # of loops that are interpreted
            errors = [fill(chunk) for chunk in chunks]
    row, column = min(errors, default=(n_rows, 0))
    if row < n_rows:
        raise bad_token_id(ids_bt, row, column)
    return keys


def _n_threads() -> int:
    import numba

    return int(numba.config.NUMBA_NUM_THREADS)  # not get_num_threads(), which starts numba's pool


def _keys_at_once(unit: str, ids_bt: np.ndarray, mask_bt: np.ndarray) -> np.ndarray:
    """`array_keys` of ids alone, by operations on all unmasked positions at once."""
    rows, columns = np.nonzero(mask_bt)
    ids = ids_bt[rows, columns]
    bad = np.flatnonzero((ids < 0) | (ids > MAX_TOKEN_ID))
    if bad.size:
        raise bad_token_id(ids_bt, int(rows[bad[0]]), int(columns[bad[0]]))
    ids = ids.astype(np.int64)
    places = np.arange(len(rows)) - np.searchsorted(rows, rows)  # within the rollout
    parts = [places // POSITION_BUCKET, ids]
    if unit in NGRAMS:
        earlier = range(NGRAMS[unit] - 1, -1, -1)
        parts = [np.where(places < back, -1, np.roll(ids, back)) for back in earlier]
    state = np.zeros(len(ids), dtype=np.uint64)
    for part in parts:
        state = unit_kernels.mix.py_func(state, part)
    keys = np.zeros(ids_bt.shape, dtype=np.int32)
    keys[rows, columns] = unit_kernels.finish.py_func(state)
    return keys


def _kernel(
    unit: str, vocabulary: Vocabulary | None, *, compiled: bool
) -> Callable[..., tuple[int, int]]:
    kernels: Any = unit_kernels if compiled else interpreted(unit_kernels)
    if unit == "position":
        return lambda ids, mask, out: kernels.position_rows(ids, mask, POSITION_BUCKET, out)
    if unit in NGRAMS:
        n = NGRAMS[unit]
        return lambda ids, mask, out: kernels.ngram_rows(ids, mask, n, out)
    assert vocabulary is not None
    breaks = {"word": kernels.WORD_BREAKS, "line": 1, "step": 2}[unit]
    return lambda ids, mask, out: kernels.text_rows(ids, mask, *vocabulary, breaks, out)


def _plain(ids: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Contiguous int32 or int64 ids and a mask of bytes, aligned to 8, without a copy if they are
    so already; read-only, since numba would compile once more for arrays of the other kind."""
    if ids.dtype not in (np.int32, np.int64):
        if ids.dtype == np.uint64:  # would wrap
            ids = np.minimum(ids, np.uint64(MAX_TOKEN_ID + 1))
        ids = ids.astype(np.int64)
    ids = np.require(ids, requirements=("C", "A")).view()
    if mask.itemsize != 1 or not mask.flags.c_contiguous or mask.ctypes.data % 8:
        mask = np.not_equal(mask, 0, order="C")
    mask = mask.view(np.uint8)
    ids.flags.writeable = mask.flags.writeable = False
    return ids, mask


def tensor_keys(unit: str, ids_bt: torch.Tensor, mask_bt: torch.Tensor) -> torch.Tensor:
    """(B, T) int32 keys of `bigram`, `trigram` or `position`, on the device of the tensors.

    What `ktae.estimators.unit_keys` computes for tensors in a GPU's memory: the same numbers as the
    compiled loops, by whole-array operations that the host need not wait for. `mask_bt` is bool.
    """
    import torch

    ids_bt = torch.where(mask_bt, ids_bt.long(), 0)  # torch computes with no unsigned ones
    nothing = torch.full_like(ids_bt[:, :1], -1)
    if unit == "position":
        bucket = (mask_bt.long().cumsum(1) - 1).div(POSITION_BUCKET, rounding_mode="floor")
        state = _mix(_mix(torch.zeros_like(ids_bt), bucket), ids_bt)
    else:
        # Where the last unmasked position before each one is, from 1; 0: there is none.
        columns = torch.arange(1, ids_bt.shape[1] + 1, device=ids_bt.device)
        latest = torch.where(mask_bt, columns, 0).cummax(1).values
        before = torch.cat([nothing + 1, latest], dim=1)  # one column longer, for place 0
        tokens = torch.cat([nothing, ids_bt], dim=1)
        places, state = before[:, :-1], torch.zeros_like(ids_bt)
        previous = [tokens.gather(1, places)]
        if unit == "trigram":
            # Entry p of `before` belongs to column p, whose place is p + 1.
            earlier = before.gather(1, (places - 1).clamp(min=0)) * (places > 0)
            previous.insert(0, tokens.gather(1, earlier))
        for tokens_before in [*previous, ids_bt]:
            state = _mix(state, tokens_before)
    return torch.where(mask_bt, _finish(state), 0).int()


def _mix(state: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
    state = (state ^ (number + 1)) * _signed(unit_kernels.MIX)
    return state ^ (state >> 32 & 0xFFFFFFFF)  # torch's shift keeps the sign


def _finish(state: torch.Tensor) -> torch.Tensor:
    return (state * _signed(unit_kernels.FINISH)) >> 33 & MAX_TOKEN_ID


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number
