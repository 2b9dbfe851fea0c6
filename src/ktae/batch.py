"""From the caller's arrays to one checked `Batch`.

What is validated here is validated nowhere else but in the functions of arrays that users may call
by themselves: `unit_keys` and `ktae.estimators.controls`, whose transforms call them as well.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ktae.arrays import LARGEST, MAX_TOKEN_ID, Array, ArrayLike, as_array, describe, kind
from ktae.errors import InputError

UNKNOWN = -1

CHECKED_AT_ONCE = 1 << 20
"""Positions that are looked at in one go: some ten megabytes of extra memory."""

EQUAL = 1e-6
"""Graded scores that differ by less than this share of the largest are equal: trainers keep rewards
in single precision, and their sums round differently in another order."""

ScoreRange = tuple[float, float] | None
"""The least and the greatest graded score that an estimator takes; None: it takes verdicts."""


class Vocabulary(NamedTuple):
    """The texts of a tokenizer's V tokens, as tables that a compiled loop reads by token id.

    V + 1 entries: one for each token id from 0, and a last one for every id above."""

    looks: np.ndarray
    """(V + 1,) uint8: see `ktae.backends.unit_kernels`."""
    hashes: np.ndarray
    """(V + 1, 2) uint64: the hash of the token's text without blanks, and what another hash is
    multiplied by when that text is appended to its own."""


class Context(NamedTuple):
    """What an estimator may use beside the rollouts."""

    contingency: Callable[..., Array]
    """Computes the credit of a batch by the statistics of its contingency tables, on the chosen
    backend: of (batch, `ktae.statistics.Formula`), and see `ngrams`."""
    vocabulary: Vocabulary | None = None
    """The texts of the token ids, for units that are made of text."""
    step: int | None = None
    """Training steps done before these rollouts were sampled; None outside of a training."""
    compiled: bool = True
    """Whether the keys of units and the credit that follows the order of tokens
    (`ktae.backends.units`, `.sequences`) are computed by compiled loops."""
    ngrams: bool = False
    """Whether `contingency` takes a third argument: sizes of n-grams, whose credit it adds up."""
    policy: Mapping[str, np.ndarray] = MappingProxyType({})
    """What is known of the policy that sampled: `log_probs` and `entropies`, (B, T)."""


class Batch(NamedTuple):
    """Rollouts of many groups in the host's memory, checked. Only the token ids' range is left to
    the backends, which see every token anyway.

    `ktae.backends.tensors.Tensors` is the same on a device. Wrappers of estimators use what both
    have: the fields of these names, `group_b`, `counted` and `_replace`.
    """

    token_ids: np.ndarray
    """(B, T) integers."""
    mask: np.ndarray
    """(B, T); a position counts where it is not 0."""
    correct: np.ndarray
    """(B,) int8: 1 correct, 0 incorrect, -1 unknown. With `scores`: 0 known, -1 unknown."""
    scores: np.ndarray | None
    """(B,) float64 graded scores, 0 where unknown. None where every known one is 0 or 1, and
    `correct` says it all."""
    group_ids: np.ndarray
    """(n_groups,) the caller's distinct group labels, sorted."""
    rows: np.ndarray
    """(B,) row numbers, group by group."""
    starts: np.ndarray
    """(n_groups + 1,) where in `rows` each group begins."""
    base: np.ndarray
    """(B,) float64, added to the credit of each unmasked token of the rollout: its advantage, or 0.
    Backends add it in passing."""
    context: Context
    ignored: tuple[int, ...] = ()
    """Token ids that are not counted and get no credit, as if they were masked."""
    look_up_unknown: bool = False
    """Give the tokens of rollouts of unknown correctness the credit that equal tokens of the known
    ones have, 0 where there is none; they are left out of the statistics in any case. Where credit
    follows the order of tokens, equal ones are in equal places, too. This is how held-out rollouts
    are scored (`ktae.validity.held_out`). Host backends alone know it."""

    @property
    def group_b(self) -> np.ndarray:
        """(B,) int64: each row's group, counted from 0."""
        group_b = np.empty(len(self.rows), dtype=np.int64)
        group_b[self.rows] = np.repeat(np.arange(len(self.group_ids)), np.diff(self.starts))
        return group_b

    def counted(self) -> np.ndarray:
        """(B, T) bool: unmasked, and not an ignored token."""
        counted_bt: np.ndarray = np.not_equal(self.mask, 0)
        for token_id in self.ignored:
            counted_bt &= self.token_ids != token_id
        return counted_bt

    def check_token_ids(self) -> None:
        """Raise an InputError for the first id out of range, where no backend looks at them."""
        inside = self.token_ids[np.not_equal(self.mask, 0)]
        if not inside.size or (inside.min() >= 0 and inside.max() <= MAX_TOKEN_ID):
            return
        bad_bt = (self.token_ids < 0) | (self.token_ids > MAX_TOKEN_ID)
        bad = np.argwhere(np.not_equal(self.mask, 0) & bad_bt)
        if len(bad):
            raise bad_token_id(self.token_ids, *bad[0])

    def evidence(self) -> np.ndarray:
        """(B,) float64 verdicts or scores, NaN for unknown."""
        values_b = self.correct if self.scores is None else self.scores
        return np.where(self.correct == UNKNOWN, np.nan, values_b)

    def with_evidence(self, evidence_b: np.ndarray) -> Batch:
        """The same rollouts with other verdicts or scores, as `evidence` gives them."""
        unknown_b = np.isnan(evidence_b)
        if self.scores is not None:
            return self._replace(scores=np.where(unknown_b, 0.0, evidence_b))
        return self._replace(correct=np.where(unknown_b, UNKNOWN, evidence_b).astype(np.int8))

    def with_scores_from_0_to_1(self) -> Batch:
        """Graded scores by where they are between the group's lowest and highest."""
        if self.scores is None:
            return self
        group_b = self.group_b
        counted_b = (self.correct != UNKNOWN) & np.any(self.mask, axis=1)
        low_g, high_g = np.full((2, len(self.group_ids)), [[np.inf], [-np.inf]])
        np.minimum.at(low_g, group_b[counted_b], self.scores[counted_b])
        np.maximum.at(high_g, group_b[counted_b], self.scores[counted_b])
        scores_b = from_0_to_1(self.scores, low_g[group_b], high_g[group_b], np)
        scores_b[~counted_b] = 0.0
        return self._replace(scores=scores_b)


