"""From files to the rollout record. One function a format, in `READERS`.

What a row's fields may be is said in `ktae.rollouts.rows`; rows of the dumps that TRL and verl
write are turned into such rows by `ktae.rollouts.dumps`. A group never spans files: where several
are read, each label gets its file's path in front ("runs/a.jsonl:7").
"""

from __future__ import annotations

import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ktae.errors import InputError, one_line
from ktae.rollouts import record
from ktae.rollouts.dumps import Tolerance, is_padding, plain_row
from ktae.rollouts.rows import to_record_row

ROWS_PER_BATCH = 1024
"""Rows that exist as Python objects at a time."""
MAX_DEPTH = 100
"""Of lists and objects in each other, in JSON: whatever works on a row may recurse so far. Parquet
has a limit of its own."""


class Options(NamedTuple):
    """How rows become rollouts."""

    threshold: float = 0.0
    """A rollout without a field `correct` is correct if its reward is above this."""
    correctness: str | None = None
    """The reward of a TRL dump that says whether a rollout is correct."""
    tolerance: Tolerance | None = None
    """Where given, what a row lacks is made up for and noted there, see `Tolerance`."""


def read(
    paths: Sequence[str | Path],
    *,
    threshold: float = 0.0,
    correctness: str | None = None,
    tolerance: Tolerance | None = None,
) -> Any:
    """The rollouts of all files, in order, as one record (`ktae.rollouts.record.SCHEMA`).

    Args:
        paths: JSON Lines or Parquet files, by their names' ends; with `.gz` after that, gzip.
        threshold: see `Options`.
        correctness: see `Options`.
        tolerance: see `Options`.

    Raises:
        InputError: a file or a row cannot be used; it names the file and the line (or, in Parquet,
            the row, counted from 1), what was found and what was expected.
    """
    files = [Path(path) for path in paths]
    if not files:
        raise InputError("no files to read")
    require_distinct(files)
    options = Options(threshold, correctness, tolerance)
    tables = [_reader_of(file)(file, options) for file in files]
    if len(files) > 1:
        tables = [label(table, f"{file}:") for table, file in zip(tables, files, strict=True)]
    return pa.concat_tables(tables)


def require_distinct(files: Iterable[Path]) -> None:
    """Raise an InputError for a file that is there twice, under whatever name."""
    seen = set()
    for file in files:
        if file.resolve() in seen:
            raise InputError(
                f"the same file is given twice: {file}; its rollouts would count twice"
            )
        seen.add(file.resolve())


def iterate_rows(path: Path) -> Iterator[tuple[object, str]]:
    """The rows of a JSON Lines or Parquet file as they are, each with the place for errors.

    For what is no rollout record: saved evaluations of other tools, whose fields differ.

    Raises:
        InputError: the file cannot be read; it names the line or row.
    """
    reader = _reader_of(path)
    with _open(path) as stream:
        if reader is read_jsonl:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield _parse(line, f"{path}, line {number}"), f"{path}, line {number}"
            return
        with _parquet(stream, path) as file:
            yield from _parquet_rows(file, path)


def read_json(path: Path) -> object:
    """A whole JSON file, or the same with `.gz`.

    Raises:
        InputError: it cannot be read, is not UTF-8 or not JSON.
    """
    with _open(path) as stream:
        return _parse(stream.read(), str(path))


def read_jsonl(path: Path, options: Options) -> Any:
    """JSON Lines: one object a line; blank lines are skipped."""
    with _open(path) as stream:
        rows = (
            (_parse(line, f"{path}, line {number}"), f"{path}, line {number}")
            for number, line in enumerate(stream, start=1)
            if line.strip()
        )
        return _table(rows, path, options)


def read_parquet(path: Path, options: Options) -> Any:
    """Parquet: a record that ktae has written, or any table with columns as above."""
    with _open(path) as stream, _parquet(stream, path) as file:
        if record.VERSION_KEY in (file.schema_arrow.metadata or {}):
            table = record.parse_record(file.read(), str(path))
            if not len(table):
                raise InputError(f"{path} is empty: it holds no rollouts")
            return table.replace_schema_metadata(record.SCHEMA.metadata)
        return _table(_parquet_rows(file, path), path, options)


