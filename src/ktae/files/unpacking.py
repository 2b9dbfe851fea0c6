"""Packed files whose content is out of proportion to their bytes are refused."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterable, Iterator
from typing import Any

from ktae.errors import InputError

ANYWAY, RATIO = 1 << 24, 100
"""A file may hold 16 MB, and 100 times its own bytes. Text is packed to a third or a tenth."""
ROW = 64
"""Bytes of a row beside its values."""


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
            unpacked += sum(x.nbytes for x in columns) + ROW * len(part)
            require_proportion(unpacked, packed, name)
            yield pa.table(columns, part.schema.names)
