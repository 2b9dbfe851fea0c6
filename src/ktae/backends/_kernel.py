"""Loops that numba compiles when they are first called, and not when they are imported.

Importing numba takes longer than computing a small batch, and compiling takes seconds. So the
kernels' modules import neither; and what they compute per token can be interpreted instead, from
the same text (`interpreted`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, cast


class Kernel:
    """A function that is compiled, or loaded from the cache on disk, by its first call."""

    any_is_ready = False
    """Whether this process has compiled or loaded one."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.py_func = function
        functools.update_wrapper(self, function)

    @functools.cached_property
    def compiled(self) -> Any:
        """numba's dispatcher."""
        from ktae.backends._kernel_cache import compiled

        Kernel.any_is_ready = True
        return compiled(self.py_func)

    @functools.cached_property
    def part(self) -> Any:
        """numba's dispatcher where another kernel calls this one.

        That one holds its code, so it is not kept by itself; and without what Python or C would
        call it by, compiling takes a fifth less.
        """
        import numba

        options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        return numba.njit(nogil=True, error_model="numpy", **options)(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        """What numba takes it for, where another kernel calls it."""
        from numba.core import types

        return types.Dispatcher(self.part)

    def __call__(self, *args: Any) -> Any:
        return self.compiled(*args)


jit = Kernel


def interpreted(module: ModuleType) -> SimpleNamespace:
    """The module's names, with plain functions that call each other in place of its kernels."""
    names = dict(vars(module))
    for name, kernel in vars(module).items():
        if isinstance(kernel, Kernel):
            function = cast("FunctionType", kernel.py_func)
            own = function.__module__ == module.__name__
            names[name] = FunctionType(function.__code__, names) if own else function
    return SimpleNamespace(**names)
