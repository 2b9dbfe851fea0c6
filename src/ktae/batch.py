"""From the caller's arrays to one checked `Batch`: below it, arrays are trusted."""

from __future__ import annotations

import operator
import uuid
from collections.abc import Sequence
from numbers import Number
from typing import Any, Literal, NamedTuple

import numpy as np

from ktae.arrays import (
    MAX_MAGNITUDE,
    MAX_TOKEN_ID,
    Array,
    ArrayLike,
    as_array,
    describe,
    is_tensor,
    kind,
)
from ktae.errors import InputError

EQUAL = 1e-6
"""Graded scores that differ by less than this share of the largest are equal: float32 rounds."""


class Vocabulary(NamedTuple):
    """The texts of a tokenizer's V tokens."""

    texts: tuple[bytes | None, ...]
    """Each token's bytes; None: no token has that id."""

    def text(self, token_ids: Sequence[int]) -> str:
        """What the tokens spell; `<id>` for an id that no token has."""
        n = len(self.texts)
        spelt = [(i, self.texts[i] if 0 <= i < n else None) for i in token_ids]
        return b"".join(b"<%d>" % i if x is None else x for i, x in spelt).decode(errors="replace")


class Batch(NamedTuple):
    """Rollouts of many groups, checked: what an estimator gets.

    All arrays are NumPy's, or all are torch's on one device. The range of token ids is checked by
    what looks at every token, and on a device not at all.
    """

    token_ids: Array
    """(B, T) integers."""
    mask: Array
    """(B, T); a position counts where it is not 0."""
    evidence: Array
    """(B,) float64 verdicts, 1 correct and 0 incorrect, or graded scores; NaN where unknown."""
    group_b: Array
    """(B,) int64: each row's group, counted from 0."""
    graded: bool = False
    """Whether `evidence` may hold other numbers than 0, 1 and NaN."""
    labels: np.ndarray | None = None
    """(n_groups,) the caller's label of each group; None on a device."""
    ignored: tuple[int, ...] = ()
    """Token ids that are not counted and get no credit, as if they were masked."""
    look_up_unknown: bool = False
    """Give the tokens of rollouts of unknown correctness the credit that equal tokens of the known
    ones have, 0 where there is none. Where credit follows the order of tokens, equal ones are in
    equal places, too. This is how held-out rollouts are scored (`ktae.validity.held_out`)."""
    vocabulary: Vocabulary | None = None
    """The tokens' texts, for units that are made of text."""
    log_probs: np.ndarray | None = None
    """(B, T) the log-probability that the policy gave each token when it sampled it."""
    entropies: np.ndarray | None = None
    """(B, T) the entropy of the policy's distribution there, in nats."""
    turn_rewards: np.ndarray | None = None
    """(B, K) float64 rewards of each rollout's turns, 0 beyond its last one."""

    def counted(self) -> Array:
        """(B, T) bool: unmasked, and not an ignored token."""
        counted_bt = self.mask != 0
        for token_id in self.ignored:
            counted_bt &= self.token_ids != token_id
        return counted_bt

    def known(self) -> Array:
        """(B,) bool: rollouts of known correctness."""
        known_b: Array = self.evidence == self.evidence  # NaN is not
        return known_b

    def is_evidence(self) -> Array:
        """(B,) bool: rollouts of known correctness that have a token that counts."""
        return self.known() & self.counted().any(1)

    def by_group(self) -> tuple[np.ndarray, np.ndarray]:
        """(B,) row numbers, group by group, and (n_groups + 1,) where groups begin; of arrays."""
        rows = np.argsort(self.group_b, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.group_b))])
        return rows, starts.astype(np.int64)

    def score_bounds(self) -> tuple[Array, Array]:
        """(B,) the lowest and the highest evidence in each row's group; inf and -inf in one without
        known rollouts that have a token."""
        of_group = (self.evidence, self.is_evidence(), self.group_b)
        return group_extreme(*of_group, "min"), group_extreme(*of_group, "max")

    def check_token_ids(self) -> None:
        """Raise an InputError for the first id out of range."""
        check_token_range(self.token_ids, self.mask)


def make_batch(
    token_ids: ArrayLike,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    *,
    graded: bool = False,
    **optional: Any,
) -> Batch:
    """Check the four arrays of `ktae.token_credit`, in the host's memory, and number the groups.

    `graded`: `correct` may be any scores; `optional` are other fields, such as `vocabulary`.
    """
    token_ids, mask = as_array("token_ids", token_ids), as_array("mask", mask)
    check_tokens(token_ids, mask)
    check_mask(mask)
    n_rows = token_ids.shape[0]
    labels, group_b = np.unique(group_labels(groups, n_rows), return_inverse=True)
    evidence, graded = correctness(correct, n_rows, graded)
    return Batch(token_ids, mask, evidence, group_b.astype(np.int64), graded, labels, **optional)


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


def check_token_range(token_ids: np.ndarray, mask: np.ndarray) -> None:
    """Raise an InputError for the first id out of range where the mask is not 0."""
    # Mostly none is, under the mask neither, and that is seen at once.
    if token_ids.min(initial=0) < 0 or token_ids.max(initial=0) > MAX_TOKEN_ID:
        for i, (ids, mask_t) in enumerate(zip(token_ids, mask, strict=True)):
            for t in np.flatnonzero((mask_t != 0) & ((ids < 0) | (ids > MAX_TOKEN_ID))):
                expected = "0 to 2^31 - 1 at every unmasked position"
                raise InputError(f"token_ids[{i}, {t}] is {ids[t]}; expected {expected}")


