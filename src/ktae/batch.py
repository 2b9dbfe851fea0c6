"""From the caller's arrays to one checked `Batch`: the only place where input is validated."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ktae.errors import InputError

UNKNOWN = -1


class Batch(NamedTuple):
    """Rollouts of many groups, checked. Only the token ids' range is left to the backends, which
    see every token anyway."""

    token_ids: np.ndarray
    """(B, T) integers."""
    mask: np.ndarray
    """(B, T); a position counts where it is not 0."""
    correct: np.ndarray
    """(B,) int8: 1 correct, 0 incorrect, -1 unknown."""
    group_ids: np.ndarray
    """(n_groups,) the caller's distinct group labels, sorted."""
    rows: np.ndarray
    """(B,) row numbers, group by group."""
    starts: np.ndarray
    """(n_groups + 1,) where in `rows` each group begins."""


def make_batch(token_ids: Any, mask: Any, correct: Any, groups: Any) -> Batch:
    """Check the four arrays and sort out the groups.

    Raises:
        InputError: shapes or dtypes do not fit, or `correct` holds something but 0, 1 and NaN.
    """
    token_ids = np.asarray(token_ids)
    mask = np.asarray(mask)
    if token_ids.ndim != 2 or token_ids.dtype.kind not in "iu":
        raise InputError(f"token_ids is {describe(token_ids)}; expected integers of shape (B, T)")
    if mask.dtype.kind not in "biuf":
        raise InputError(f"mask is {describe(mask)}; expected bool, integers or floats")
    if mask.shape != token_ids.shape:
        raise InputError(
            f"mask is {describe(mask)}; expected the shape of token_ids, {token_ids.shape}"
        )
    n_rows = token_ids.shape[0]
    groups = per_rollout("groups", groups, n_rows)
    if groups.dtype.kind not in "iuUS":
        raise InputError(f"groups is {describe(groups)}; expected integers or strings")
    group_ids, group_of_row = np.unique(groups, return_inverse=True)
    starts = np.zeros(len(group_ids) + 1, dtype=np.int64)
    np.cumsum(np.bincount(group_of_row, minlength=len(group_ids)), out=starts[1:])
    rows = np.argsort(group_of_row, kind="stable").astype(np.int64, copy=False)
    return Batch(token_ids, mask, _correctness(correct, n_rows), group_ids, rows, starts)


def per_rollout(name: str, values: Any, n_rows: int) -> Any:
    """`values` as an array (or the tensor it is) of shape (B,), or an InputError that names it."""
    array = values if hasattr(values, "is_cuda") else np.asarray(values)
    if tuple(array.shape) != (n_rows,):
        raise InputError(
            f"{name} is {describe(array)}; expected shape ({n_rows},), one entry for each rollout"
        )
    return array


def finite_per_rollout(name: str, values: Any, n_rows: int) -> np.ndarray:
    """`values` as finite float64 of shape (B,), or an InputError that names the first bad row."""
    array = per_rollout(name, values, n_rows)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} is {describe(array)}; expected numbers")
    numbers: np.ndarray = array.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        raise InputError(f"{name}[{bad[0]}] is {numbers[bad[0]]}; expected a finite number")
    return numbers


def bad_token_id(batch: Batch, row: int, column: int) -> InputError:
    """The error for a token id outside [0, 2^31 - 1] at an unmasked position."""
    return InputError(
        f"token_ids[{row}, {column}] is {batch.token_ids[row, column]}; "
        "expected 0 to 2^31 - 1 at every unmasked position"
    )


def _correctness(correct: Any, n_rows: int) -> np.ndarray:
    array = per_rollout("correct", correct, n_rows)
    if array.dtype.kind not in "biuf":
        raise InputError(f"correct is {describe(array)}; expected bool, or 0, 1 and NaN (unknown)")
    unknown = np.isnan(array) if array.dtype.kind == "f" else np.zeros(n_rows, dtype=bool)
    bad = np.flatnonzero(~unknown & (array != 0) & (array != 1))
    if bad.size:
        raise InputError(f"correct[{bad[0]}] is {array[bad[0]]}; expected 0, 1 or NaN (unknown)")
    result = np.full(n_rows, UNKNOWN, dtype=np.int8)
    result[~unknown] = array[~unknown] != 0
    return result


def describe(array: Any) -> str:
    """Dtype and shape of an array or a tensor, for messages."""
    return f"{array.dtype} of shape {tuple(array.shape)}"
