"""Opening inputs: regular files, whose size is known before anything is read."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

from ktae.errors import InputError

MAX_DOCUMENT = 1 << 28
"""Bytes of a file that is parsed at once, such as JSON, unless the caller says less."""

_last = ""


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
    global _last
    try:
        is_pipe = named and stat.S_ISFIFO(os.stat(path).st_mode)
        # A pipe that nobody writes to would block without O_NONBLOCK.
        flags = os.O_RDONLY | os.O_CLOEXEC | (0 if is_pipe else os.O_NONBLOCK)
        stream = os.fdopen(os.open(path, flags), "rb")  # a folder raises an OSError here
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {str(path)!r:.300}: {why}") from None
    if not is_pipe and not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise InputError(f"cannot read {str(path)!r:.300}: a pipe or a device; expected a file")
    _last = str(path)
    return stream


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


def last_opened() -> str:
    """The path of the file that was opened last, for the message of an unforeseen error."""
    return _last
