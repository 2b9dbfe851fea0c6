"""A function of the user's own as an estimator."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from typing_extensions import override

from ktae.arrays import LARGEST, MAX_TOKEN_ID, Array, as_array, describe, on_host
from ktae.batch import Batch
from ktae.errors import InputError
from ktae.estimators.base import Estimator

CreditFunction = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Any]
"""`function(token_ids, mask, correct, groups) -> credit`, in NumPy.

It gets (n, T) int64 token ids, (n, T) bool mask, (n,) bool correctness and (n,) integer groups of
the n rollouts that can be evidence: those of known correctness with an unmasked token. Rows of a
group need not be adjacent, sizes may differ, groups may be all correct or all incorrect, and ids at
masked positions may be anything. It gives (n, T) numbers, an array or a tensor, which are added to
the rollout advantages at their tokens; what it gives at masked positions is not looked at."""

SIGNATURE = "(token_ids, mask, correct, groups) -> credit"


@dataclasses.dataclass(frozen=True, repr=False)
class Function(Estimator):
    """Credit by a function of arrays, which is called once for all groups, on the host.

    It gets verdicts, and is not called where no rollout can be evidence.
    """

    function: CreditFunction

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputError(f"function is {self.function!r}; expected a function {SIGNATURE}")
        try:
            signature = inspect.signature(self.function)
        except ValueError:  # some compiled functions have none
            return
        try:
            signature.bind(*"four")
        except TypeError:
            raise InputError(
                f"{self.name}{signature} does not take four arrays; expected a function {SIGNATURE}"
            ) from None

    def __repr__(self) -> str:
        """The same in every process: without the function's address."""
        return f"Function({self.name})"

    @property
    def name(self) -> str:
        """The function's own name."""
        function: Any = self.function
        return str(getattr(function, "__qualname__", None) or type(function).__qualname__)

    @property
    @override
    def on_host(self) -> bool:
        return True

    @override
    def credit(self, batch: Batch) -> Array:
        credit_bt: np.ndarray = np.zeros(batch.token_ids.shape)
        batch.check_token_ids()
        counted_bt = batch.counted()
        rows = np.flatnonzero(batch.known() & counted_bt.any(axis=1))
        if len(rows):
            credit_bt[rows] = self._called(batch, rows, counted_bt[rows])
            if batch.look_up_unknown:
                _look_up(credit_bt, batch, counted_bt)
        return credit_bt.astype(np.float32)

    def _called(self, batch: Batch, rows: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """(n, T) float64 for the rows that can be evidence, 0 where masked."""
        ids, correct = batch.token_ids[rows].astype(np.int64), batch.evidence[rows] == 1
        group_b = batch.group_b[rows]
        groups = np.unique(group_b, return_inverse=True)[1]
        # Copies: a function that writes into its arguments spoils nothing.
        result = self.function(ids.copy(), mask.copy(), correct.copy(), groups.copy())
        array = as_array(f"what {self.name} gave", on_host(result))
        if array.shape != mask.shape or array.dtype.kind not in "biuf":
            raise InputError(
                f"{self.name} gave {describe(array)}; expected numbers of shape {mask.shape}, one "
                "for each token of the rollouts that it was called with"
            )
        credit = np.where(mask, array, 0).astype(np.float64)
        bad = np.argwhere(~(np.abs(credit) <= LARGEST))
        if len(bad):
            row, column = bad[0]
            in_group = group_b == group_b[row]
            label = group_b[row] if batch.labels is None else batch.labels[group_b[row]]
            raise InputError(
                f"{self.name} gave {credit[row, column]} for token {ids[row, column]} of rollout "
                f"{rows[row]} in group {label} ({correct[in_group].sum()} of "
                f"{in_group.sum()} correct); expected a finite number within ±{LARGEST:g}"
            )
        return credit


def _look_up(credit_bt: np.ndarray, batch: Batch, counted_bt: np.ndarray) -> None:
    """Give tokens of rollouts of unknown correctness the mean credit of equal tokens in the group's
    known ones, in place."""
    known_b = batch.known()
    keys_bt = batch.group_b[:, None] * (MAX_TOKEN_ID + 1) + batch.token_ids
    known_bt, unknown_bt = counted_bt & known_b[:, None], counted_bt & ~known_b[:, None]
    keys, of_token = np.unique(keys_bt[known_bt], return_inverse=True)
    means = np.bincount(of_token, credit_bt[known_bt]) / np.bincount(of_token)
    wanted = keys_bt[unknown_bt]
    place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    credit_bt[unknown_bt] = np.where(keys[place] == wanted, means[place], 0.0)
