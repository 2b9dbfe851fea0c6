"""A checked `Batch` of tensors on a device, without the host ever waiting for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ktae import batch as host
from ktae.arrays import MAX_MAGNITUDE, ArrayLike, as_array, on_host
from ktae.batch import Batch, check_per_rollout


def batch_on_device(
    token_ids: torch.Tensor,
    mask: ArrayLike,
    correct: ArrayLike,
    groups: ArrayLike,
    *,
    graded: bool = False,
    **optional: Any,
) -> Batch:
    """A batch on the device of `token_ids`; otherwise as `make_batch`.

    Nobody looks at values on the device: ids out of range count as some token, what is neither 0
    nor NaN in `correct` as correct, and graded scores are clamped to their range.
    """
    device, ids, mask = token_ids.device, token_ids.detach(), _on_host_or_tensor("mask", mask)
    host.check_tokens(ids, mask)
    n_rows = len(ids)
    if not isinstance(mask, torch.Tensor):
        host.check_mask(mask)
        mask = torch.from_numpy(np.not_equal(mask, 0))  # torch does not know every dtype
    mask = mask.to(device)
    if not isinstance(groups, torch.Tensor):
        groups = torch.from_numpy(
            np.unique(host.group_labels(groups, n_rows), return_inverse=True)[1]
        )
    check_per_rollout("groups", groups, n_rows, "i", "integers or strings")
    ordered, rows = groups.to(device).long().sort(stable=True)
    number = torch.zeros_like(rows)
    number[1:] = (ordered[1:] != ordered[:-1]).cumsum(0)
    group_b = torch.empty_like(rows).scatter_(0, rows, number)
    correct = _on_host_or_tensor("correct", correct)
    if not isinstance(correct, torch.Tensor):
        evidence = torch.from_numpy(host.correctness(correct, n_rows, graded)[0])
    else:
        check_per_rollout("correct", correct, n_rows, "bif", "bool, or 0, 1 and NaN (unknown)")
        evidence = correct.double().clamp(-MAX_MAGNITUDE, MAX_MAGNITUDE)  # NaN stays
        if not graded:
            evidence = torch.where(evidence.isnan(), evidence, (evidence != 0).double())
    return Batch(ids, mask, evidence.to(device), group_b, graded, **optional)


def numbers_on_device(name: str, values: ArrayLike, batch: Batch) -> torch.Tensor:
    """(B,) float64 on the batch's device; values are looked at where they are the host's."""
    n_rows, device = len(batch.evidence), batch.evidence.device
    values = _on_host_or_tensor(name, values)
    if not isinstance(values, torch.Tensor):
        return torch.from_numpy(host.finite_per_rollout(name, values, n_rows)).to(device)
    check_per_rollout(name, values, n_rows, "bif", "numbers")
    return values.to(device).double()


def _on_host_or_tensor(name: str, values: ArrayLike) -> Any:
    """An array of whatever is in the host's memory; a tensor of other memory as it is."""
    if not isinstance(values, torch.Tensor):
        return as_array(name, values)
    return values.detach() if values.device.type != "cpu" else on_host(values)
