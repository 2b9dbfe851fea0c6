"""Credit and credit tables as Arrow, where they come some groups at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ktae.backends.table import CreditTable
from ktae.rollouts import record
from ktae.rollouts.groups import ROWS_PER_BATCH
from ktae.rollouts.spool import Spool

DISTINCT = ["distinct_a", "distinct_b", "distinct_c", "distinct_d"]
"""The counts a, b, c and d with identical rollouts of a group taken once."""


class InOrder:
    """A column of lists that come by rows in any order, and are kept in the rows' order."""

    def __init__(self, name: str) -> None:
        self._schema = pa.schema([record.SCHEMA.field(name)])
        self._spool = Spool(self._schema)
        self._waiting: dict[int, np.ndarray] = {}

    def put(self, rows: np.ndarray, values: Sequence[np.ndarray]) -> None:
        """Keep the lists of some rows; what is not yet in order stays in memory."""
        first = self._spool.rows
        if (rows == np.arange(first, first + len(rows))).all():
            self._add(values)
        else:
            self._waiting |= {int(row): x.copy() for row, x in zip(rows, values, strict=True)}
        ready: list[np.ndarray] = []
        while (value := self._waiting.pop(self._spool.rows + len(ready), None)) is not None:
            ready.append(value)
        self._add(ready)

    def column(self) -> Any:
        """All lists."""
        return self._spool.table().column(0)

    def _add(self, values: Sequence[np.ndarray]) -> None:
        if values:
            column = list_column(values, self._schema.field(0).type)
            self._spool.add(pa.table([column], schema=self._schema))


class Tables:
    """Makes the Arrow table of a credit table, whatever part of the groups it has."""

    def __init__(
        self, labels: Any, ids: np.ndarray | None = None, texts: Sequence[str | None] = ()
    ) -> None:
        """`labels`: group and step of all groups; `ids`: ascending, with their `texts`."""
        self._group = labels["group"].combine_chunks().dictionary_encode()
        self._step = labels["step"].combine_chunks()
        self._ids = ids
        self._texts = pa.array(list(texts), pa.string()).dictionary_encode()
        whole = {"step": pa.int32(), "token_id": pa.int32(), "token": self._texts.type}
        counts = dict.fromkeys([*"abcd", *DISTINCT], pa.int32())
        statistics = dict.fromkeys(CreditTable._fields[6:], pa.float64())
        self.schema = pa.schema({"group": self._group.type} | whole | counts | statistics)

    def __call__(self, table: CreditTable, distinct: np.ndarray) -> Any:
        """One row for each of the table's; its groups are numbers. `distinct`: (4, rows)."""
        token = pa.nulls(len(table.group), self._texts.type)
        if self._ids is not None:
            token = self._texts.take(pa.array(np.searchsorted(self._ids, table.token_id)))
        columns = {
            "group": self._group.take(pa.array(table.group)),
            "step": self._step.take(pa.array(table.group)),
            "token_id": table.token_id.astype(np.int32),
            "token": token,
        }
        counts = {name: getattr(table, name).astype(np.int32) for name in "abcd"}
        counts |= dict(zip(DISTINCT, distinct.astype(np.int32), strict=True))
        statistics = {name: getattr(table, name) for name in CreditTable._fields[6:]}
        return pa.table(columns | counts | statistics, schema=self.schema)


def list_column(rows: Sequence[np.ndarray], kind: Any) -> Any:
    """Arrays of different lengths as a column of lists, in chunks whose offsets fit in int32."""
    chunks = []
    for start in range(0, len(rows), ROWS_PER_BATCH):
        part = rows[start : start + ROWS_PER_BATCH]
        offsets = np.cumsum([0, *map(len, part)], dtype=np.int32)
        values = pa.array(np.concatenate(part), type=kind.value_type)
        chunks.append(pa.ListArray.from_arrays(offsets, values))
    return pa.chunked_array(chunks, type=kind)
