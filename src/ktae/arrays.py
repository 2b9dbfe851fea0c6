"""Arrays of either library: whatever NumPy can read, and torch tensors on any device.

torch is never imported to find out which it is: whoever gives a tensor has imported it.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, TypeAlias

import numpy as np

from ktae.errors import InputError

Array: TypeAlias = Any
"""A `numpy.ndarray` or a `torch.Tensor`: what came in decides what goes out."""

ArrayLike: TypeAlias = Any
"""What NumPy can read as an array (lists, scalars, arrays), or a `torch.Tensor`."""

MAX_TOKEN_ID = 2**31 - 1

CHUNK_POSITIONS = 1 << 16
"""Padded positions that are taken in one go: half a megabyte of 64-bit numbers, which stays in a
processor's cache. A group that is larger is taken whole."""

MAX_MAGNITUDE = 1e30
"""Bound on every weight and reward, far beyond any use: no product of some of them overflows."""


def as_array(name: str, values: ArrayLike) -> np.ndarray:
    """`values` as an array, or an InputError that names it."""
    if isinstance(values, np.ma.MaskedArray):  # as an array it would lose what is masked
        raise InputError(
            f"{name} is a masked array; expected a plain one (correct.filled(np.nan): unknown)"
        )
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(f"{name} is ragged; expected rows of equal length") from None


def require_dense(**arrays: ArrayLike) -> None:
    """Raise an InputError for a tensor, by its name here, that has no values or not one for each
    position."""
    for name, x in arrays.items():
        if not is_tensor(x):
            continue
        layout = str(x.layout).removeprefix("torch.")
        forms = {"meta": x.is_meta, "quantized": x.is_quantized, "nested": x.is_nested}
        form = next((form for form in forms if forms[form]), layout)
        if form != "strided":
            raise InputError(
                f"{name} is a {form} tensor; expected a dense one, padded, on a device"
            )


def kind(array: Array) -> str:
    """NumPy's letter for the kind of an array's or a tensor's dtype."""
    if isinstance(array, np.ndarray):
        return str(array.dtype.kind)
    if array.dtype.is_floating_point or array.dtype.is_complex:
        return "f" if array.dtype.is_floating_point else "c"
    return "b" if str(array.dtype) == "torch.bool" else "i"


def describe(array: Array) -> str:
    """Dtype and shape of an array or a tensor, for messages."""
    return f"{array.dtype} of shape {tuple(array.shape)}"


def is_tensor(array: ArrayLike) -> bool:
    """Whether it is a torch tensor."""
    torch = sys.modules.get("torch")  # whoever has a tensor has imported torch
    return torch is not None and isinstance(array, torch.Tensor)


def namespace(array: ArrayLike) -> Any:
    """The module whose functions take it: torch for a tensor, NumPy for numbers and arrays."""
    return sys.modules["torch"] if is_tensor(array) else np


def on_host(array: ArrayLike) -> ArrayLike:
    """A torch tensor as a NumPy array (without a copy on the CPU); everything else as it is."""
    if not is_tensor(array):
        return array
    tensor = array.detach().cpu()
    if str(tensor.dtype).startswith(("torch.bfloat16", "torch.float8")):  # NumPy has none
        tensor = tensor.float()
    return tensor.numpy()


def on_supported_device(array: ArrayLike) -> bool:
    """Whether it is a tensor on a device that ktae computes on: not the host, and not Apple's GPU,
    which has no float64 and so cannot compute Fisher's test as exactly as it has to be."""
    return is_tensor(array) and array.device.type not in ("cpu", "mps")


def above(values: ArrayLike, threshold: float) -> Array:
    """Which rewards are above the threshold: the one rule by which a reward is correct.

    Numbers of less precision are compared in their own: a float32 of 0.1 is not above 0.1. A
    float64 may have been a float32 before: what equals the threshold in float32 is not above it.
    """
    threshold = float(threshold)
    if isinstance(values, float):
        return values > threshold and values != _in_float32(threshold)
    if is_tensor(values):
        values, double = values.detach(), str(values.dtype) == "torch.float64"
    else:
        values = as_array("values", values)
        double = values.dtype == np.float64
    with np.errstate(over="ignore"):  # float16: beyond its numbers is infinite
        is_above = values > threshold
    return is_above & (values != _in_float32(threshold)) if double else is_above


def is_above(value: float, threshold: float) -> bool:
    """`above` of one number."""
    return bool(above(float(value), threshold))


@functools.lru_cache
def _in_float32(number: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(number))
