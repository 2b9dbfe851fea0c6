"""How the CPU kernels are compiled, and where they are kept between processes."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

logger = logging.getLogger(__name__)

BACKENDS = Path(__file__).parent
SOURCES = (
    BACKENDS / "_cpu_kernels.py",
    BACKENDS / "_cpu_statistics.py",
    BACKENDS / "unit_kernels.py",
    BACKENDS.parent / "statistics.py",
    BACKENDS.parent / "arrays.py",
)
"""All code that gets compiled, and the constants compiled into it."""


def jit(function: Callable[..., Any]) -> Any:
    """Compile without the GIL, cached on disk, or in memory where no cache can be written."""
    folder = cache_folder()
    if folder is None:
        return numba.njit(nogil=True, error_model="numpy")(function)
    usual, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(folder)  # read by the decorator
    try:
        return numba.njit(nogil=True, cache=True, error_model="numpy")(function)
    finally:
        numba.config.CACHE_DIR = usual


@functools.cache
def cache_folder() -> Path | None:
    """A folder for the compiled form of exactly these sources; None if none can be written.

    numba looks only at the file that holds the outermost function, so it would go on serving
    kernels that were compiled with an older `statistics.py`: hence a folder for each text. It lies
    in NUMBA_CACHE_DIR if that is set; else in `__pycache__` beside the kernels, or, where that
    cannot be written, among the user's caches.
    """
    try:
        text = b"\0".join(source.read_bytes() for source in SOURCES)
    except OSError as error:  # installed as an archive
        logger.debug("the CPU kernels are compiled in memory: %s", error)
        return None
    name = f"kernels-{hashlib.sha256(text).hexdigest()[:16]}"
    for parent in _parents():
        folder = parent / name
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
