"""The rows of a file as they are, one at a time: JSON Lines, JSON, CSV, Parquet, PyTorch, gzip.

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
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ktae.errors import InputError, one_line
from ktae.files.text import path_text
from ktae.rollouts import record

ROWS_PER_BATCH = 1024
"""Rows of a Parquet file that exist as Python objects at a time."""
BYTES_PER_BATCH = 1 << 26
"""And bytes of them, whatever their file says: a small file can hold very long rows."""
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
    if not path.is_file():
        raise InputError(f"{path} is a pipe or a device; expected a file")
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
        is_own = record.VERSION_KEY in (file.schema.metadata or {})
        if is_own:
            record.parse_record(file.schema.empty_table(), name)
    return is_own


def own_tables(path: Path) -> Iterator[Any]:
    """The tables of a record that ktae has written, in order.

    Raises:
        InputError: the record is broken or empty.
    """
    name, done = path_text(path), 0
    with _open(path) as stream, _parquet_file(stream, name) as file:
        for part in _tables(file, name):
            table = _own_table(part, file, name, done)
            yield table.replace_schema_metadata(record.SCHEMA.metadata)
            done += len(table)
    if not done:
        raise EmptyFileError(f"{name} is empty: it holds no rollouts")


def _own_table(table: Any, file: _Parquet, name: str, done: int) -> Any:
    """Rows of a record after the first `done`, checked, and without numbers of words."""
    table = table.replace_schema_metadata(file.schema.metadata)
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
        if isinstance(value, dict) and {"columns", "data"} <= value.keys() <= TABLE:
            yield from _table_rows(value, where)
        else:
            yield value, where
        at = _after_blanks(text, end)
        if in_list:
            if not text.startswith((",", "]"), at):
                raise InputError(f"{where}: broken JSON: expected a comma or ] after it")
            at = _after_blanks(text, at + 1) if text[at] == "," else at
    if in_list:
        raise InputError(f"{name}: broken JSON: the list does not end")


TABLE = {"columns", "data", "ncols", "nrows", "column_types", "index"}
"""Fields of a table as W&B and pandas write them."""


def _table_rows(table: dict[str, Any], where: str) -> Rows:
    """The rows of a table that is one JSON object: names of columns, and lists of values."""
    names, rows = table["columns"], table["data"]
    if not isinstance(names, list) or not isinstance(rows, list):
        raise InputError(f"{where}: columns and data that are no lists; expected a table")
    for number, values in enumerate(rows, start=1):
        if not isinstance(values, list) or len(values) != len(names):
            raise InputError(f"{where}, row {number}: expected {len(names)} values")
        yield dict(zip(map(str, names), values, strict=True)), f"{where}, row {number}"


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
        record.require_single_columns(file.schema.names, name)
        is_own = record.VERSION_KEY in (file.schema.metadata or {})
        done = 0
        for table in _tables(file, name):
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
                    f"{name}, rows {done + 1} to {done + len(table)}: broken Parquet: "
                    f"{one_line(error)}"
                ) from None
            yield from ((row, f"{name}, row {done + n}") for n, row in enumerate(rows, start=1))
            done += len(table)


def _tables(file: _Parquet, name: str) -> Iterator[Any]:
    """The rows of a Parquet file, at most `ROWS_PER_BATCH` and `BYTES_PER_BATCH` at a time.

    Texts stay in their dictionaries until it is known how much memory they take.
    """
    done = 0
    for batch in file.file.iter_batches(ROWS_PER_BATCH):
        size = sum(map(_decoded_size, batch.columns))
        rows = max(1, min(len(batch), len(batch) * BYTES_PER_BATCH // max(size, 1)))
        if rows == 1 and size // max(len(batch), 1) > LARGEST_UNPACKED:
            raise InputError(f"{name}, row {done + 1}: more than {LARGEST_UNPACKED:,} bytes")
        for begin in range(0, len(batch), rows):
            yield pa.table(batch.slice(begin, rows)).cast(file.schema)
        done += len(batch)


def _decoded_size(values: Any) -> int:
    """A bound of the bytes of an array without its dictionaries."""
    if pa.types.is_dictionary(values.type):
        lengths = pc.binary_length(values.dictionary) if len(values.dictionary) else None
        return len(values) * (pc.max(lengths).as_py() or 0) if lengths is not None else 0
    if pa.types.is_struct(values.type):
        return sum(map(_decoded_size, values.flatten()))
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return _decoded_size(values.flatten())
    return int(values.nbytes)


TEXTS = (
    *("response", "completion", "output", "generation", "prompt", "problem", "question", "input"),
    *("answer", "group", "model", "source", "text", "solution", "target"),
)
"""Columns of a CSV file that are text, whatever they look like."""


def csv_rows(stream: Stream, name: str) -> Rows:
    """One dict a row; the first line names the columns, an empty value is null or no text."""
    try:
        reader = pyarrow.csv.open_csv(
            stream,
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(TEXTS, pa.string())
            ),
        )
        number = 0
        for batch in reader:
            for row in batch.to_pylist():
                number += 1
                yield row, f"{name}, row {number}"
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{name}: broken CSV: {one_line(error)}") from None


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
    ".csv": csv_rows,
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


class _Parquet(NamedTuple):
    """A Parquet file whose texts are read as dictionaries, and the schema that it tells."""

    file: pq.ParquetFile
    schema: pa.Schema


@contextmanager
def _parquet_file(stream: Stream, name: str) -> Iterator[_Parquet]:
    """The Parquet file in `stream`; what is wrong with it is found while the block reads it."""
    content = io.BytesIO(_whole(stream, name)) if isinstance(stream, gzip.GzipFile) else stream
    try:
        plain = pq.ParquetFile(content)
        texts = [
            x.path
            for x in plain.schema
            if x.physical_type == "BYTE_ARRAY"
            and x.logical_type.type in ("STRING", "NONE")
            and ".key_value." not in x.path  # maps are cast to nothing
        ]
        yield _Parquet(pq.ParquetFile(content, read_dictionary=texts), plain.schema_arrow)
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
        raise InputError(f"{name}: broken Parquet: {one_line(error)}") from None
