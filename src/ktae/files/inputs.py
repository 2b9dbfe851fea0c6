"""Opening inputs: regular files, whose size is known before anything is read."""

from __future__ import annotations

import atexit
import io
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

from ktae.errors import InputError

MAX_DOCUMENT = 1 << 28
"""Bytes of a file that is parsed at once, such as JSON, unless the caller says less."""
FORMATS = {b"\x1f\x8b": ".jsonl.gz", b"PAR1": ".parquet", b"PK": ".eval"}
"""How the name of a file with these first bytes ends; of any other, `.jsonl`."""


class Opened:
    """What this process has read, for progress bars and for messages of unforeseen errors."""

    last = ""
    bytes_read = 0
    stdin: Path | None = None
    """The file with what standard input held."""


class _Input(io.FileIO):
    def readinto(self, buffer: Any, /) -> int | None:
        n = super().readinto(buffer)
        Opened.bytes_read += n or 0
        return n

    def readall(self) -> bytes:
        content = super().readall()
        Opened.bytes_read += len(content)
        return content


def open_input(path: str | Path, *, named: bool = False) -> io.BufferedReader:
    """Open a file for reading bytes: a regular file, or a pipe if the user named it.

    A pipe, a device or a socket that merely lies in a folder is refused. Opening or reading it
    could wait forever, or never end.

    Args:
        path: the file; a link is followed.
        named: whether the user gave this very path, so that a pipe such as `<(zcat a.gz)` is meant.

    Raises:
        InputError: the file cannot be opened, or is none.
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
    """The whole content of a file (see `open_input`) of at most `largest` bytes.

    Raises:
        InputError: the file cannot be read, or is larger.
    """
    with open_input(path, named=named) as stream:
        content = stream.read(largest + 1) if os.fstat(stream.fileno()).st_size <= largest else None
    if content is None or len(content) > largest:
        raise InputError(f"{path} has more than {largest:,} bytes; expected a smaller file")
    return content


def spooled(path: Path) -> Path:
    """A file with what standard input holds, for `-`; any other path as it is.

    Readers look at a file twice, and at the end of its name. The file goes with the process.
    """
    if str(path) != "-":
        return path
    if Opened.stdin is None:
        stdin: Any = sys.stdin.buffer
        start = stdin.peek(6)
        suffix = next((FORMATS[x] for x in FORMATS if start.startswith(x)), ".jsonl")
        folder = tempfile.mkdtemp(prefix="ktae-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        Opened.stdin = Path(folder, f"stdin{suffix}")
        with Opened.stdin.open("wb") as file:
            shutil.copyfileobj(stdin, file)
    return Opened.stdin
