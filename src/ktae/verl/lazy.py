"""Do something when a module is imported by someone else, and not before."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

OnImport = Callable[[ModuleType], None]

_waiting: dict[str, OnImport] = {}


def when_imported(name: str, call: OnImport) -> None:
    """Call `call(module)` once, right after module `name` has run; now, if it has run already.

    What `call` raises fails the import, so it cannot be overlooked. A second registration for the
    same name replaces the first.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        call(module)
        return
    _waiting[name] = call
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the awaited modules where they are, and adds the call to their loader."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        call = _waiting.pop(name, None)  # popped first: the next line comes here again
        if call is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            try:
                run(module)
                call(module)
            except BaseException:
                _waiting[name] = call  # whoever tries again meets it again
                raise

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
