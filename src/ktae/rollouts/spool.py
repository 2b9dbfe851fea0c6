"""Tables that grow larger than memory: above a limit they lie in a file that has no name."""

from __future__ import annotations

import mmap
import tempfile
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
        self._mapped: list[Any] = []
        self._in_memory: list[Any] = []
        self._size = 0

    def add(self, table: Any) -> None:
        """Keep a table; an InputError if the temporary folder is full."""
        self._in_memory += table.cast(self.schema).to_batches()
        self._size += table.nbytes
        if self._size > IN_MEMORY:
            self._mapped += self._written()
            self._in_memory, self._size = [], 0

    def table(self) -> Any:
        """All of them as one."""
        return pa.Table.from_batches(self._mapped + self._in_memory, self.schema)

    def _written(self) -> list[Any]:
        """What is in memory, from a file."""
        try:
            with tempfile.TemporaryFile(prefix="ktae-") as file:
                with pa.ipc.new_file(file, self.schema) as writer:
                    for batch in self._in_memory:
                        writer.write_batch(batch)
                # The mapping keeps the file alive after it is closed and has no name.
                file.flush()
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise InputError(
                f"rollouts above {IN_MEMORY:,} bytes go to the temporary folder "
                f"{tempfile.gettempdir()}: {error.strerror or error}; TMPDIR names another"
            ) from None
        reader = pa.ipc.open_file(pa.py_buffer(mapped))
        return [reader.get_batch(i) for i in range(reader.num_record_batches)]
