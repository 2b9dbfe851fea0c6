"""How the estimator is computed: an explicit registry, one module a backend.

A backend module offers

- `terms(batch, config, base_b) -> (B, T) float32`: at each unmasked position the token's term plus
  `base_b` of its rollout, 0 where masked; an `InputError` for a token id out of range;
- `table(batch, config) -> KeyTokenTable`.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Protocol

import numpy as np

from ktae.batch import Batch
from ktae.config import KTAEConfig
from ktae.errors import InputError
from ktae.table import KeyTokenTable


class BackendModule(Protocol):
    """What a backend's module must offer."""

    def terms(self, batch: Batch, config: KTAEConfig, base_b: np.ndarray) -> np.ndarray:
        """(B, T) float32 terms plus rollout advantages."""

    def table(self, batch: Batch, config: KTAEConfig) -> KeyTokenTable:
        """One row for each group and token."""


@dataclasses.dataclass(frozen=True)
class Backend:
    """A way to compute the estimator."""

    name: str
    description: str
    module: str

    def load(self) -> BackendModule:
        """Import the backend's module; its libraries are imported here and not before."""
        module: BackendModule = importlib.import_module(self.module)
        return module


BACKENDS = {
    backend.name: backend
    for backend in (
        Backend("naive", "the oracle: loops and dicts, for tests", "ktae.backends.naive"),
        Backend("cpu", "numba, in parallel over groups", "ktae.backends.cpu"),
    )
}


def resolve(name: str) -> BackendModule:
    """The backend of that name, or the best one for `auto`. One asked for by name never falls back.

    Raises:
        InputError: there is no such backend.
    """
    if name == "auto":
        name = "cpu"
    if name not in BACKENDS:
        raise InputError(f"no backend {name!r}; expected auto, {', '.join(BACKENDS)}")
    return BACKENDS[name].load()
