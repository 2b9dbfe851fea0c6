"""Opening inputs: regular files, whose size is known before anything is read."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ktae.errors import InputError

MAX_DOCUMENT = 1 << 28
"""Bytes of a file that is parsed at once, such as JSON."""


class Opened:
    """What this process has read, for progress bars and for messages of unforeseen errors."""

    last = ""
    tell: Callable[[int], object] | None = None
    """Is told how many bytes were read each time."""


class _Input(io.FileIO):
    def readinto(self, buffer: Any, /) -> int | None:
        n = super().readinto(buffer)
        if Opened.tell is not None:
            Opened.tell(n or 0)
        return n


def open_input(path: str | Path, *, named: bool = False) -> io.BufferedReader:
    """Open a regular file for reading bytes, or a pipe such as `<(zcat a.gz)` that the user named.

    Whatever else is an InputError: reading other pipes or devices could wait forever, or never end.
    """
    try:
        is_pipe = named and stat.S_ISFIFO(os.stat(path).st_mode)
        # A pipe that nobody writes to would block without O_NONBLOCK.
        flags = os.O_RDONLY | os.O_CLOEXEC | (0 if is_pipe else os.O_NONBLOCK)
        stream = _Input(path, opener=lambda name, _: os.open(name, flags))
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {str(path)!r:.300}: {why}") from None
    if not is_pipe and not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise InputError(f"cannot read {str(path)!r:.300}: a pipe or a device; expected a file")
    Opened.last = str(path)
    return io.BufferedReader(stream)


def read_input(path: str | Path, *, largest: int = MAX_DOCUMENT, named: bool = False) -> bytes:
    """The whole content of a file (see `open_input`); one of more bytes is an InputError."""
    with open_input(path, named=named) as stream:
        content = stream.read(largest + 1) if os.fstat(stream.fileno()).st_size <= largest else None
    if content is None or len(content) > largest:
        raise InputError(f"{path} has more than {largest:,} bytes; expected a smaller file")
    return content
