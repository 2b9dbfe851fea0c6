"""The public functions as one way of counting or another computes them; `naive` is the reference.

Users have no such choice: arrays are counted by `compiled`, tensors on a device by `torch`. Here
`torch` gets the arrays as tensors in the host's memory.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import naive_sequences
import numpy as np

import ktae
from ktae import counting
from ktae.batch import Batch
from ktae.counting import compiled, naive
from ktae.estimators import ConflictTokens, Tempo


def by_torch(
    batch: Batch, function: Callable[..., Any], units: Sequence[str] = ("token",)
) -> np.ndarray:
    import torch

    from ktae.counting import tensors

    arrays = {
        name: torch.from_numpy(np.array(getattr(batch, name)).astype(dtype))
        for name, dtype in (
            ("token_ids", np.int64), ("mask", bool), ("evidence", float), ("group_b", np.int64),
        )
    }  # fmt: skip
    batch.check_token_ids()
    credit_bt: np.ndarray = tensors.credit(batch._replace(**arrays), function, units).numpy()
    return credit_bt


CREDIT = {"naive": naive.credit, "cpu": compiled.credit, "torch": by_torch}


@contextlib.contextmanager
def computed_by(backend: str) -> Iterator[None]:
    """Counts by this backend; with `naive` all else that has a reference, too."""
    with contextlib.ExitStack() as stack:
        patches: list[Any] = [mock.patch.object(counting, "credit", CREDIT[backend])]
        if backend == "naive":
            patches.append(mock.patch.object(counting, "count", naive.count))
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


def token_credit(
    token_ids: Any,
    mask: Any,
    correct: Any,
    groups: Any,
    credit: Any = "paper",
    *,
    backend: str = "cpu",
    **options: Any,
) -> Any:
    with computed_by(backend):
        return ktae.token_credit(token_ids, mask, correct, groups, credit, **options)


def token_advantages(*arguments: Any, backend: str = "cpu", **options: Any) -> Any:
    with computed_by(backend):
        return ktae.token_advantages(*arguments, **{"credit": "paper"} | options)


def credit_table(*arguments: Any, backend: str = "cpu", **options: Any) -> ktae.CreditTable:
    with computed_by(backend):
        return ktae.credit_table(*arguments, **options)
