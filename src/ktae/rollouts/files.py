"""The rows of a file as they are, one at a time: JSON Lines, JSON, Parquet, PyTorch, and gzip.

What a row means is the matter of `ktae.rollouts.schemas`. Errors name the file and the line, the
entry (JSON) or the row (Parquet), counted from 1.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from ktae.errors import InputError, one_line
from ktae.files.text import path_text
from ktae.rollouts import record

ROWS_PER_BATCH = 1024
"""Rows of a Parquet file that exist as Python objects at a time."""
MAX_DEPTH = 100
"""Of lists and objects in each other, in JSON: whatever works on a row may recurse so far. Parquet
has a limit of its own."""

LONGEST_LINE = 256_000_000
"""Bytes of one line of JSON Lines, which is one rollout or one problem's rollouts."""
LARGEST_UNPACKED = 2_000_000_000
"""Bytes that a file may have when unpacked, if it has to be whole in memory: a small .gz can hold
any number of them."""

Stream = IO[bytes] | gzip.GzipFile
Rows = Iterator[tuple[object, str]]
"""Each row, and its place for errors."""
Reject = Callable[[InputError], None]


class EmptyFileError(InputError):
    """A file holds no rows yet: it is empty, or all of it is the beginning of a line."""


def iterate_rows(path: Path, reject: Reject | None = None) -> Rows:
    """The rows of a file, each with the place that its errors name.

    Args:
        path: the file.
        reject: called with the error of a line of JSON Lines that is broken, such as the last one
            of a file that is being written; it may raise it. Raised where none is given.

    Raises:
        EmptyFileError: it holds no rows yet.
        InputError: the file cannot be read; it names the line or row.
    """
    suffix, name = format_of(path), path_text(path)
    with _open(path) as stream:
        if suffix == ".jsonl":
            yield from jsonl_rows(stream, name, reject)
        else:
            yield from FORMATS[suffix](stream, name)


def format_of(path: Path) -> str:
    """A key of `FORMATS`, by the end of the file's name.

    Raises:
        InputError: there is no such file, or its name tells no format.
    """
    if not os.path.exists(path):
        raise InputError(f"{path} does not exist")
    if path.is_dir():
        raise InputError(f"{path} is a folder; expected a file")
    suffix = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if suffix not in FORMATS:
        raise InputError(
            f"{path}: cannot tell the format; expected a name that ends in {', '.join(FORMATS)}, "
            "or that followed by .gz"
        )
    return suffix


def is_own_record(path: Path) -> bool:
    """Whether ktae has written the file.

    Raises:
        InputError: it has, and the record is broken or of a version that is not known.
    """
    if format_of(path) != ".parquet":
        return False
    name = path_text(path)
    with _open(path) as stream, _parquet_file(stream, name) as file:
        is_own = record.VERSION_KEY in (file.schema_arrow.metadata or {})
        if is_own:
            record.parse_record(file.schema_arrow.empty_table(), name)
    return is_own


def own_tables(path: Path) -> Iterator[Any]:
    """The tables of a record that ktae has written, in order.

    Raises:
        InputError: the record is broken or empty.
    """
    name, done = path_text(path), 0
    with _open(path) as stream, _parquet_file(stream, name) as file:
        for batch in file.iter_batches(ROWS_PER_BATCH):
            table = _own_table(pa.table(batch), file, name, done)
            yield table.replace_schema_metadata(record.SCHEMA.metadata)
            done += len(batch)
    if not done:
        raise EmptyFileError(f"{name} is empty: it holds no rollouts")


def _own_table(table: Any, file: pq.ParquetFile, name: str, done: int) -> Any:
    """Rows of a record after the first `done`, checked, and without numbers of words."""
    table = table.replace_schema_metadata(file.schema_arrow.metadata)
    return record.without_words(record.parse_record(table, name, done))


