"""Do something when a module is imported by someone else, and not before."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

OnImport = Callable[[ModuleType], None]

_waiting: dict[str, OnImport] = {}
_search = threading.local()  # `name`: the module that this thread looks for


def when_imported(name: str, call: OnImport) -> None:
    """Call `call(module)` once, right after module `name` has run; now, if it has run already.

    What `call` raises fails the import, so it cannot be overlooked. A second registration for the
    same name replaces the first.
    """
    module = sys.modules.get(name)
    # While it is being imported a module is among these already, but half empty.
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
        outer = getattr(_search, "name", None)
        if name not in _waiting or name == outer:
            return None
        _search.name = name  # for the next line comes here again
        try:
            spec = importlib.util.find_spec(name)
        finally:
            _search.name = outer
        if spec is not None and spec.loader is not None:
            self.call_after(spec.loader)
        return spec

    @staticmethod
    def call_after(loader: Any) -> None:
        """Let the loader make the call once it has run an awaited module."""
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            # Only now, for who asks where a module is need not import it; and by the module's own
            # name, for the loader of a zip file is that of all its modules.
            name = module.__name__
            if call := _waiting.get(name):
                call(module)
                del _waiting[name]  # had it raised, whoever tries again would meet it again

        loader.exec_module = exec_module
