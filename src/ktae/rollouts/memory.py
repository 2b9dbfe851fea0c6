"""Rollouts in memory, as people have them: pandas, polars, Arrow, `datasets.Dataset`, rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ktae.arrays import above
from ktae.errors import passed_on
from ktae.rollouts import record


def is_rows(rollouts: Any) -> bool:
    """Whether these are rows as dicts."""
    is_list = isinstance(rollouts, Sequence) and len(rollouts) > 0
    return is_list and all(isinstance(row, Mapping) for row in rollouts)


def is_paths(rollouts: Any) -> bool:
    """Whether this is the name of a file, or several."""
    return isinstance(rollouts, str | Path | Sequence) and not is_rows(rollouts)


def to_arrow(rollouts: Any) -> tuple[pa.Table, Callable[[pa.Table], Any]]:
    """A table in memory as Arrow, and what makes a table of the caller's own type of such a one.

    Raises:
        InputError: it is no table, or Arrow has no type for one of its columns.
    """
    kind = type(rollouts)
    library = kind.__module__.partition(".")[0]
    kinds = (pa.ArrowException, TypeError, ValueError)
    with passed_on(f"a {kind.__name__} that is no table of Arrow", *kinds):
        if is_rows(rollouts):
            names = dict.fromkeys(name for row in rollouts for name in row)
            columns = {name: [row.get(name) for row in rollouts] for name in names}
            return pa.table(columns), pa.Table.to_pylist
        if library == "pandas":
            return pa.Table.from_pandas(rollouts), pa.Table.to_pandas
        if library == "datasets" and hasattr(rollouts, "with_format"):
            return rollouts.with_format("arrow")[:], kind
        table = pa.table(rollouts)
    return table, kind if library == "polars" else lambda table: table


def as_record(rollouts: Any, threshold: float = 0.0) -> pa.Table:
    """A table in memory as a record (`ktae.rollouts.record`), without its further columns.

    Where there is no `correct`, a reward above the threshold is correct; where there is no
    `reward`, it is `correct`.
    """
    table, _ = to_arrow(rollouts)
    table = table.select([name for name in table.column_names if name in record.COLUMNS])
    names = {*table.column_names}
    with passed_on("table: reward or correct; expected numbers", pa.ArrowException):
        if "correct" not in names and "reward" in names:
            rewards = table["reward"].cast(pa.float64()).to_numpy()
            correct = np.where(np.isnan(rewards), np.nan, above(rewards, threshold))
            table = table.append_column("correct", pa.array(correct, from_pandas=True))
        elif "reward" not in names and "correct" in names:
            table = table.append_column("reward", table["correct"].cast(pa.float64()))
    return record.conform(table, "table")