def make_batch(
    token_ids: ArrayLike,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    *,
    score_range: ScoreRange,
    context: Context,
) -> Batch:
    """Check the four arrays and sort out the groups.

    Raises:
        InputError: shapes or dtypes do not fit, or `correct` holds what the range does not allow.
    """
    token_ids, mask = as_array("token_ids", token_ids), as_array("mask", mask)
    check_tokens(token_ids, mask)
    check_mask(mask)
    n_rows = token_ids.shape[0]
    group_ids, group_of_row = np.unique(group_labels(groups, n_rows), return_inverse=True)
    starts = np.zeros(len(group_ids) + 1, dtype=np.int64)
    np.cumsum(np.bincount(group_of_row, minlength=len(group_ids)), out=starts[1:])
    rows = np.argsort(group_of_row, kind="stable").astype(np.int64, copy=False)
    verdicts, scores = correctness(correct, n_rows, score_range)
    base = np.zeros(n_rows)
    return Batch(token_ids, mask, verdicts, scores, group_ids, rows, starts, base, context)


def check_tokens(token_ids: Array, mask: Array) -> None:
    """Raise an InputError unless both, arrays or tensors, have a shape and dtype that fit."""
    if len(token_ids.shape) != 2 or kind(token_ids) not in "iu":
        raise InputError(f"token_ids is {describe(token_ids)}; expected integers of shape (B, T)")
    if kind(mask) not in "biuf":
        raise InputError(f"mask is {describe(mask)}; expected bool, integers or floats")
    if mask.shape != token_ids.shape:
        raise InputError(
            f"mask is {describe(mask)}; expected the shape of token_ids, {tuple(token_ids.shape)}"
        )


