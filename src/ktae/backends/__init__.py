"""How the estimator is computed: an explicit registry, one module a backend.

A backend's module offers `credit(batch, formula)`: (B, T) float32, at each unmasked position the
token's credit by the formula (`ktae.statistics.Formula`) plus the base of its rollout, 0 where
masked. Backends that take NumPy arrays get a `ktae.batch.Batch` and raise `InputError` for a token
id out of range. They also offer `table(batch, formula)`. Those that take torch tensors get a
checked `ktae.backends.tensors.Tensors`, stay on its device, and take `memory_bytes`, which bounds
the memory beyond the output as far as one group allows. `naive` and `cpu` count the distinct tokens
of a group at a time, and `cpu` converts a fixed number of positions at a time. `numpy` takes some
hundred bytes a token, and is for small batches: its numbers are those of `cpu`, bit for bit.

`ktae.backends()` is this module's `available`. Import from here by `from ktae.backends import ...`:
the attribute `backends` of the package is that function.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import os
import re
from typing import Any, Literal

import numpy as np

from ktae.arrays import ArrayLike, device_type
from ktae.backends._kernel import Kernel
from ktae.errors import InputError


@dataclasses.dataclass(frozen=True)
class Backend:
    """A way to compute the estimator."""

    name: str
    description: str
    arrays: Literal["numpy", "torch"]
    """What its `credit` takes."""
    requires: tuple[str, ...]
    """Packages that it imports, some with the oldest version that will do, as `triton 3.4`."""
    needs_gpu: bool = False
    """Runs on CUDA devices only, or in Triton's interpreter."""
    ngrams: bool = False
    """Its `credit` takes sizes of n-grams, too: see `ktae.batch.Context.ngrams`."""

    def load(self) -> Any:
        """Import the backend's module; its libraries are imported here and not before.

        Raises:
            InputError: a library is missing.
        """
        reason = self.missing()
        if reason:
            raise InputError(f"backend {self.name!r} cannot be used: {reason}")
        return importlib.import_module(f"ktae.backends.{self.name}")

    def missing(self) -> str | None:
        """Why the backend cannot be used here, or None."""
        for requirement in self.requires:
            name, _, oldest = requirement.partition(" ")
            if importlib.util.find_spec(name) is None:
                return f"{name} is not installed"
            if oldest:
                found = installed_version(name)
                if _major_minor(found) < _major_minor(oldest):
                    return f"{name} {found} is installed; {oldest} or newer is needed"
        if self.needs_gpu and not (_interpreting() or _has_gpu()):
            return "there is no CUDA device (TRITON_INTERPRET=1 runs it on a CPU, slowly)"
        return None


def installed_version(name: str) -> str:
    """The version of an installed package, or "of unknown version".

    A package may come from a distribution of another name (triton from pytorch-triton); then only
    the package itself, once imported, can tell.
    """
    from importlib import metadata  # takes longer to import than NumPy's half

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return str(getattr(importlib.import_module(name), "__version__", "of unknown version"))


def _major_minor(version: str) -> tuple[int, int]:
    """(0, 0), older than anything, if the version cannot be read."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _interpreting() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


BACKENDS = {
    backend.name: backend
    for backend in (
        Backend("naive", "the oracle: loops and dicts, for tests", "numpy", ("numpy",)),
        Backend("numpy", "whole-array operations, for a first answer", "numpy", ("numpy",)),
        Backend(
            "cpu", "compiled by numba, in parallel over groups", "numpy", ("numba",), ngrams=True
        ),
        Backend("torch", "tensor operations, any device", "torch", ("torch",)),
        Backend("triton", "GPU kernels", "torch", ("torch", "triton 3.4"), needs_gpu=True),
    )
}


WITHOUT_FLOAT64 = ("mps",)
"""Device types that cannot compute Fisher's test as exactly as it has to be."""


def available() -> dict[str, str]:
    """Each backend's name with `"available"`, or the reason why it cannot be used here."""
    return {name: backend.missing() or "available" for name, backend in BACKENDS.items()}


INTERPRETED_TOKENS = 1 << 19
"""So many tokens of its first arrays a process computes without compiled kernels: importing numba
and loading them takes about as long, and compiling them ten times as long."""

_tokens_left = [INTERPRETED_TOKENS]


def compiles(mask: np.ndarray) -> bool:
    """Whether `auto` takes compiled kernels for arrays of this (B, T) mask.

    The numbers do not depend on it. A process takes them once they are loaded, and before that for
    more than `INTERPRETED_TOKENS`, all calls together.
    """
    if not Kernel.any_is_ready and _tokens_left[0] > 0:
        _tokens_left[0] -= int(np.count_nonzero(mask))
    return Kernel.any_is_ready or _tokens_left[0] <= 0


def take_compiled() -> None:
    """Load numba, and let `auto` take compiled kernels: for processes that have much to compute."""
    importlib.import_module("numba")
    _tokens_left[0] = 0


def resolve(name: str, token_ids: ArrayLike) -> Backend:
    """The backend of that name; for `auto` the best one for the device that `token_ids` is on.

    In the host's memory that is `cpu`, or `numpy` in its place unless `compiles` says otherwise.
    One that was chosen automatically may be second best; one asked for by name never falls back.

    Raises:
        InputError: there is no such backend, or it cannot work on that device.
    """
    device = device_type(token_ids)
    if name == "auto":
        if device in ("cpu", *WITHOUT_FLOAT64):
            return BACKENDS["cpu"]
        use_triton = device == "cuda" and not BACKENDS["triton"].missing()
        return BACKENDS["triton" if use_triton else "torch"]
    if name not in BACKENDS:
        raise InputError(f"no backend {name!r}; expected auto, {', '.join(BACKENDS)}")
    if BACKENDS[name].arrays == "torch" and device in WITHOUT_FLOAT64:
        raise InputError(
            f"token_ids is on a device of type {device}, which has no float64, and backend "
            f"{name!r} needs it; expected backend 'cpu', or tensors on another device"
        )
    return BACKENDS[name]
