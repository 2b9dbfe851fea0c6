"""From the caller's arrays to one checked `Batch`: the only place where input is validated."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from ktae.config import LARGEST, KTAEConfig
from ktae.errors import InputError

UNKNOWN = -1

EQUAL = 1e-6
"""Graded scores that differ by less than this share of the largest are equal: trainers keep rewards
in single precision, and their sums round differently in another order."""


class Batch(NamedTuple):
    """Rollouts of many groups, checked. Only the token ids' range is left to the backends, which
    see every token anyway."""

    token_ids: np.ndarray
    """(B, T) integers."""
    mask: np.ndarray
    """(B, T); a position counts where it is not 0."""
    correct: np.ndarray
    """(B,) int8: 1 correct, 0 incorrect, -1 unknown. With `scores`: 0 known, -1 unknown."""
    scores: np.ndarray | None
    """(B,) float64 graded scores from 0 to 1, 0 where unknown: the caller's, or of a z-score, which
    does not mind, mapped to 0..1 in each group. None where every known one is 0 or 1, and `correct`
    says it all."""
    group_ids: np.ndarray
    """(n_groups,) the caller's distinct group labels, sorted."""
    rows: np.ndarray
    """(B,) row numbers, group by group."""
    starts: np.ndarray
    """(n_groups + 1,) where in `rows` each group begins."""


def make_batch(config: KTAEConfig, token_ids: Any, mask: Any, correct: Any, groups: Any) -> Batch:
    """Check the four arrays and sort out the groups.

    Raises:
        InputError: shapes or dtypes do not fit, or `correct` holds what the config does not allow.
    """
    token_ids, mask = as_array("token_ids", token_ids), as_array("mask", mask)
    check_tokens(token_ids, mask)
    n_rows = token_ids.shape[0]
    group_ids, group_of_row = np.unique(group_labels(groups, n_rows), return_inverse=True)
    starts = np.zeros(len(group_ids) + 1, dtype=np.int64)
    np.cumsum(np.bincount(group_of_row, minlength=len(group_ids)), out=starts[1:])
    rows = np.argsort(group_of_row, kind="stable").astype(np.int64, copy=False)
    verdicts, scores = correctness(correct, n_rows, config)
    if scores is not None and config.statistic == "z":
        counted_b = (verdicts != UNKNOWN) & np.any(mask, axis=1)
        low_g, high_g = np.full((2, len(group_ids)), [[np.inf], [-np.inf]])
        np.minimum.at(low_g, group_of_row[counted_b], scores[counted_b])
        np.maximum.at(high_g, group_of_row[counted_b], scores[counted_b])
        scores = from_0_to_1(scores, low_g[group_of_row], high_g[group_of_row], np)
        scores[~counted_b] = 0.0
    return Batch(token_ids, mask, verdicts, scores, group_ids, rows, starts)


def as_array(name: str, values: Any) -> np.ndarray:
    """`values` as an array, or an InputError that names it."""
    if isinstance(values, np.ma.MaskedArray):  # as an array it would lose what is masked
        raise InputError(
            f"{name} is a masked array; expected a plain one (correct.filled(np.nan): unknown)"
        )
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(f"{name} is ragged; expected rows of equal length") from None


def check_tokens(token_ids: Any, mask: Any) -> None:
    """Raise an InputError unless both, arrays or tensors, have a shape and dtype that fit."""
    if len(token_ids.shape) != 2 or kind(token_ids) not in "iu":
        raise InputError(f"token_ids is {describe(token_ids)}; expected integers of shape (B, T)")
    if kind(mask) not in "biuf":
        raise InputError(f"mask is {describe(mask)}; expected bool, integers or floats")
    if mask.shape != token_ids.shape:
        raise InputError(
            f"mask is {describe(mask)}; expected the shape of token_ids, {tuple(token_ids.shape)}"
        )


def check_per_rollout(name: str, array: Any, n_rows: int, kinds: str, expected: str) -> None:
    """Raise an InputError unless an array or tensor has shape (B,) and a dtype of these kinds."""
    if tuple(array.shape) != (n_rows,):
        raise InputError(
            f"{name} is {describe(array)}; expected shape ({n_rows},), one entry for each rollout"
        )
    if kind(array) not in kinds:
        raise InputError(f"{name} is {describe(array)}; expected {expected}")


def group_labels(groups: Any, n_rows: int) -> np.ndarray:
    """(B,) integers or strings."""
    array = as_array("groups", groups)
    if array.dtype.kind == "O" and all(isinstance(label, str) for label in array.flat):
        array = array.astype(str)
    check_per_rollout("groups", array, n_rows, "iuUS", "integers or strings")
    return array


