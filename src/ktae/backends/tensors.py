"""A checked batch as tensors on one device, for the backends that take tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from ktae.arrays import MAX_TOKEN_ID, ArrayLike, as_array, on_host
from ktae.batch import (
    CHECKED_AT_ONCE,
    UNKNOWN,
    Batch,
    Context,
    ScoreRange,
    bad_token_id,
    check_mask,
    check_per_rollout,
    check_tokens,
    correctness,
    finite_per_rollout,
    from_0_to_1,
    group_labels,
)
from ktae.rollout_advantages import rollout_advantages

SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
"""Instead of the types that torch stores and does not compute with."""


class HostRows:
    """A (B, T) array of a form that torch cannot take (a dtype that it does not know, the other
    byte order, negative strides), which is converted where it is looked at and never whole.

    Of a tensor it has what the backends use: shape, device, and rows by number or slice; all of
    them, `[:]`, are a copy.
    """

    device = torch.device("cpu")

    def __init__(self, array: np.ndarray, *, is_mask: bool) -> None:
        self._array, self._is_mask = array, is_mask
        self.shape = torch.Size(array.shape)

    def __getitem__(self, rows: Any) -> torch.Tensor:
        """The rows' bools if it is a mask, else int64."""
        part = self._array[rows.numpy() if isinstance(rows, torch.Tensor) else rows]
        if self._is_mask:
            return torch.from_numpy(np.not_equal(part, 0, order="C"))
        if part.dtype.kind == "u" and part.itemsize > 4:
            part = np.minimum(part, MAX_TOKEN_ID + 1)  # still too large, but an int64
        return torch.from_numpy(part.astype(np.int64, order="C"))


class Tensors(NamedTuple):
    """A batch on one device: what `ktae.batch.Batch` is for arrays."""

    token_ids: torch.Tensor | HostRows
    """(B, T) integers."""
    mask: torch.Tensor | HostRows
    """(B, T); a position counts where it is not 0."""
    correct: torch.Tensor
    """(B,) int8: 1 correct, 0 incorrect, -1 unknown. With `scores`: 0 known, -1 unknown."""
    scores: torch.Tensor | None
    """(B,) float64 graded scores, 0 where unknown."""
    rows: torch.Tensor
    """(B,) int64 row numbers, group by group."""
    group_of: torch.Tensor
    """(B,) int64: the group of each entry of `rows`, counted from 0."""
    base: torch.Tensor
    """(B,) float64, added to the credit of each unmasked token of the rollout."""
    context: Context
    ignored: tuple[int, ...] = ()
    """Token ids that are not counted and get no credit."""

    @property
    def group_b(self) -> torch.Tensor:
        """(B,) int64: each row's group, counted from 0."""
        group_b = torch.empty_like(self.rows)
        group_b[self.rows] = self.group_of
        return group_b

    def counted(self) -> torch.Tensor:
        """(B, T) bool: unmasked, and not an ignored token."""
        counted_bt = self.mask[:] != 0
        for token_id in self.ignored:
            counted_bt &= self.token_ids[:] != token_id
        return counted_bt

    def evidence(self) -> torch.Tensor:
        """(B,) float64 verdicts or scores, NaN for unknown."""
        values_b = self.correct if self.scores is None else self.scores
        return values_b.double().masked_fill(self.correct == UNKNOWN, float("nan"))

    def with_evidence(self, evidence_b: torch.Tensor) -> Tensors:
        """The same rollouts with other verdicts or scores, as `evidence` gives them."""
        if self.scores is not None:
            return self._replace(scores=evidence_b.nan_to_num(nan=0.0))
        return self._replace(correct=evidence_b.nan_to_num(nan=float(UNKNOWN)).char())

    def with_scores_from_0_to_1(self) -> Tensors:
        """Graded scores by where they are between the group's lowest and highest."""
        if self.scores is None:
            return self
        counted = (self.correct != UNKNOWN) & (self.mask[:] != 0).any(dim=1)
        return self._replace(scores=_from_0_to_1(self.scores, counted, self.group_b))


