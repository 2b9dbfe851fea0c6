"""A checked batch as tensors on one device, for the backends that take tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from ktae.batch import (
    UNKNOWN,
    Batch,
    bad_token_id,
    check_per_rollout,
    check_tokens,
    correctness,
    finite_per_rollout,
    group_labels,
)
from ktae.config import MAX_TOKEN_ID
from ktae.rollout_advantages import rollout_advantages

CHECKED_AT_ONCE = 1 << 22
"""Positions whose token ids are looked at in one go: a few megabytes of extra memory."""


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


def from_batch(batch: Batch) -> Tensors:
    """A batch of arrays as tensors on the CPU.

    Raises:
        InputError: a token id is out of range at an unmasked position.
    """
    group_of = np.repeat(np.arange(len(batch.group_ids)), np.diff(batch.starts))
    arrays = (_torch_ready(batch.token_ids), _torch_ready(batch.mask), batch.correct, batch.rows)
    tensors = Tensors(*map(torch.from_numpy, (*arrays, group_of)))
    _check_token_ids(tensors, batch.token_ids)
    return tensors


def on_device(
    token_ids: torch.Tensor, mask: Any, correct: Any, groups: Any, *, validate: bool
) -> Tensors:
    """A batch on the device of `token_ids`, without the host ever waiting for it.

    Shapes and dtypes are known to the host and always checked. Looking at values makes the host
    wait, so those are checked with `validate` only.

    Raises:
        InputError: shapes or dtypes do not fit; with `validate` also a value of `correct` other
            than 0, 1 and NaN, or a token id out of range at an unmasked position.
    """
    device, n_rows = token_ids.device, token_ids.shape[0]
    token_ids, mask = token_ids.detach(), torch.as_tensor(mask, device=device).detach()
    check_tokens(token_ids, mask)
    if not isinstance(groups, torch.Tensor):
        groups = torch.from_numpy(np.unique(group_labels(groups, n_rows), return_inverse=True)[1])
    check_per_rollout("groups", groups, n_rows, "i", "integers or strings")
    rows = groups.to(device).argsort(stable=True)
    ordered = groups.to(device)[rows]
    group_of = torch.zeros_like(rows)
    group_of[1:] = (ordered[1:] != ordered[:-1]).cumsum(0)
    if validate:
        correctness(_to_host(correct), n_rows)
    correct = torch.as_tensor(correct, device=device).detach()
    check_per_rollout("correct", correct, n_rows, "bif", "bool, or 0, 1 and NaN (unknown)")
    correct = torch.where(correct.isnan(), UNKNOWN, (correct != 0).to(torch.int8)).to(torch.int8)
    tensors = Tensors(token_ids, mask, correct, rows, group_of)
    if validate:
        _check_token_ids(tensors, token_ids)
    return tensors


def base_on_device(batch: Tensors, rewards: Any, base: Any, *, validate: bool) -> torch.Tensor:
    """(B,) float64 rollout advantages on the batch's device.

    Raises:
        InputError: shapes or the name of the base do not fit; with `validate`, a number is NaN,
            infinite or too large.
    """
    rewards_b = _numbers("rewards", rewards, batch, validate)
    if not isinstance(base, str):
        return _numbers("base", base, batch, validate)
    group_b = torch.empty_like(batch.rows)
    group_b[batch.rows] = batch.group_of

    def group_total(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x).index_add_(0, group_b, x)[group_b]

    counted_b = batch.mask.any(dim=1).double()
    advantages_b: torch.Tensor = rollout_advantages(base, rewards_b, counted_b, group_total)
    return advantages_b


def _numbers(name: str, values: Any, batch: Tensors, validate: bool) -> torch.Tensor:
    n_rows = batch.correct.shape[0]
    if validate:
        finite_per_rollout(name, _to_host(values), n_rows)
    tensor = torch.as_tensor(values, device=batch.correct.device).detach()
    check_per_rollout(name, tensor, n_rows, "bif", "numbers")
    return tensor.double()


def _to_host(values: Any) -> Any:
    return values.detach().float().cpu().numpy() if isinstance(values, torch.Tensor) else values


def _torch_ready(array: np.ndarray) -> np.ndarray:
    """In native byte order, writable, without negative strides, of a dtype that torch knows."""
    if array.dtype.kind == "u" and array.itemsize > 4:
        array = np.minimum(array, MAX_TOKEN_ID + 1)  # still too large, but an int64
    if array.dtype.kind == "u" and array.itemsize > 1:
        return array.astype(np.int64)
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    usable = native.flags.writeable and min(native.strides) >= 0
    return native if usable else native.copy()


def _check_token_ids(batch: Tensors, given: Any) -> None:
    """Raise an InputError for the first token id out of range, as it was `given`."""
    n_rows, width = batch.token_ids.shape
    rows_at_once = max(1, CHECKED_AT_ONCE // max(1, width))
    for start in range(0, n_rows, rows_at_once):
        ids, mask = (x[start : start + rows_at_once] for x in (batch.token_ids, batch.mask))
        out_of_range = ids < 0
        if ids.element_size() > 4 or ids.dtype == torch.uint32:
            out_of_range |= ids.long() > MAX_TOKEN_ID
        bad = (out_of_range & (mask != 0)).nonzero()
        if len(bad):
            row, column = bad[0].tolist()
            raise bad_token_id(given, start + row, column)