def jsonl_rows(stream: Stream, name: str, reject: Reject | None = None) -> Rows:
    """One value a line; blank lines are skipped."""
    is_first = True
    for number in itertools.count(1):
        line = stream.readline(LONGEST_LINE + 1)
        where = f"{name}, line {number}"
        if not line:
            return
        if len(line) > LONGEST_LINE:
            raise InputError(f"{where}: more than {LONGEST_LINE:,} bytes; expected one rollout")
        if not line.strip():
            continue
        try:
            row = json.loads(line.rstrip())  # with its end, what is cut off would be at line 2
            _require_shallow(row, line.count(b"[") + line.count(b"{"), where)
        except (ValueError, RecursionError, InputError) as error:
            broken = error if isinstance(error, InputError) else _json_error(error, where)
            # A first line that does not end: the file has only just been begun.
            if is_first and not line.endswith(b"\n"):
                raise EmptyFileError(*broken.args) from None
            if reject is None:
                raise broken from None
            reject(broken)
        else:
            yield row, where
        is_first = False


def json_rows(stream: Stream, name: str) -> Rows:
    """The entries of each list, and each other value that the file holds, such as a single object.

    The text is whole in memory, its entries become objects one at a time.
    """
    try:
        text = _whole(stream, name).decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise _json_error(error, name) from None
    # A file may hold one list, several, or values one after another; commas matter in lists alone.
    number, at, in_list = 0, _after_blanks(text, 0), False
    while at < len(text):
        if text[at] == ("]" if in_list else "["):
            in_list = not in_list
            at = _after_blanks(text, at + 1)
            continue
        number += 1
        where = f"{name}, entry {number}"
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise _json_error(error, where) from None
        _require_shallow(value, text.count("[", at, end) + text.count("{", at, end), where)
        yield value, where
        at = _after_blanks(text, end)
        if in_list:
            if not text.startswith((",", "]"), at):
                raise InputError(f"{where}: broken JSON: expected a comma or ] after it")
            at = _after_blanks(text, at + 1) if text[at] == "," else at
    if in_list:
        raise InputError(f"{name}: broken JSON: the list does not end")


_DECODER = json.JSONDecoder()
_BLANKS = re.compile(r"[ \t\r\n]*")


def _after_blanks(text: str, start: int) -> int:
    blanks = _BLANKS.match(text, start)
    assert blanks is not None  # it matches nothing at all, too
    return blanks.end()


def _json_error(error: Exception, where: str) -> InputError:
    """What Python says of broken JSON, which may also be nested too deeply, with its place."""
    if isinstance(error, json.JSONDecodeError):
        line = "" if error.lineno == 1 else f"line {error.lineno}, "
        message = error.msg.removesuffix(" at")  # some end with the "at" that a place follows
        return InputError(f"{where}: broken JSON: {message} at {line}column {error.colno}")
    if isinstance(error, UnicodeDecodeError):
        return InputError(f"{where}: not UTF-8")
    if isinstance(error, RecursionError):
        return InputError(f"{where}: nested too deeply")
    return InputError(f"{where}: broken JSON: {error}")  # a number of too many digits


def _require_shallow(value: object, brackets: int, where: str) -> None:
    """Raise an InputError for a value of more than `MAX_DEPTH` levels.

    Args:
        value: what was read.
        brackets: how many lists and objects there are in it at most: few need no look.
        where: begins the error.
    """
    level, depth = [value] if brackets > MAX_DEPTH else [], 0
    while level := [x for x in level if isinstance(x, dict | list)]:
        depth += 1
        if depth > MAX_DEPTH:
            raise InputError(
                f"{where}: lists and objects in each other, more than {MAX_DEPTH} deep"
            )
        level = [y for x in level for y in (x.values() if isinstance(x, dict) else x)]