def correctness(
    correct: Any, n_rows: int, config: KTAEConfig
) -> tuple[np.ndarray, np.ndarray | None]:
    """`Batch.correct` and `Batch.scores` of what the caller gave."""
    array = as_array("correct", correct)
    check_per_rollout("correct", array, n_rows, "biuf", "bool, or 0, 1 and NaN (unknown)")
    values = array.astype(np.float64)
    known = ~np.isnan(values)
    is_verdict = (values == 0) | (values == 1)
    allowed, expected = is_verdict, "0, 1 or NaN (unknown); other scores need a graded config"
    if config.graded:
        allowed = np.ones(n_rows, dtype=bool)
        allowed[out_of_range(values, config)] = False
        expected = f"a number {score_bounds(config)}, or NaN (unknown)"
    bad = np.flatnonzero(known & ~allowed)
    if bad.size:
        raise InputError(f"correct[{bad[0]}] is {array[bad[0]]}; expected {expected}")
    if np.all(is_verdict | ~known):
        return np.where(known, values, UNKNOWN).astype(np.int8), None
    return np.where(known, 0, UNKNOWN).astype(np.int8), np.where(known, values, 0.0)


def from_0_to_1(scores_b: Any, low_b: Any, high_b: Any, xp: Any) -> Any:
    """Scores by where they are between their group's lowest and highest.

    A z-score is the same for them, and no large or nearly equal numbers are left to lose digits.
    Groups whose scores differ by no more than rounding has left of them have 0 throughout. `xp` is
    NumPy or torch; empty groups have low = inf.
    """
    size_b = xp.maximum(abs(low_b), abs(high_b))
    differ_b = high_b - low_b > EQUAL * size_b  # false for empty groups: inf and NaN
    span_b = xp.where(differ_b, high_b - low_b, 1.0)
    return xp.where(differ_b, (scores_b - low_b) / span_b, 0.0)


def score_range(config: KTAEConfig) -> tuple[float, float]:
    """What graded scores may be: shares of a contingency table, or any number for a z-score."""
    return (-LARGEST, LARGEST) if config.statistic == "z" else (0.0, 1.0)


def score_bounds(config: KTAEConfig) -> str:
    """`score_range` in words."""
    return "from {:g} to {:g}".format(*score_range(config))


def out_of_range(scores: np.ndarray, config: KTAEConfig) -> np.ndarray:
    """The places of graded scores that the config does not take; NaN is none of them."""
    low, high = score_range(config)
    return np.flatnonzero((scores < low) | (scores > high))


def finite_per_rollout(name: str, values: Any, n_rows: int) -> np.ndarray:
    """(B,) float64, finite and far from float32's limit."""
    array = as_array(name, values)
    check_per_rollout(name, array, n_rows, "biuf", "numbers")
    numbers: np.ndarray = array.astype(np.float64)
    bad = np.flatnonzero(~(np.abs(numbers) <= LARGEST))
    if bad.size:
        raise InputError(
            f"{name}[{bad[0]}] is {numbers[bad[0]]}; expected a finite number within ±{LARGEST:g}"
        )
    return numbers


def bad_token_id(token_ids: Any, row: int, column: int) -> InputError:
    """The error for a token id outside [0, 2^31 - 1] at an unmasked position."""
    return InputError(
        f"token_ids[{row}, {column}] is {token_ids[row, column]}; "
        "expected 0 to 2^31 - 1 at every unmasked position"
    )


def kind(array: Any) -> str:
    """NumPy's letter for the kind of an array's or a tensor's dtype."""
    if isinstance(array, np.ndarray):
        return str(array.dtype.kind)
    if array.dtype.is_floating_point or array.dtype.is_complex:
        return "f" if array.dtype.is_floating_point else "c"
    return "b" if str(array.dtype) == "torch.bool" else "i"


def describe(array: Any) -> str:
    """Dtype and shape of an array or a tensor, for messages."""
    return f"{array.dtype} of shape {tuple(array.shape)}"


def is_tensor(array: Any) -> bool:
    """Whether it is a torch tensor."""
    torch = sys.modules.get("torch")  # whoever has a tensor has imported torch
    return torch is not None and isinstance(array, torch.Tensor)


def on_host(array: Any) -> Any:
    """A torch tensor as a NumPy array (without a copy on the CPU); everything else as it is."""
    if not is_tensor(array):
        return array
    tensor = array.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":  # NumPy has none
        tensor = tensor.float()
    return tensor.numpy()