READERS: dict[str, Callable[[Path, Options], Any]] = {
    ".jsonl": read_jsonl,
    ".parquet": read_parquet,
}


def label(table: Any, prefix: str) -> Any:
    """`table` with `prefix` in front of every group's label."""
    labels = pc.binary_join_element_wise(prefix, table["group"], "")
    return table.set_column(0, record.SCHEMA.field("group"), labels)


def _reader_of(path: Path) -> Callable[[Path, Options], Any]:
    if not os.path.exists(path):
        raise InputError(f"{path} does not exist")
    if path.is_dir():
        raise InputError(
            f"{path} is a folder; expected files (ktae report, show and null take folders as well)"
        )
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if suffix not in READERS:
        raise InputError(
            f"{path}: cannot tell the format; expected a name that ends in {', '.join(READERS)}, "
            "or that followed by .gz"
        )
    return READERS[suffix]


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes] | gzip.GzipFile]:
    try:
        with open(path, "rb") as raw:
            if os.fstat(raw.fileno()).st_size == 0:
                raise InputError(f"{path} is empty")
            if path.suffix == ".gz":
                with gzip.open(raw) as stream:
                    yield stream
            else:
                yield raw
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: broken gzip: {error}") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


@contextmanager
def _parquet(stream: IO[bytes] | gzip.GzipFile, path: Path) -> Iterator[pq.ParquetFile]:
    """The Parquet file in `stream`; what is wrong with it is found while the block reads it."""
    content = io.BytesIO(stream.read()) if isinstance(stream, gzip.GzipFile) else stream
    try:
        yield pq.ParquetFile(content)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: broken Parquet: {one_line(error)}") from None


def _parquet_rows(file: pq.ParquetFile, path: Path) -> Iterator[tuple[object, str]]:
    record.require_single_columns(file.schema_arrow.names, str(path))
    done = 0
    for batch in file.iter_batches(ROWS_PER_BATCH):
        try:
            rows = batch.to_pylist()
        except (ValueError, OverflowError) as error:  # text that is no UTF-8, a date after 9999
            raise InputError(
                f"{path}, rows {done + 1} to {done + len(batch)}: broken Parquet: {one_line(error)}"
            ) from None
        yield from ((row, f"{path}, row {done + n}") for n, row in enumerate(rows, start=1))
        done += len(batch)


def _table(rows: Iterable[tuple[object, str]], path: Path, options: Options) -> Any:
    """The record of rows, each with the place that its errors name."""
    rollouts = _rollouts(rows, options)
    tables = []
    while batch := list(islice(rollouts, ROWS_PER_BATCH)):
        tables.append(pa.Table.from_pylist(batch, schema=record.SCHEMA))
    if not tables:
        if options.tolerance and options.tolerance.rejected:
            raise InputError(options.tolerance.rejected[0])
        raise InputError(f"{path} is empty: it holds no rollouts")
    return pa.concat_tables(tables)


def _rollouts(rows: Iterable[tuple[object, str]], options: Options) -> Iterator[dict[str, Any]]:
    for row, where in rows:
        if is_padding(row):
            if options.tolerance is not None:
                options.tolerance.padding += 1
            continue
        try:
            plain = plain_row(row, where, options.correctness)
            if options.tolerance is not None:
                plain = options.tolerance.complete(plain, where)
            rollout = to_record_row(plain, where, options.threshold)
        except InputError as error:
            if options.tolerance is None:
                raise
            options.tolerance.rejected.append(str(error))
            continue
        yield rollout


def _parse(line: bytes, where: str) -> object:
    try:
        content = json.loads(line.rstrip())  # with its end, what is cut short would be at line 2
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: broken JSON: {error.msg} at column {error.colno}") from None
    except UnicodeDecodeError:
        raise InputError(f"{where}: not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: broken JSON: {error}") from None
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and _is_deeper(content, MAX_DEPTH):
        raise InputError(f"{where}: lists and objects in each other, more than {MAX_DEPTH} deep")
    return content


def _is_deeper(value: object, limit: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return limit == 0 or any(_is_deeper(item, limit - 1) for item in inner)