def parquet_rows(stream: Stream, name: str) -> Rows:
    """One dict a row; of ktae's own records without credit, which is computed again."""
    with _parquet_file(stream, name) as file:
        record.require_single_columns(file.schema_arrow.names, name)
        is_own = record.VERSION_KEY in (file.schema_arrow.metadata or {})
        done = 0
        for batch in file.iter_batches(ROWS_PER_BATCH):
            table = pa.table(batch)
            if is_own:
                # What others have added to a record is no part of it, and is kept beside it.
                added = [x for x in table.column_names if x not in record.SCHEMA.names]
                rows_of_record = _own_table(table.drop_columns(added), file, name, done)
                beside = table.select(added)
                table = rows_of_record.drop_columns("credit")
                for column in added:
                    table = table.append_column(column, beside[column])
            try:
                rows = table.to_pylist()
            except (ValueError, OverflowError) as error:  # text not UTF-8, a date after 9999
                raise InputError(
                    f"{name}, rows {done + 1} to {done + len(batch)}: broken Parquet: "
                    f"{one_line(error)}"
                ) from None
            yield from ((row, f"{name}, row {done + n}") for n, row in enumerate(rows, start=1))
            done += len(batch)


def torch_rows(stream: Stream, name: str) -> Rows:
    """slime's `--save-debug-rollout-data`: `{"rollout_id": 3, "samples": [...]}`.

    Only plain values and tensors are read, so nothing that the file says is run.
    """
    try:
        import torch
    except ModuleNotFoundError:
        raise InputError(f"{name}: a .pt file needs torch, which is not installed") from None
    packed = io.BytesIO(_whole(stream, name))
    try:
        content = torch.load(packed, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises a dozen kinds
        raise InputError(f"{name}: broken, or more than plain data: {one_line(error)}") from None
    samples = content.get("samples") if isinstance(content, dict) else None
    if not isinstance(samples, list):
        raise InputError(f"{name}: {type(content).__name__}; expected a dict with a list samples")
    for number, sample in enumerate(samples, start=1):
        step = {"rollout_id": content.get("rollout_id")}
        yield (step | sample if isinstance(sample, dict) else sample), f"{name}, sample {number}"


FORMATS: dict[str, Callable[[Stream, str], Rows]] = {
    ".jsonl": jsonl_rows,
    ".json": json_rows,
    ".parquet": parquet_rows,
    ".pt": torch_rows,
}
"""By the end of a file's name; each with `.gz` after that, too."""
SUFFIXES = tuple(f"{suffix}{gz}" for suffix in FORMATS for gz in ("", ".gz"))
"""Ends of the names of all files that can be read."""


def without_format(name: str) -> str:
    """A file's name without what says its format; models, tasks and versions have dots, too."""
    return name.removesuffix(next((end for end in SUFFIXES if name.endswith(end)), ""))


@contextmanager
def _open(path: Path) -> Iterator[Stream]:
    try:
        with open(path, "rb") as raw:
            if os.fstat(raw.fileno()).st_size == 0:
                raise EmptyFileError(f"{path} is empty")
            if path.suffix == ".gz":
                with gzip.open(raw) as stream:
                    yield stream
            else:
                yield raw
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: broken gzip: {error}") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def _whole(stream: Stream, name: str) -> bytes:
    """All that is left of a stream; of a packed one up to a limit."""
    if not isinstance(stream, gzip.GzipFile):
        return stream.read()
    # One byte more than allowed tells that there is more.
    content = stream.read(LARGEST_UNPACKED + 1)
    if len(content) > LARGEST_UNPACKED:
        raise InputError(
            f"{name}: more than {LARGEST_UNPACKED:,} bytes when unpacked; expected less, or the "
            "file as it is unpacked"
        )
    return content


@contextmanager
def _parquet_file(stream: Stream, name: str) -> Iterator[pq.ParquetFile]:
    """The Parquet file in `stream`; what is wrong with it is found while the block reads it."""
    content = io.BytesIO(_whole(stream, name)) if isinstance(stream, gzip.GzipFile) else stream
    try:
        yield pq.ParquetFile(content)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{name}: broken Parquet: {one_line(error)}") from None