def check_mask(mask: np.ndarray) -> None:
    """Raise an InputError for the first position of a (B, T) mask that is no whole number from 0.

    NaN, a fraction or a negative number is no mask but something else that was given for it.
    """
    if mask.dtype.kind in "bu" or not mask.size:
        return
    if mask.dtype.kind == "i" and mask.min() >= 0:
        return
    rows_at_once = max(1, CHECKED_AT_ONCE // max(1, mask.shape[1]))
    for start in range(0, len(mask), rows_at_once):
        part = mask[start : start + rows_at_once]
        odd = (part != 0) & (part != 1)
        if odd.any():
            odd &= ~(np.isfinite(part) & (part >= 0) & (np.floor(part) == part))
        if odd.any():
            row, column = np.argwhere(odd)[0].tolist()
            raise InputError(
                f"mask[{start + row}, {column}] is {part[row, column]}; expected 0 or 1"
            )


def check_per_rollout(name: str, array: Array, n_rows: int, kinds: str, expected: str) -> None:
    """Raise an InputError unless an array or tensor has shape (B,) and a dtype of these kinds."""
    if tuple(array.shape) != (n_rows,):
        raise InputError(
            f"{name} is {describe(array)}; expected shape ({n_rows},), one entry for each rollout"
        )
    if kind(array) not in kinds:
        raise InputError(f"{name} is {describe(array)}; expected {expected}")


def group_labels(groups: ArrayLike, n_rows: int) -> np.ndarray:
    """(B,) integers or strings; as objects where NumPy's own types cannot tell them apart.

    In those an integer has 64 bits, `1` beside `"1"` becomes text, and text loses zeros at its end.
    """
    if isinstance(groups, list | tuple) and len(groups) == n_rows and _are_scalars(groups):
        array = np.empty(n_rows, dtype=object)
        for row, label in enumerate(groups):
            array[row] = label
    else:
        array = as_array("groups", groups)
    if array.dtype.kind == "O" and array.shape == (n_rows,):
        return _labels(array)
    check_per_rollout("groups", array, n_rows, "iuUS", "integers or strings")
    return array


def _are_scalars(labels: list[Any] | tuple[Any, ...]) -> bool:
    return not any(isinstance(x, list | tuple) or getattr(x, "ndim", 0) for x in labels)


def _labels(objects: np.ndarray) -> np.ndarray:
    """Python's labels as an array of NumPy's own type if that holds each of them."""
    kinds = [_label_kind(label) for label in objects]
    for row, found in enumerate(kinds):
        if found is None:
            raise InputError(f"groups[{row}] is {objects[row]!r:.60}; expected integers or strings")
        if found != kinds[0]:
            raise InputError(
                f"groups[0] is {objects[0]!r:.60} and groups[{row}] is {objects[row]!r:.60}; "
                "expected integers or strings, and not both"
            )
    if kinds and kinds[0] is not int and any(label[-1:] in ("\0", b"\0") for label in objects):
        return objects
    array = np.asarray(objects.tolist())
    return array if array.dtype.kind in "iuUS" else objects


def _label_kind(label: object) -> type | None:
    if isinstance(label, bool | np.bool_):
        return None
    try:
        operator.index(label)  # type: ignore[arg-type]
    except TypeError:
        return next((kind for kind in (str, bytes) if isinstance(label, kind)), None)
    return int


def correctness(
    correct: ArrayLike, n_rows: int, score_range: ScoreRange
) -> tuple[np.ndarray, np.ndarray | None]:
    """`Batch.correct` and `Batch.scores` of what the caller gave."""
    array = as_array("correct", correct)
    check_per_rollout("correct", array, n_rows, "biuf", "bool, or 0, 1 and NaN (unknown)")
    values = array.astype(np.float64)
    known = ~np.isnan(values)
    is_verdict = (values == 0) | (values == 1)
    allowed = is_verdict
    expected = "0, 1 or NaN (unknown); other scores need an estimator with graded_rewards=True"
    if score_range is not None:
        allowed = np.ones(n_rows, dtype=bool)
        allowed[out_of_range(values, score_range)] = False
        expected = f"a number {in_words(score_range)}, or NaN (unknown)"
    bad = np.flatnonzero(known & ~allowed)
    if bad.size:
        raise InputError(f"correct[{bad[0]}] is {array[bad[0]]}; expected {expected}")
    if np.all(is_verdict | ~known):
        return np.where(known, values, UNKNOWN).astype(np.int8), None
    return np.where(known, 0, UNKNOWN).astype(np.int8), np.where(known, values, 0.0)


def from_0_to_1(scores_b: Array, low_b: Array, high_b: Array, xp: Any) -> Array:
    """Scores by where they are between their group's lowest and highest.

    A z-score is the same for them, and no large or nearly equal numbers are left to lose digits.
    Groups whose scores differ by no more than rounding has left of them have 0 throughout. `xp` is
    NumPy or torch; empty groups have low = inf.
    """
    differ_b = differ(low_b, high_b, xp)
    span_b = xp.where(differ_b, high_b - low_b, 1.0)
    return xp.where(differ_b, (scores_b - low_b) / span_b, 0.0)


def differ(low: Array, high: Array, xp: Any) -> Array:
    """Whether lowest and highest scores differ by more than rounding; false for inf and NaN."""
    return high - low > EQUAL * xp.maximum(abs(low), abs(high))


def in_words(score_range: tuple[float, float]) -> str:
    """`from 0 to 1`."""
    return "from {:g} to {:g}".format(*score_range)


def out_of_range(scores: np.ndarray, score_range: tuple[float, float]) -> np.ndarray:
    """The places of graded scores that are out of the range; NaN is none of them."""
    low, high = score_range
    return np.flatnonzero((scores < low) | (scores > high))


def finite_per_rollout(name: str, values: ArrayLike, n_rows: int) -> np.ndarray:
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


def numbers_per_token(name: str, values: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    """(B, T) numbers; what is none, as NaN, is found where it is looked at."""
    array = as_array(name, values)
    if array.shape != shape or kind(array) not in "iuf":
        raise InputError(f"{name} is {describe(array)}; expected numbers of shape {shape}")
    return array


def bad_token_id(token_ids: Array, row: int, column: int) -> InputError:
    """The error for a token id outside [0, 2^31 - 1] at an unmasked position."""
    return InputError(
        f"token_ids[{row}, {column}] is {token_ids[row, column]}; "
        "expected 0 to 2^31 - 1 at every unmasked position"
    )