def from_batch(batch: Batch) -> Tensors:
    """A batch of arrays as tensors on the CPU. Neither ids nor mask are copied.

    Raises:
        InputError: a token id is out of range at an unmasked position.
    """
    group_of = np.repeat(np.arange(len(batch.group_ids)), np.diff(batch.starts))
    tensors = Tensors(
        _lend(batch.token_ids),
        _lend(batch.mask, is_mask=True),
        torch.from_numpy(batch.correct),
        None if batch.scores is None else torch.from_numpy(batch.scores),
        torch.from_numpy(batch.rows),
        torch.from_numpy(group_of),
        torch.from_numpy(batch.base),
        batch.context,
        batch.ignored,
    )
    _check_token_ids(tensors, batch.token_ids)
    return tensors


def on_device(
    token_ids: torch.Tensor,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    *,
    score_range: ScoreRange,
    context: Context,
    validate: bool,
) -> Tensors:
    """A batch on the device of `token_ids`, without the host ever waiting for it.

    Shapes and dtypes are known to the host and always checked, and so are the values of what is in
    the host's memory. Looking at values on the device makes the host wait, so those are checked
    with `validate` only.

    Raises:
        InputError: shapes or dtypes do not fit; a value of `correct` is not in the range, or of a
            mask no whole number from 0; with `validate`, a token id is out of range at an unmasked
            position.
    """
    device, token_ids, mask = token_ids.device, token_ids.detach(), _on_host_or_tensor("mask", mask)
    check_tokens(token_ids, mask)
    n_rows, given_mask = token_ids.shape[0], mask
    if not isinstance(mask, torch.Tensor):
        check_mask(mask)
        mask = torch.from_numpy(np.not_equal(mask, 0))  # torch does not know every dtype
    if not isinstance(groups, torch.Tensor):
        groups = torch.from_numpy(np.unique(group_labels(groups, n_rows), return_inverse=True)[1])
    check_per_rollout("groups", groups, n_rows, "i", "integers or strings")
    groups = groups.to(device).long()  # torch sorts no unsigned ones but bytes
    rows = groups.argsort(stable=True)
    ordered = groups[rows]
    group_of = torch.zeros_like(rows)
    group_of[1:] = (ordered[1:] != ordered[:-1]).cumsum(0)
    correct, scores = _correctness(correct, n_rows, score_range, device, validate)
    mask = mask.to(device)
    if mask.dtype in SIGNED:
        mask = mask.view(SIGNED[mask.dtype])  # not 0 remains not 0
    ids = token_ids
    if ids.dtype in SIGNED:  # out of range remains out of range, but for 16 bits
        ids = ids.int() if ids.dtype == torch.uint16 else ids.view(SIGNED[ids.dtype])
    if validate and isinstance(given_mask, torch.Tensor):
        check_mask(on_host(given_mask))
    base = torch.zeros(n_rows, dtype=torch.float64, device=device)
    tensors = Tensors(ids, mask, correct, scores, rows, group_of, base, context)
    if validate:
        _check_token_ids(tensors, token_ids)
    return tensors


def base_on_device(
    batch: Tensors, rewards: ArrayLike, base: ArrayLike, *, validate: bool
) -> torch.Tensor:
    """(B,) float64 rollout advantages on the batch's device.

    Raises:
        InputError: shapes or the name of the base do not fit; a number is NaN, infinite or too
            large. (On the device itself it is looked at with `validate` only.)
    """
    rewards_b = _numbers("rewards", rewards, batch, validate)
    if not isinstance(base, str):
        return _numbers("base", base, batch, validate)
    group_b = batch.group_b

    def group_total(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x).index_add_(0, group_b, x)[group_b]

    counted_b = batch.mask[:].any(dim=1).double()
    advantages_b: torch.Tensor = rollout_advantages(base, rewards_b, counted_b, group_total)
    return advantages_b