def check_mask(mask: np.ndarray) -> None:
    """Raise an InputError for the first position of a (B, T) mask that is no whole number from 0:
    NaN, a fraction or a negative number is something else that was given for it."""
    if mask.dtype.kind not in "bu":
        is_odd = ~((mask >= 0) & (mask < np.inf))
        if mask.dtype.kind == "f":
            is_odd |= np.floor(mask) != mask
        for i, t in np.argwhere(is_odd):
            raise InputError(f"mask[{i}, {t}] is {mask[i, t]}; expected 0 or 1")


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
    is_list = isinstance(groups, list | tuple)  # whose entries are looked at as they are
    array = np.fromiter(groups, object, len(groups)) if is_list else as_array("groups", groups)
    if array.dtype.kind != "O" or array.shape != (n_rows,):
        check_per_rollout("groups", array, n_rows, "iuUS", "integers or strings")
        return array
    labels = (str(x) if isinstance(x, uuid.UUID) else x for x in array)
    array = np.fromiter(labels, dtype=object, count=n_rows)
    kinds = [_label_kind(label) for label in array]
    for row, kind_of_row in enumerate(kinds):
        if kind_of_row is None or kind_of_row != kinds[0]:
            before = "" if kind_of_row is None else f"groups[0] is {array[0]!r:.60} and "
            expected = "integers or strings, and not both"
            raise InputError(f"{before}groups[{row}] is {array[row]!r:.60}; expected {expected}")
    if int not in kinds and any(label[-1:] in ("\0", b"\0") for label in array):
        return array
    plain = np.asarray(array.tolist())
    return plain if plain.dtype.kind in "iuUS" else array


def _label_kind(label: object) -> type | None:
    """`int`, `str` or `bytes`; None: it is no label."""
    if hasattr(label, "__index__") and not isinstance(label, bool | np.bool_):
        try:
            operator.index(label)
            return int
        except TypeError:  # an array of several
            return None
    return next((kind for kind in (str, bytes) if isinstance(label, kind)), None)


def correctness(correct: ArrayLike, n_rows: int, graded: bool) -> tuple[np.ndarray, bool]:
    """`Batch.evidence` and `Batch.graded` of what the caller gave."""
    array = as_array("correct", correct)
    if array.dtype.kind == "O" and all(x is None or isinstance(x, Number) for x in array.flat):
        array = array.astype(np.float64)  # None becomes NaN
    check_per_rollout("correct", array, n_rows, "biuf", "bool, or 0, 1 and NaN or None (unknown)")
    values: np.ndarray = array.astype(np.float64)
    is_graded = ~(np.isnan(values) | (values == 0) | (values == 1))
    if graded:
        bad = np.flatnonzero(np.abs(values) > MAX_MAGNITUDE)  # NaN is none of them
        expected = f"a number within ±{MAX_MAGNITUDE:g}, or NaN (unknown)"
    else:
        bad = np.flatnonzero(is_graded)
        expected = "0, 1 or NaN (unknown); other scores need an estimator with graded_rewards=True"
    if bad.size:
        raise InputError(f"correct[{bad[0]}] is {array[bad[0]]}; expected {expected}")
    return values, bool(is_graded.any())


def group_total(values_b: Array, group_b: Array) -> Array:
    """(B,) the sum over each row's group."""
    if is_tensor(values_b):
        values_b = values_b.double()
        return values_b.new_zeros(len(values_b)).index_add_(0, group_b, values_b)[group_b]
    return np.bincount(group_b, values_b)[group_b]


def group_bounds(starts: np.ndarray, n_rows: int) -> list[int]:
    """Where to cut groups, of which `starts` is as in `Batch.by_group`, so that those between two
    bounds have at most `n_rows` rows together, or are one group."""
    bounds = [0]
    while bounds[-1] < len(starts) - 1:
        fitting = np.searchsorted(starts, starts[bounds[-1]] + n_rows, side="right") - 1
        bounds.append(max(int(fitting), bounds[-1] + 1))
    return bounds


def group_extreme(
    values_b: Array, some_b: Array, group_b: Array, which: Literal["min", "max"]
) -> Array:
    """(B,) the least or the greatest of some values of each row's group; inf or -inf of none."""
    start = np.inf if which == "min" else -np.inf
    if is_tensor(values_b):
        extreme_b = values_b.new_full((len(values_b),), start)
        values_b = values_b.masked_fill(~some_b, start)
        return extreme_b.scatter_reduce_(0, group_b, values_b, f"a{which}")[group_b]
    extreme_b = np.full(len(values_b), start)
    better = np.minimum if which == "min" else np.maximum
    better.at(extreme_b, group_b[some_b], values_b[some_b])
    return extreme_b[group_b]


def differ(low: Array, high: Array) -> Array:
    """Whether lowest and highest scores differ by more than rounding; false for inf."""
    return high - low > EQUAL * high.clip(min=-low)  # the larger of |low| and |high|


def finite_per_rollout(name: str, values: ArrayLike, n_rows: int) -> np.ndarray:
    """(B,) float64, finite and far from float32's limit."""
    array = as_array(name, values)
    check_per_rollout(name, array, n_rows, "biuf", "numbers")
    numbers: np.ndarray = array.astype(np.float64)
    bad = np.flatnonzero(~(np.abs(numbers) <= MAX_MAGNITUDE))
    if bad.size:
        raise InputError(
            f"{name}[{bad[0]}] is {numbers[bad[0]]}; "
            f"expected a finite number within ±{MAX_MAGNITUDE:g}"
        )
    return numbers
