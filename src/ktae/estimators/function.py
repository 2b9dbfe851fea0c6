"""Estimators of the user's own: a function, or code by its name.

A name, `package.module:Name` or `file.py:Name`, is imported by `resolved`, where the user has named
it (a trainer, `ktae train`, `--estimator`). Of what is read, such as a run folder, nothing is run.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from typing_extensions import override

from ktae.arrays import MAX_MAGNITUDE, MAX_TOKEN_ID, Array, as_array, describe, on_host
from ktae.batch import Batch
from ktae.errors import InputError, expected_one_of, passed_on
from ktae.estimators.base import Estimator, impute_by_key
from ktae.estimators.transforms import Transform

CreditFunction = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], Any]
"""`function(token_ids, mask, correct, groups) -> credit`, in NumPy.

It gets (n, T) int64 token ids, (n, T) bool mask, (n,) bool correctness and (n,) integer groups of
the n rollouts of known correctness with an unmasked token, in any order; ids at masked positions
may be anything. It gives (n, T) numbers, an array or a tensor; those at masked positions are not
looked at."""

SIGNATURE = "(token_ids, mask, correct, groups) -> credit"


@dataclasses.dataclass(frozen=True, repr=False)
class Function(Estimator):
    """Credit by a function of arrays and verdicts, called once for all groups, on the host."""

    function: CreditFunction

    on_host = True

    @override
    def credit(self, batch: Batch) -> Array:
        batch.check_token_ids()
        credit_bt, counted_bt = np.zeros(batch.token_ids.shape), batch.counted()
        rows = np.flatnonzero(batch.is_evidence())
        if not len(rows):
            return credit_bt.astype(np.float32)
        groups = np.unique(batch.group_b[rows], return_inverse=True)[1]
        # All are copies: a function that writes into its arguments spoils nothing.
        ids, correct = batch.token_ids[rows].astype(np.int64), batch.evidence[rows] == 1
        result = self.function(ids, counted_bt[rows], correct, groups)
        array = as_array(f"what {self} gave", on_host(result))
        if array.shape != ids.shape or array.dtype.kind not in "biuf":
            raise InputError(f"{self} gave {describe(array)}; expected numbers of {ids.shape}")
        credit_bt[rows] = np.where(counted_bt[rows], array, 0)
        if len(odd := np.argwhere(~(np.abs(credit_bt) <= MAX_MAGNITUDE))):
            row, t = odd[0]
            where = f"token {batch.token_ids[row, t]} of rollout {row}"
            expected = f"a finite number within ±{MAX_MAGNITUDE:g}"
            raise InputError(f"{self} gave {credit_bt[row, t]} for {where}; expected {expected}")
        if batch.look_up_unknown:
            keys_bt = batch.group_b[:, None] * (MAX_TOKEN_ID + 1) + batch.token_ids
            known_n = np.repeat(batch.known(), counted_bt.sum(axis=1))
            credit_n = impute_by_key(credit_bt[counted_bt], known_n, keys_bt[counted_bt])
            credit_bt[counted_bt] = credit_n
        return credit_bt.astype(np.float32)


@dataclasses.dataclass(frozen=True, repr=False)
class ImportPath(Estimator):
    """The name of an estimator of the user's own; it computes nothing before it is `resolved`."""

    name: str
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        """The name."""
        return self.name

    @override
    def credit(self, batch: Batch) -> Array:
        expected = "it by --estimator, or in Python the function or class itself"
        raise InputError(f"{self} is your own code, which no file can run; expected {expected}")


def resolved(estimator: Estimator) -> Estimator:
    """The estimator, with what is `ImportPath` in it imported; other errors of its code pass.

    Raises:
        InputError: there is no such module, file or name, or it is no estimator.
    """
    if isinstance(estimator, Transform):
        return dataclasses.replace(estimator, inner=resolved(estimator.inner))
    if not isinstance(estimator, ImportPath):
        return estimator
    value, settings = imported(estimator.name), estimator.settings
    if isinstance(value, type) and issubclass(value, Estimator):
        with passed_on(estimator.name, TypeError):  # another setting, one that is missing
            return value(**settings)
    if isinstance(value, Estimator) and not settings:
        return value
    if settings or name_of(value) is None:
        expected = f"a function {SIGNATURE} made by def, an estimator, or a class with its settings"
        raise InputError(f"{estimator.name} is {value!r:.60}; expected {expected}")
    return Function(value)


def imported(name: str) -> Any:
    """The object that a name stands for; its code is run. InputError: there is none."""
    where, _, attribute = name.rpartition(":")
    is_file = where.endswith(".py") or not where[:1].isidentifier()
    try:
        module = _file(where) if is_file else importlib.import_module(where)
    except (ModuleNotFoundError, FileNotFoundError) as error:
        expected = "package.module:Name on Python's path (PYTHONPATH), or file.py:Name"
        raise InputError(f"{name}: {error}; expected {expected}") from error
    if not hasattr(module, attribute):
        known = [name for name, value in vars(module).items() if callable(value)]
        raise InputError(f"{where} has no {attribute!r}; {expected_one_of(known, attribute)}")
    return getattr(module, attribute)


def name_of(value: Any) -> str | None:
    """The name by which a class or function is imported; None where it has none."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    is_there = getattr(sys.modules.get(str(module)), str(name), None) is value
    return f"{module}:{name}" if is_there and module not in ("__main__", "builtins") else None


def _file(where: str) -> ModuleType:
    """The file as a module whose name is its whole path: so `name_of` finds it from anywhere."""
    path = os.path.abspath(os.path.expanduser(where))
    if path in sys.modules:
        return sys.modules[path]
    spec = importlib.util.spec_from_file_location(path, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"{path} is no file of Python")
    module = sys.modules[path] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path]
        raise
    return module
