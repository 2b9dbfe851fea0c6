"""An estimator of the user's own by where its code is: `package.module:Name` or `file.py:Name`.

A name is only a name until `resolved` imports what it stands for, and that is done where the user
has named it: a trainer, `ktae train`, `--estimator`. What is read, such as a run folder, may hold
such a name, too, and nothing of it is run.

A module is looked for on Python's path as the user has started it, which holds the current folder
only where he put it there. A file is one that he names.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

from typing_extensions import override

from ktae.arrays import Array
from ktae.batch import Batch
from ktae.errors import InputError, expected_one_of
from ktae.estimators.base import Estimator
from ktae.estimators.function import SIGNATURE, Function
from ktae.estimators.transforms import Transform


@dataclasses.dataclass(frozen=True, repr=False)
class Named(Estimator):
    """The name of an estimator of the user's own; it computes nothing before it is `resolved`."""

    name: str
    """`package.module:Name` or `file.py:Name`."""
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Those of a class."""

    def __repr__(self) -> str:
        """The name."""
        return self.name

    @override
    def credit(self, batch: Batch) -> Array:
        raise InputError(
            f"{self.name} is code of your own, which is not run because a file names it; give it "
            "by --estimator, or in Python the function or class itself"
        )


def resolved(estimator: Estimator) -> Estimator:
    """The estimator, with what is `Named` in it imported.

    Raises:
        InputError: there is no such module, file or name, or it is no estimator.
    """
    if isinstance(estimator, Transform):
        return dataclasses.replace(estimator, inner=resolved(estimator.inner))
    if not isinstance(estimator, Named):
        return estimator
    thing, settings = imported(estimator.name), estimator.settings
    if isinstance(thing, type) and issubclass(thing, Estimator):
        try:
            return thing(**settings)
        except TypeError as error:  # as Python says it: another setting, one that is missing
            raise InputError(f"{estimator.name}: {error}") from None
    if settings:
        raise InputError(
            f"{estimator.name} is no class of estimators, so it has no settings: "
            f"{', '.join(settings)}"
        )
    if isinstance(thing, Estimator):
        return thing
    if name_of(thing) is None:
        raise InputError(
            f"{estimator.name} is {thing!r:.60}; expected a function {SIGNATURE} made by def, an "
            "estimator or a class of them"
        )
    return Function(thing)


def imported(name: str) -> Any:
    """What that name stands for, after its module or file was run; errors of the code are its own.

    Raises:
        InputError: there is no such module or file, or nothing of that name in it.
    """
    where, _, attribute = name.rpartition(":")
    module = _of_file(where) if where.endswith(".py") else _of_path(where)
    if not hasattr(module, attribute):
        known = [each for each, value in vars(module).items() if callable(value)]
        raise InputError(f"{where} has no {attribute!r}; {expected_one_of(known, attribute)}")
    return getattr(module, attribute)


def name_of(thing: Any) -> str | None:
    """The name by which a class or function is imported; None where it has none."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    is_there = getattr(sys.modules.get(str(module)), str(name), None) is thing
    return f"{module}:{name}" if is_there and module not in ("__main__", "builtins") else None


def _of_path(where: str) -> ModuleType:
    try:
        return importlib.import_module(where)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{where}.".startswith(f"{error.name}."):
            raise  # something that the module itself imports
    except (TypeError, ValueError):  # a name that none can have
        pass
    raise InputError(
        f"no module {where!r} on Python's path (PYTHONPATH); for a file of a folder write its "
        f"path, such as {where.rpartition('.')[2] or 'mine'}.py:NAME"
    )


def _of_file(where: str) -> ModuleType:
    """The file as a module whose name is its whole path: so `name_of` finds it from anywhere."""
    path = os.path.abspath(os.path.expanduser(where))
    if path in sys.modules:
        return sys.modules[path]
    if not os.path.isfile(path):
        raise InputError(f"{where} is no file; expected a Python file, such as mine.py:NAME")
    spec = importlib.util.spec_from_file_location(path, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[path] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path]
        raise
    return module
