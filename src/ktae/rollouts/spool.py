"""Tables that grow larger than memory: above a limit they lie in a file that has no name."""

from __future__ import annotations

import itertools
import mmap
import tempfile
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ktae.errors import InputError

IN_MEMORY = 1 << 30
"""Bytes of tables that stay in memory; what is more goes to the temporary folder."""


class Spool:
    """Tables of one schema, in order.

    The file is mapped, not read: the system loads the parts that are used, and drops them where
    memory is short. It has no name, so nothing is left of it when the process ends.
    """

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.rows = 0
        self._batches: list[Any] = []
        self._written = 0
        self._in_memory = 0

    def add(self, table: Any) -> None:
        """Keep a table; an InputError if the temporary folder is full."""
        self.rows += len(table)
        self._batches += table.cast(self.schema).to_batches()
        # What is already in the file does not count, though it is mapped.
        self._in_memory += table.nbytes
        if self._in_memory > IN_MEMORY:
            self._write()

    def extend(self, tables: Iterable[Any]) -> Spool:
        """Keep several tables; returns itself."""
        for table in tables:
            self.add(table)
        return self

    def table(self, begin: int = 0, end: int | None = None) -> Any:
        """The rows from `begin` to `end`, as one table."""
        rows = pa.Table.from_batches(self._batches, self.schema)
        return rows.slice(begin, None if end is None else end - begin)

    def _write(self) -> None:
        """Move what is in memory to a file."""
        try:
            with tempfile.TemporaryFile(prefix="ktae-") as file:
                with pa.ipc.new_file(file, self.schema) as writer:
                    for batch in itertools.islice(self._batches, self._written, None):
                        writer.write_batch(batch)
                # The mapping keeps the file alive after it is closed and has no name.
                file.flush()
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise InputError(
                f"rollouts above {IN_MEMORY:,} bytes go to the temporary folder "
                f"{tempfile.gettempdir()} while they are worked on: {error.strerror or error}; "
                "TMPDIR names another folder"
            ) from None
        reader = pa.ipc.open_file(pa.py_buffer(mapped))
        batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
        self._batches[self._written :] = batches
        self._written, self._in_memory = len(self._batches), 0
