"""How the CPU kernels are compiled, and where they are kept between processes."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import caching, event

logger = logging.getLogger(__name__)

BACKENDS = Path(__file__).parent
SOURCES = (
    BACKENDS / "_cpu_kernels.py",
    BACKENDS / "_cpu_statistics.py",
    BACKENDS / "_cpu_workspace.py",
    BACKENDS / "_sequence_kernels.py",
    BACKENDS / "unit_kernels.py",
    BACKENDS.parent / "statistics.py",
    BACKENDS.parent / "arrays.py",
    BACKENDS.parent / "rollout_advantages.py",
)
"""All code that gets compiled, and the constants compiled into it."""


class _AnyPlace(caching.UserProvidedCacheLocator):
    """A folder that may be read though it cannot be written."""

    def ensure_cache_path(self) -> None:
        """Make the folder where that is possible; saving will say where it is not."""
        with contextlib.suppress(OSError):
            super().ensure_cache_path()


class _Kernels(caching.CompileResultCacheImpl):
    _locator_classes = (_AnyPlace,)


class _Cache(caching.FunctionCache):
    """numba's cache of a function, without which everything works as well.

    A file may be damaged, unreadable or of another user, and the disk full: the kernel is then
    compiled in memory, and one warning names the folder.
    """

    _impl_class = _Kernels

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kept kernel, or None; a damaged index is begun anew."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # whatever unpickling stumbles over
            _warn_once(self.cache_path, f"cannot be read ({_in_words(error)})")
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a kernel, where that is possible."""
        try:
            super().save_overload(sig, data)
        except Exception as error:
            _warn_once(self.cache_path, f"cannot be written ({_in_words(error)})")


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


_warned: list[str] = []
"""The folder that was warned of."""


def _warn_once(folder: str, what: str) -> None:
    if not _warned:
        _warned.append(folder)
        logger.warning(
            "the cache of the CPU kernels in %s %s; they are compiled in memory, which takes "
            "seconds. Remove the folder, or set NUMBA_CACHE_DIR to another one",
            folder, what,
        )  # fmt: skip


ANNOUNCED_AFTER = 3.0
"""Seconds of compiling after which a line says what takes so long."""


class _Announcer(event.Listener):
    """Says once what a process waits for. numba compiles one kernel at a time."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None
        self._kernel: Any = None

    def on_start(self, event: Any) -> None:
        """Begin to wait, at the first kernel of ktae."""
        kernel = event.data["dispatcher"]
        if self._timer is None and kernel.py_func in _ours:
            self._kernel, self._timer = kernel, threading.Timer(ANNOUNCED_AFTER, _announce)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: Any) -> None:
        """It is ready; the kernels that it calls were compiled in between."""
        if self._timer is not None and event.data["dispatcher"] is self._kernel:
            self._timer.cancel()
            if not _announced:
                self._timer = None


_ours: set[Callable[..., Any]] = set()
_announced: list[str] = []


def _announce() -> None:
    folder = cache_folder()
    kept = "in memory, for this process alone" if folder is None else f"and kept in {folder}"
    _announced.append(kept)
    logger.warning("the CPU kernels are being compiled for the first time, %s", kept)


event.register("numba:compile", _Announcer())


def compiled(function: Callable[..., Any]) -> Any:
    """Compile without the GIL, cached on disk, or in memory where no cache can be written."""
    _ours.add(function)
    dispatcher = numba.njit(nogil=True, error_model="numpy")(function)
    folder = cache_folder()
    if folder is None:
        return dispatcher
    usual, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)  # read by the locator
    try:
        dispatcher._cache = _Cache(function)
    finally:
        numba.config.CACHE_DIR = usual
    return dispatcher


@functools.cache
def cache_folder() -> Path | None:
    """A folder for the compiled form of exactly these sources; None if none can be written.

    numba looks only at the file that holds the outermost function, so it would go on serving
    kernels that were compiled with an older `statistics.py`: hence a folder for each text. It lies
    in NUMBA_CACHE_DIR if that is set; else in `__pycache__` beside the kernels, or, where that
    cannot be written, among the user's caches. One that holds kernels is taken though it cannot be
    written.
    """
    try:
        text = b"\0".join(source.read_bytes() for source in SOURCES)
    except OSError as error:  # installed as an archive
        logger.debug("the CPU kernels are compiled in memory: %s", error)
        return None
    name = f"kernels-{hashlib.sha256(text).hexdigest()[:16]}"
    for parent in _parents():
        folder = parent / name
        if any(folder.rglob("*.nbi")):  # kept by whoever could write there
            return folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except OSError as error:
            logger.debug("no cache of the CPU kernels in %s: %s", folder, error)
    logger.debug("the CPU kernels are compiled in memory, in this and every later process")
    return None


def _parents() -> list[Path]:
    if numba.config.CACHE_DIR:
        return [Path(numba.config.CACHE_DIR)]
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return [BACKENDS / "__pycache__", Path(caches) / "ktae"]
