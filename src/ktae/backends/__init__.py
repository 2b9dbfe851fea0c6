"""How the estimator is computed: an explicit registry, one module a backend.

A backend's module offers `terms(batch, config, base_b, *, memory_bytes)`: (B, T) float32, at each
unmasked position the token's term plus `base_b` of its rollout, 0 where masked. Backends that take
NumPy arrays get a `ktae.batch.Batch` and raise `InputError` for a token id out of range; those that
take torch tensors get a checked `ktae.backends.tensors.Tensors` and stay on its device.
`memory_bytes` bounds the memory beyond the output, as far as one group allows; `naive` and `cpu`
need no bound.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import os
import sys
import types
from typing import Any, Literal

from ktae.errors import InputError


@dataclasses.dataclass(frozen=True)
class Backend:
    """A way to compute the estimator."""

    name: str
    description: str
    arrays: Literal["numpy", "torch"]
    """What its `terms` takes."""
    requires: tuple[str, ...]
    """Packages that it imports, some with the oldest version that will do, as `triton 3.4`."""
    needs_gpu: bool = False
    """Runs on CUDA devices only, or in Triton's interpreter."""

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
            if oldest and _major_minor(importlib.metadata.version(name)) < _major_minor(oldest):
                found = importlib.metadata.version(name)
                return f"{name} {found} is installed; {oldest} or newer is needed"
        if self.needs_gpu and not (_interpreting() or _has_gpu()):
            return "there is no CUDA device (TRITON_INTERPRET=1 runs it on a CPU, slowly)"
        return None


def _major_minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _interpreting() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


BACKENDS = {
    backend.name: backend
    for backend in (
        Backend("naive", "the oracle: loops and dicts, for tests", "numpy", ("numpy",)),
        Backend("cpu", "compiled by numba, in parallel over groups", "numpy", ("numba",)),
        Backend("torch", "tensor operations, any device", "torch", ("torch", "numba")),
        Backend("triton", "GPU kernels", "torch", ("torch", "triton 3.4"), needs_gpu=True),
    )
}


def available() -> dict[str, str]:
    """Each backend's name with `"available"`, or the reason why it cannot be used here."""
    return {name: backend.missing() or "available" for name, backend in BACKENDS.items()}


def resolve(name: str, token_ids: Any) -> Backend:
    """The backend of that name; for `auto` the best one for the device that `token_ids` is on.

    One that was chosen automatically may be second best; one asked for by name never falls back.

    Raises:
        InputError: there is no such backend.
    """
    if name == "auto":
        on_gpu = getattr(token_ids, "is_cuda", False)
        if not on_gpu:
            return BACKENDS["cpu"]
        return BACKENDS["torch" if BACKENDS["triton"].missing() else "triton"]
    if name not in BACKENDS:
        raise InputError(f"no backend {name!r}; expected auto, {', '.join(BACKENDS)}")
    return BACKENDS[name]


class _Callable(types.ModuleType):
    """Lets `ktae.backends()` answer, beside `ktae.backends.BACKENDS` and the modules within."""

    def __call__(self) -> dict[str, str]:
        return available()


sys.modules[__name__].__class__ = _Callable
