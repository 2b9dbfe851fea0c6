"""The rollout record, version 3: an Arrow table of one row a rollout, kept as Parquet.

Trainer, scoring, report and plots hand rollouts to each other in this form and no other. Every
column's meaning is in the schema, and so in every file, and the version in its metadata.
"""

from __future__ import annotations

import contextlib
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ktae.errors import InputError, passed_on
from ktae.files.atomic import atomic_write
from ktae.files.inputs import open_input

VERSION = "3"
VERSION_KEY = b"ktae.rollouts.version"
ROWS_PER_BATCH = 1024  # of a record
CREDIT_KEY = b"ktae.credit"  # metadata of what `ktae score` has written: the estimator
UNIT_KEY, WORDS = b"ktae.unit", b"words"
"""Metadata of a record whose token ids number the words of its own responses."""

TYPES = {
    "text": pa.string(),
    "int": pa.int32(),
    "number": pa.float64(),
    "ints": pa.list_(pa.int32()),
    "bools": pa.list_(pa.bool_()),
    "floats": pa.list_(pa.float32()),
    "segments": pa.list_(pa.struct({"role": pa.string(), "text": pa.string()})),
}
COLUMNS = tomllib.loads(Path(__file__).with_name("record.toml").read_text(encoding="utf-8"))
"""Each column's type and meaning; `group` is never null."""
SCHEMA = pa.schema(
    [
        pa.field(x, TYPES[column["type"]], x != "group", {"description": column["text"]})
        for x, column in COLUMNS.items()
    ],
    metadata={VERSION_KEY: VERSION},
)


def write(table: Any, path: str | Path) -> None:
    """Write a record as Parquet, beside and then renamed. The schema's metadata is kept.

    Raises:
        InputError: `table` is not a record (see `conform`), or the file cannot be written.
    """
    table = conform(table)
    with atomic_write(path) as temporary:
        write_parquet(table, temporary)


def write_parquet(table: Any, path: Path) -> None:
    """Write any table as Parquet to this very path."""
    with open(path, "wb") as file:  # Arrow opens no path that is not UTF-8
        pq.write_table(table, file, compression="zstd", row_group_size=1 << 16)


def metadata_of(path: Path) -> dict[bytes, bytes]:
    """The metadata of a Parquet file; none of any other, and of one that is broken."""
    kinds = (InputError, pa.ArrowException, OSError, ValueError)
    with contextlib.suppress(*kinds), open_input(path) as stream:
        return (path.suffix == ".parquet" and pq.read_metadata(stream).metadata) or {}
    return {}  # what is wrong with it is said where it is read


def without_words(table: Any) -> Any:
    """The table; one whose token ids number words loses them, and what is aligned with them.

    The numbers mean nothing beside another file or a tokenizer. The responses are still there.
    """
    is_of_words = (table.schema.metadata or {}).get(UNIT_KEY) == WORDS
    names = {"token_ids", "mask", "credit"} & set(table.column_names)
    return table.drop_columns(list(names)) if is_of_words else table


def require_single_columns(names: Sequence[str], where: str) -> None:
    """Raise an InputError if a Parquet file, which may do so, names two columns alike."""
    name, n = Counter(names).most_common(1)[0] if names else ("", 0)
    if n > 1:
        raise InputError(f"{where}: {n} columns {name!r}; expected one")


def conform(table: Any, where: str = "rollout record") -> Any:
    """`table` with the record's columns in the record's types and order.

    Columns that are absent become null, but for `group` and `reward`, which have to be there, and
    NaN in `reward` and `correct` becomes null. Metadata beside the version is kept.

    Raises:
        InputError: a column is unknown, absent or of another type, or a row breaks what the schema
            promises.
    """
    if not isinstance(table, pa.Table):
        raise InputError(f"{where}: a {type(table).__name__}; expected a pyarrow.Table")
    names = table.column_names
    require_single_columns(names, where)
    if unknown := [name for name in names if name not in COLUMNS]:
        raise InputError(f"{where}: unknown column {unknown[0]!r}; other fields belong in 'extra'")
    if missing := [name for name in ("group", "reward") if name not in names]:
        raise InputError(f"{where}: no column {missing[0]!r}")
    columns = {}
    for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True):
        with passed_on(f"{where}: column {name!r}; expected {kind}", pa.ArrowException):
            column = table[name].cast(kind) if name in names else pa.nulls(len(table), kind)
        is_score = name in ("reward", "correct")
        columns[name] = pc.if_else(pc.is_nan(column), None, column) if is_score else column
    # The estimator and the unit of a scored record are metadata, too, and go on with it.
    metadata = (table.schema.metadata or {}) | SCHEMA.metadata
    result = pa.table(columns, schema=SCHEMA.with_metadata(metadata))
    _check_rows(result, where)
    return result


def _check_rows(table: Any, where: str) -> None:
    """Whatever a type cannot say: finite rewards, known verdicts, aligned lists."""
    # What is aligned with token_ids has their length; -1 is that of no list.
    lengths = pc.fill_null(pc.list_value_length(table["token_ids"]), -1)
    aligned = {x: pc.equal(pc.list_value_length(table[x]), lengths) for x in ("mask", "credit")}
    either = pc.or_(pc.is_valid(table["response"]), pc.is_valid(table["token_ids"]))
    known = pc.is_in(table["correct"], pa.array([0.0, 1.0, None]))
    for holds, message in (
        (pc.is_valid(table["group"]), "group is null; expected a value"),
        (pc.is_finite(table["reward"]), "reward is not finite; expected a finite number"),
        (known, "correct is none of 1, 0 and null (unknown)"),
        (either, "neither response nor token_ids; expected one of them"),
        *((x, f"{name} and token_ids differ in length") for name, x in aligned.items()),
    ):
        row = pc.index(pc.fill_null(holds, True), False).as_py()
        if row >= 0:
            raise InputError(f"{where}, row {row + 1}: {message}")
    # The schema cannot forbid a null inside a list.
    flat = {x: pc.list_flatten(table[x]) for x in ("token_ids", "mask", "credit")}
    if wrong := [name for name, values in flat.items() if values.null_count]:
        raise InputError(f"{where}: {wrong[0]} holds a null")
    if pc.any(pc.less(flat["token_ids"], 0)).as_py():
        raise InputError(f"{where}: token_ids holds a negative number")
