"""The public functions as one backend or another computes them; `naive` is the oracle.

Users have no such choice: arrays are computed by `numpy` and `cpu`, tensors on a device by `torch`.
Here `torch` gets the arrays as tensors in the host's memory.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any
from unittest import mock

import naive_sequences
import numpy as np

import ktae
from ktae import backends
from ktae.backends import cpu, naive
from ktae.backends import numpy as by_sorting
from ktae.batch import Batch
from ktae.estimators import ConflictTokens, Tempo
from ktae.statistics import Formula


def by_torch(batch: Batch, formula: Formula) -> np.ndarray:
    import torch

    from ktae.backends import torch as backend

    arrays = {
        name: torch.from_numpy(np.array(getattr(batch, name)).astype(dtype))
        for name, dtype in (
            ("token_ids", np.int64), ("mask", bool), ("evidence", float), ("group_b", np.int64),
        )
    }  # fmt: skip
    batch.check_token_ids()
    credit_bt: np.ndarray = backend.credit(batch._replace(**arrays), formula).numpy()
    return credit_bt


CREDIT = {
    "naive": naive.credit, "numpy": by_sorting.credit, "cpu": cpu.credit, "torch": by_torch,
}  # fmt: skip


@contextlib.contextmanager
def computed_by(backend: str) -> Iterator[None]:
    """Contingency tables by this backend; with `naive` all else that has a reference, too."""
    with contextlib.ExitStack() as stack:
        patches: list[Any] = [mock.patch.object(backends, "credit", CREDIT[backend])]
        if backend == "naive":
            patches.append(mock.patch.object(by_sorting, "table", naive.table))
            for kind, reference in (
                (Tempo, naive_sequences.tempo), (ConflictTokens, naive_sequences.conflict_tokens),
            ):  # fmt: skip
                patches.append(mock.patch.object(kind, "credit", _settings_to(reference)))
        for patch in patches:
            stack.enter_context(patch)
        yield


def _settings_to(reference: Any) -> Any:
    def credit(estimator: Any, batch: Batch) -> np.ndarray:
        settings = dataclasses.asdict(estimator)
        del settings["graded_rewards"]
        credit_bt: np.ndarray = reference(batch, **settings)
        return credit_bt

    return credit


def token_credit(*arguments: Any, backend: str = "cpu", **options: Any) -> Any:
    with computed_by(backend):
        return ktae.token_credit(*arguments, **options)


def token_advantages(*arguments: Any, backend: str = "cpu", **options: Any) -> Any:
    with computed_by(backend):
        return ktae.token_advantages(*arguments, **options)


def credit_table(*arguments: Any, backend: str = "cpu", **options: Any) -> ktae.CreditTable:
    with computed_by(backend):
        return ktae.credit_table(*arguments, **options)
