"""What all compiled code shares: how it is compiled and kept, the formulas, and the arrays."""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
import numpy as np
from numba.core import caching
from typing_extensions import override

from ktae import statistics
from ktae.arrays import MAX_TOKEN_ID
from ktae.statistics import Margins

logger = logging.getLogger(__name__)

NO_ERROR = 2**62
"""In the row of a (row, column) of the first bad token id: there is none."""

_SOURCES = (
    *sorted(Path(__file__).parent.glob("*.py")),
    Path(__file__).parents[1] / "statistics.py",
)
_DIGEST = hashlib.sha256(b"\0".join(path.read_bytes() for path in _SOURCES)).hexdigest()
_warned = False


class _Cache(caching.FunctionCache):
    """numba's cache of a function, without which everything works as well, only later.

    numba compares the text of one file; this compares all that is compiled, and so never serves a
    kernel with an older `statistics.py` in it.
    """

    @override
    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), _DIGEST)

    @override
    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # whatever unpickling a damaged file stumbles over
            _warn(f"{self.cache_path} cannot be read ({type(error).__name__}: {error})")
            return None

    @override
    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:
            _warn(f"{self.cache_path} cannot be written ({type(error).__name__}: {error})")


def _warn(what: str) -> None:
    global _warned
    if not _warned:
        logger.warning(
            "the cache of compiled code %s; it is compiled in memory, which takes some seconds in "
            "each process. Set NUMBA_CACHE_DIR to a folder that can be written",
            what,
        )
    _warned = True


def jit(function: Callable[..., Any]) -> Any:
    """Compile a function that other compiled functions call."""
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(nogil=True, error_model="numpy", **options)(function)


def kept(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls, and keep it in numba's cache where that can be done."""
    dispatcher = numba.njit(nogil=True, error_model="numpy")(function)
    try:
        dispatcher._cache = _Cache(function)
    except (RuntimeError, OSError) as error:
        _warn(f"has no place ({error})")
    return dispatcher


# Compiled code calls compiled functions alone. So each gets the names of `ktae.statistics`, in
# which the functions are replaced by their compiled forms.
_names: dict[str, Any] = dict(vars(statistics))
for _name, _function in vars(statistics).items():
    if isinstance(_function, FunctionType) and _function.__module__ == statistics.__name__:
        _names[_name] = jit(FunctionType(_function.__code__, _names, _name))

association = _names["association"]
credit_of = _names["credit"]
direction_of = _names["direction"]
group_totals = _names["totals"]
fisher_p_value = kept(statistics.fisher_p_value)  # for Python, too


@kept
def associations(keys, formula):
    """(n, 2) strength and effect of keys that are (a, m, n, n_true, variance) each.

    Both are 0 where there is nothing to compare.
    """
    out = np.zeros((len(keys), 2))
    for i in range(len(keys)):
        a, m, n, n_true, variance = keys[i, 0], keys[i, 1], keys[i, 2], keys[i, 3], keys[i, 4]
        if variance > 0.0:
            margins = Margins(n, n_true, n - n_true, variance)
            out[i, 0], out[i, 1], _, _ = association(a, m, margins, formula, False)
    return out


@jit
def end_of(mask):
    """One past the last unmasked position of a rollout."""
    end = np.int32(0)
    for t in range(len(mask)):  # no branch, so that many positions are looked at in one step
        end = max(end, np.int32(t + 1 if mask[t] != 0 else 0))
    return end


@jit
def look_at_rows(all_ids, all_mask, places, rows, ends, tokens):
    """Fill in where each rollout ends and how many tokens it has; the place of the first bad id."""
    bad_row, bad_column = NO_ERROR, 0
    for i in range(len(rows)):
        ids, mask = all_ids[places[i]], all_mask[places[i]]
        # First only whether there is a bad one: without a branch the processor looks at many
        # positions in one step. Which one it is matters once, when all is over.
        ends[i], n, bad = end_of(mask), np.int32(0), False
        for t in range(ends[i]):
            n += np.int32(mask[t] != 0)
            bad |= (mask[t] != 0) & ((ids[t] < 0) | (ids[t] > MAX_TOKEN_ID))
        tokens[i] = n
        if bad and rows[i] < bad_row:
            bad_row = rows[i]
            for t in range(ends[i] - 1, -1, -1):
                if mask[t] != 0 and (ids[t] < 0 or ids[t] > MAX_TOKEN_ID):
                    bad_column = t
    return bad_row, bad_column


def plain(
    ids: np.ndarray, mask: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """These rows as compiled code takes them: ids of int32 or int64, a mask of one byte a position,
    the arrays themselves if they are so; and where in them each row lies."""
    fits = ids.dtype in (np.int32, np.int64) and mask.itemsize == 1
    if not (fits and all(x.flags.c_contiguous and x.flags.aligned for x in (ids, mask))):
        adjacent = len(rows) and np.all(np.diff(rows) == 1)
        part = slice(rows[0], rows[-1] + 1) if adjacent else rows  # a slice copies nothing
        ids, mask, rows = ids[part], np.not_equal(mask[part], 0, order="C"), np.arange(len(rows))
        dtype = ids.dtype if ids.dtype in (np.int32, np.int64) else np.int64
        ids = np.require(ids, dtype, ["C", "A"])
    ids, mask = ids.view(), mask.view(np.uint8)
    # numba would compile once more for arrays that can be written.
    ids.flags.writeable = mask.flags.writeable = False
    return ids, mask, rows


def in_threads(work: Callable[[slice], Any], bounds: Sequence[int]) -> list[Any]:
    """What `work` returns for each slice between two bounds, computed in Python's own threads.

    Compiled code releases the GIL; unlike numba's threads these work after a fork, too.
    """
    parts = [slice(*pair) for pair in itertools.pairwise(bounds)]
    # Not numba.get_num_threads(), which would start numba's own pool of threads.
    n_threads = min(len(parts), numba.config.NUMBA_NUM_THREADS)
    if n_threads < 2:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, parts))
