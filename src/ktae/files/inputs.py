"""Opening inputs: regular files of a known size, and packed ones in proportion to theirs."""

from __future__ import annotations

import gzip
import io
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ktae.errors import InputError

MAX_DOCUMENT = 1 << 28  # bytes of a file that is parsed at once, such as JSON
ANYWAY, RATIO = 1 << 24, 100
"""A packed file may hold 16 MB, and 100 times its bytes. Text is packed to a third or a tenth."""


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


def open_input(path: str | Path) -> io.BufferedReader:
    """Open a regular file for reading bytes; reading a pipe or a device might never end."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # or a pipe could block at once
    try:
        stream = _Input(path, opener=lambda name, _: os.open(name, flags))
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {str(path)!r:.300}: {why}") from None
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise InputError(f"cannot read {str(path)!r:.300}: a pipe or a device; expected a file")
    Opened.last = str(path)
    return io.BufferedReader(stream)


def read_input(path: str | Path, *, largest: int = MAX_DOCUMENT) -> bytes:
    """The whole content of a file (see `open_input`); one of more bytes is an InputError."""
    with open_input(path) as stream:
        if os.fstat(stream.fileno()).st_size > largest:
            raise InputError(f"{path} has more than {largest:,} bytes; expected a smaller file")
        return stream.read(largest)


def require_proportion(unpacked: int, packed: int, name: str) -> None:
    """Raise an InputError for `unpacked` bytes that came out of only `packed` ones."""
    if unpacked > ANYWAY + RATIO * packed:
        raise InputError(f"{name} unpacks to more than {RATIO} times its {packed:,} bytes")


class _Unpacking(io.RawIOBase):
    def __init__(self, packed: Any, name: str) -> None:
        self.content, self.name = gzip.GzipFile(fileobj=packed), name
        self.size = os.fstat(packed.fileno()).st_size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self.content.seek(offset, whence)

    def readinto(self, buffer: Any, /) -> int:
        part = self.content.read1(len(buffer))
        require_proportion(self.content.tell(), self.size, self.name)
        buffer[: len(part)] = part
        return len(part)


class Unpacked(io.BufferedReader):
    """What a gzip file holds, in proportion to its bytes."""

    def __init__(self, packed: Any, name: str) -> None:
        super().__init__(_Unpacking(packed, name), 1 << 16)


def proportionate(batches: Iterable[Any], rows: int, packed: int, name: str) -> Iterator[Any]:
    """Arrow's record batches in tables of at most `rows` rows, without dictionaries: in one a long
    text stands once, and any number of rows may refer to it."""
    import pyarrow as pa

    unpacked = 0
    for batch in batches:
        for begin in range(0, len(batch), rows):
            part = batch.slice(begin, rows)
            columns = [x.dictionary_decode() if hasattr(x, "indices") else x for x in part.columns]
            unpacked += sum(x.nbytes for x in columns) + 64 * len(part)
            require_proportion(unpacked, packed, name)
            yield pa.table(columns, part.schema.names)
