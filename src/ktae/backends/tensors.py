"""From the caller's arrays to checked tensors on one device, for the backends that take them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from ktae.batch import UNKNOWN, describe, per_rollout
from ktae.config import MAX_TOKEN_ID
from ktae.errors import InputError
from ktae.rollout_advantages import rollout_advantages


class Tensors(NamedTuple):
    """A batch on one device: what `ktae.batch.Batch` is for arrays."""

    token_ids: torch.Tensor
    """(B, T) integers."""
    mask: torch.Tensor
    """(B, T); a position counts where it is not 0."""
    correct: torch.Tensor
    """(B,) int8: 1 correct, 0 incorrect, -1 unknown."""
    rows: torch.Tensor
    """(B,) int64 row numbers, group by group."""
    group_of: torch.Tensor
    """(B,) int64: the group of each entry of `rows`, counted from 0."""


def make_tensors(
    token_ids: Any, mask: Any, correct: Any, groups: Any, *, validate: bool
) -> Tensors:
    """Check the four arrays and sort out the groups, on the device of `token_ids`.

    Shapes and dtypes are always checked; they are known to the host. Looking at values makes the
    host wait for a GPU, so those are checked only with `validate`.

    Raises:
        InputError: shapes or dtypes do not fit; with `validate` also a value of `correct` other
            than 0, 1 and NaN, or a token id out of range at an unmasked position.
    """
    token_ids = _tensor(token_ids)
    device = token_ids.device
    mask = _tensor(mask).to(device)
    if token_ids.ndim != 2 or token_ids.dtype not in _INTEGERS:
        raise InputError(f"token_ids is {describe(token_ids)}; expected integers of shape (B, T)")
    if mask.shape != token_ids.shape or mask.is_complex():
        raise InputError(
            f"mask is {describe(mask)}; expected bool, integers or floats of the shape of "
            f"token_ids, {tuple(token_ids.shape)}"
        )
    n_rows = token_ids.shape[0]
    group_labels = _group_labels(per_rollout("groups", groups, n_rows)).to(device)
    rows = group_labels.argsort(stable=True)
    ordered = group_labels[rows]
    group_of = torch.zeros_like(rows)
    group_of[1:] = (ordered[1:] != ordered[:-1]).cumsum(0)
    correct = _correctness(per_rollout("correct", correct, n_rows), validate).to(device)
    batch = Tensors(token_ids, mask, correct, rows, group_of)
    if validate:
        _check_token_ids(batch)
    return batch


def base_of_tensors(
    batch: Tensors, rewards_and_base: tuple[Any, Any] | None, validate: bool
) -> torch.Tensor:
    """(B,) float64 rollout advantages on the batch's device; zeros without rewards.

    Raises:
        InputError: shapes or the name of the base do not fit; with `validate`, a number is NaN or
            infinite.
    """
    n_rows, device = batch.correct.shape[0], batch.correct.device
    if rewards_and_base is None:
        return torch.zeros(n_rows, dtype=torch.float64, device=device)
    rewards, base = rewards_and_base
    rewards_b = _finite("rewards", rewards, n_rows, validate).to(device)
    if not isinstance(base, str):
        return _finite("base", base, n_rows, validate).to(device)
    group_b = torch.empty_like(batch.rows)
    group_b[batch.rows] = batch.group_of

    def group_total(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x).index_add_(0, group_b, x)[group_b]

    counted_b = batch.mask.any(dim=1).double()
    advantages_b: torch.Tensor = rollout_advantages(base, rewards_b, counted_b, group_total)
    return advantages_b


def _finite(name: str, values: Any, n_rows: int, validate: bool) -> torch.Tensor:
    tensor = _tensor(per_rollout(name, values, n_rows))
    if tensor.is_complex():
        raise InputError(f"{name} is {describe(tensor)}; expected numbers")
    tensor = tensor.double()
    if validate:
        bad = (~tensor.isfinite()).nonzero()
        if len(bad):
            row = int(bad[0])
            raise InputError(f"{name}[{row}] is {tensor[row].item()}; expected a finite number")
    return tensor


_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def _tensor(values: Any) -> torch.Tensor:
    if isinstance(values, torch.Tensor):
        return values.detach()
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InputError(f"an array is {describe(array)}; expected numbers")
    return torch.from_numpy(np.ascontiguousarray(array))


def _group_labels(groups: Any) -> torch.Tensor:
    """Labels as integers, strings numbered."""
    if isinstance(groups, torch.Tensor):
        if groups.dtype not in _INTEGERS:
            raise InputError(f"groups is {describe(groups)}; expected integers or strings")
        return groups
    if groups.dtype.kind not in "iuUS":
        raise InputError(f"groups is {describe(groups)}; expected integers or strings")
    return torch.from_numpy(np.unique(groups, return_inverse=True)[1])


def _correctness(correct: Any, validate: bool) -> torch.Tensor:
    correct = _tensor(correct)
    if correct.is_complex():
        raise InputError(f"correct is {describe(correct)}; expected bool, or 0, 1 and NaN")
    unknown = correct.isnan()
    if validate:
        bad = (~unknown & (correct != 0) & (correct != 1)).nonzero()
        if len(bad):
            row = int(bad[0])
            raise InputError(
                f"correct[{row}] is {correct[row].item()}; expected 0, 1 or NaN (unknown)"
            )
    return torch.where(unknown, UNKNOWN, (correct != 0).to(torch.int8)).to(torch.int8)


def _check_token_ids(batch: Tensors) -> None:
    ids = batch.token_ids
    bad = ((batch.mask != 0) & ((ids < 0) | (ids.long() > MAX_TOKEN_ID))).nonzero()
    if len(bad):
        row, column = bad[0].tolist()
        raise InputError(
            f"token_ids[{row}, {column}] is {ids[row, column].item()}; "
            "expected 0 to 2^31 - 1 at every unmasked position"
        )