def _correctness(
    correct: ArrayLike, n_rows: int, score_range: ScoreRange, device: torch.device, validate: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """`Tensors.correct` and `Tensors.scores`; values are looked at if they are the host's, or with
    `validate`. Scores that stay on the device may be 0 and 1 alone: the host cannot know."""
    correct = _on_host_or_tensor("correct", correct)
    if not isinstance(correct, torch.Tensor):
        verdicts, scores = correctness(correct, n_rows, score_range)
        on_device = None if scores is None else torch.from_numpy(scores).to(device)
        return torch.from_numpy(verdicts).to(device), on_device
    check_per_rollout("correct", correct, n_rows, "bif", "bool, or 0, 1 and NaN (unknown)")
    if validate:
        correctness(on_host(correct), n_rows, score_range)
    correct = correct.to(device)
    if score_range is not None:
        numbers = correct.double()
        unknown = numbers.isnan()
        # What nobody looks at must do no harm.
        numbers = numbers.nan_to_num(nan=0.0).clamp(*score_range)
        return torch.where(unknown, UNKNOWN, 0).to(torch.int8), numbers
    known = (correct != 0).to(torch.int8)
    return torch.where(correct.isnan(), UNKNOWN, known).to(torch.int8), None


def _from_0_to_1(
    scores: torch.Tensor, counted: torch.Tensor, group_b: torch.Tensor
) -> torch.Tensor:
    def extreme(how: str, start: float) -> torch.Tensor:
        values = scores.masked_fill(~counted, start)
        ends = torch.full_like(scores, start).scatter_reduce_(0, group_b, values, how)
        return ends.gather(0, group_b)

    low, high = extreme("amin", float("inf")), extreme("amax", -float("inf"))
    return torch.where(counted, from_0_to_1(scores, low, high, torch), 0.0)


def _numbers(name: str, values: ArrayLike, batch: Tensors, validate: bool) -> torch.Tensor:
    """(B,) float64 on the batch's device, looked at as `_correctness` is."""
    n_rows, device = batch.correct.shape[0], batch.correct.device
    values = _on_host_or_tensor(name, values)
    if not isinstance(values, torch.Tensor):
        return torch.from_numpy(finite_per_rollout(name, values, n_rows)).to(device)
    check_per_rollout(name, values, n_rows, "bif", "numbers")
    if validate:
        finite_per_rollout(name, on_host(values), n_rows)
    return values.double().to(device)


def _on_host_or_tensor(name: str, values: ArrayLike) -> Any:
    """An array of whatever is in the host's memory; a tensor of other memory as it is."""
    if not isinstance(values, torch.Tensor):
        return as_array(name, values)
    return values.detach() if values.device.type != "cpu" else on_host(values)


class _Writable:
    """The memory of a read-only array as if one could write to it, which no backend does; torch
    would take the array, too, but with a warning."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array  # whose memory must live as long
        interface = array.__array_interface__
        self.__array_interface__ = interface | {"data": (interface["data"][0], False)}


def _lend(array: np.ndarray, *, is_mask: bool = False) -> torch.Tensor | HostRows:
    """The array's own memory as a tensor, if torch can take it as it is."""
    known = array.dtype.isnative and array.dtype.char not in "HILQNPg"  # unsigned; long double
    whole_steps = all(step >= 0 and step % array.itemsize == 0 for step in array.strides)
    if not (known and whole_steps and array.flags.aligned):
        return HostRows(array, is_mask=is_mask)
    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Writable(array)))


def _check_token_ids(batch: Tensors, given: ArrayLike) -> None:
    """Raise an InputError for the first token id out of range, as it was `given`."""
    n_rows, width = batch.token_ids.shape
    rows_at_once = max(1, CHECKED_AT_ONCE // max(1, width))
    for start in range(0, n_rows, rows_at_once):
        ids, mask = (x[start : start + rows_at_once] for x in (batch.token_ids, batch.mask))
        out_of_range = ids < 0
        if ids.element_size() > 4:
            out_of_range |= ids > MAX_TOKEN_ID
        bad = (out_of_range & (mask != 0)).nonzero()
        if len(bad):
            row, column = bad[0].tolist()
            raise bad_token_id(given, start + row, column)
