"""The rows of a file as they are, one at a time: JSON Lines, JSON, CSV, Parquet, PyTorch, gzip.

What a row means is the matter of `ktae.rollouts.schemas`. Errors name the file and the line, the
entry (JSON) or the row (Parquet), counted from 1.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ktae.errors import InputError, one_line
from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.paths import LIKELY

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
TABLE = {"columns", "data", "ncols", "nrows", "column_types", "index"}
"""Fields of a table as W&B and pandas write them."""
TEXTS = {x for name in ("response", "group", "answer") for x in LIKELY[name]} | {"model", "source"}
"""Columns of a CSV file that are text, whatever they look like: 007 is not the label 7."""

Stream = IO[bytes] | gzip.GzipFile
Rows = Iterator[tuple[Any, str]]
"""Each row, and its place for errors."""
Reject = Callable[[InputError], None]

_DECODER = json.JSONDecoder()
_BLANKS = re.compile(r"\s*")


class EmptyFileError(InputError):
    """A file holds no rows yet: it is empty, or all of it is the beginning of a line."""


def iterate_rows(path: Path, reject: Reject | None = None) -> Rows:
    """The rows of a file, each with the place that its errors name.

    `reject` is called with the error of a line of JSON Lines that is broken, such as the last one
    of a file that is being written; it may raise it. Raised where none is given.
    """
    if not os.path.exists(path):
        raise InputError(f"{path} does not exist")
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        raise InputError(f"{path} is {kind}; expected a file")
    suffix, name = Path(path.name.removesuffix(".gz")).suffix, path_text(path)
    if suffix not in FORMATS:
        raise InputError(
            f"{path}: cannot tell the format; expected a name that ends in {', '.join(FORMATS)}, "
            "or that followed by .gz"
        )
    with _open(path) as stream:
        if suffix == ".jsonl":
            yield from jsonl_rows(stream, name, reject)
        else:
            yield from FORMATS[suffix](stream, name)


def own_tables(path: Path) -> Iterator[Any]:
    """The tables of a record that ktae has written, in order."""
    name, done = path_text(path), 0
    with _open(path) as stream:
        for part, before in parquet_tables(stream, name):
            table = record.without_words(record.parse_record(part, name, before))
            yield table.replace_schema_metadata(record.SCHEMA.metadata)
            done += len(table)
    if not done:
        raise EmptyFileError(f"{name} is empty: it holds no rollouts")


def jsonl_rows(stream: Stream, name: str, reject: Reject | None = None) -> Rows:
    """One value a line; blank lines are skipped."""
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        where = f"{name}, line {number}"
        if len(line) > LONGEST_LINE:
            raise InputError(f"{where}: more than {LONGEST_LINE:,} bytes; expected one rollout")
        if not line.strip():
            continue
        try:
            text = line.decode("utf-8", "surrogatepass").rstrip()
            row = _DECODER.decode(text.removeprefix("\ufeff") if number == 1 else text)
            _require_shallow(row, line.count(b"[") + line.count(b"{"))
        except (ValueError, RecursionError) as error:
            broken = _json_error(error, where)
            # A first line that does not end: the file has only just been begun.
            if number == 1 and not line.endswith(b"\n"):
                raise EmptyFileError(*broken.args) from None
            if reject is None:
                raise broken from None
            reject(broken)
        else:
            yield row, where


def json_rows(stream: Stream, name: str) -> Rows:
    """The entries of each list, and each other value that the file holds, such as one object.

    An entry that is a table, with names of columns and lists of values, stands for its rows.
    """
    number, at = 0, 0
    try:
        text = _whole(stream, name).decode().removeprefix("\ufeff").strip()
        while at < len(text):
            value, end = _DECODER.raw_decode(text, at)
            _require_shallow(value, text.count("[", at, end) + text.count("{", at, end), 1)
            blanks = _BLANKS.match(text, end)
            at = blanks.end() if blanks else end
            for entry in value if isinstance(value, list) else [value]:
                number += 1
                where = f"{name}, entry {number}"
                if isinstance(entry, dict) and {"columns", "data"} <= entry.keys() <= TABLE:
                    names = list(map(str, entry["columns"]))
                    for n, values in enumerate(entry["data"], start=1):
                        yield dict(zip(names, values, strict=True)), f"{where}, row {n}"
                else:
                    yield entry, where
    except InputError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise _json_error(error, name) from None


def _json_error(error: Exception, where: str) -> InputError:
    """What Python says of broken JSON, with its place."""
    if not isinstance(error, json.JSONDecodeError):
        return InputError(f"{where}: broken JSON: {one_line(error)}")
    line = "" if error.lineno == 1 else f"line {error.lineno}, "
    message = error.msg.removesuffix(" at")  # some end with the "at" that a place follows
    return InputError(f"{where}: broken JSON: {message} at {line}column {error.colno}")


def _require_shallow(value: Any, brackets: int, more: int = 0) -> None:
    """Raise a RecursionError for more than `MAX_DEPTH` + `more` levels; few `brackets` need no
    look."""
    level, depth = [value] if brackets > MAX_DEPTH else [], 0
    while level := [x for x in level if isinstance(x, dict | list)]:
        depth += 1
        if depth > MAX_DEPTH + more:
            raise RecursionError("nested too deeply")
        level = [y for x in level for y in (x.values() if isinstance(x, dict) else x)]


def parquet_rows(stream: Stream, name: str) -> Rows:
    """One dict a row; of ktae's own records without credit, which is computed again."""
    for table, before in parquet_tables(stream, name):
        metadata = table.schema.metadata or {}
        dropped = {"credit"} if record.VERSION_KEY in metadata else set()
        if metadata.get(record.UNIT_KEY) == record.WORDS:
            dropped |= {"token_ids", "mask"}
        try:
            rows = table.drop_columns(dropped & set(table.column_names)).to_pylist()
        except (ValueError, OverflowError) as error:  # text not UTF-8, a date after 9999
            raise InputError(
                f"{name}, rows {before + 1} to {before + len(table)}: broken Parquet: "
                f"{one_line(error)}"
            ) from None
        yield from ((row, f"{name}, row {before + n}") for n, row in enumerate(rows, start=1))


def parquet_tables(stream: Stream, name: str) -> Iterator[tuple[Any, int]]:
    """The rows of a Parquet file, at most `ROWS_PER_BATCH` and `BYTES_PER_BATCH` at a time, each
    time with the number of rows before.

    Texts stay in their dictionaries until it is known how much memory they take.
    """
    content = io.BytesIO(_whole(stream, name)) if isinstance(stream, gzip.GzipFile) else stream
    before = 0
    try:
        plain = pq.ParquetFile(content)
        record.require_single_columns(plain.schema_arrow.names, name)
        texts = [
            x.path
            for x in plain.schema
            if x.physical_type == "BYTE_ARRAY"
            and x.logical_type.type in ("STRING", "NONE")
            and ".key_value." not in x.path  # maps are cast to nothing
        ]
        for batch in pq.ParquetFile(content, read_dictionary=texts).iter_batches(ROWS_PER_BATCH):
            size = sum(map(_decoded_size, batch.columns)) // max(len(batch), 1)
            if size > LARGEST_UNPACKED:
                raise InputError(f"{name}, row {before + 1}: more than {LARGEST_UNPACKED:,} bytes")
            rows = max(1, BYTES_PER_BATCH // max(size, 1))
            for begin in range(0, len(batch), rows):
                part = pa.table(batch.slice(begin, rows)).cast(plain.schema_arrow)
                yield part, before + begin
            before += len(batch)
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
        raise InputError(f"{name}: broken Parquet: {one_line(error)}") from None


def _decoded_size(values: Any) -> int:
    """A bound of the bytes of an array without its dictionaries."""
    if pa.types.is_dictionary(values.type):
        longest = pc.max(pc.binary_length(values.dictionary)).as_py() if len(values) else 0
        return len(values) * (longest or 0)
    if pa.types.is_struct(values.type):
        return sum(map(_decoded_size, values.flatten()))
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return _decoded_size(values.flatten())
    return int(values.nbytes)


def csv_rows(stream: Stream, name: str) -> Rows:
    """One dict a row; the first line names the columns, an empty value is null or no text."""
    number = 0
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
    types = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(TEXTS, pa.string()))
    try:
        for batch in pyarrow.csv.open_csv(stream, parse_options=parsing, convert_options=types):
            for row in batch.to_pylist():
                number += 1
                yield row, f"{name}, row {number}"
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{name}: broken CSV: {one_line(error)}") from None


def torch_rows(stream: Stream, name: str) -> Rows:
    """slime's `--save-debug-rollout-data`: `{"rollout_id": 3, "samples": [...]}`.

    Only plain values and tensors are read, so nothing that the file says is run.
    """
    packed = io.BytesIO(_whole(stream, name))
    try:
        import torch

        content = torch.load(packed, map_location="cpu", weights_only=True)
    except ModuleNotFoundError:
        raise InputError(f"{name}: a .pt file needs torch, which is not installed") from None
    except Exception as error:  # torch raises a dozen kinds
        raise InputError(f"{name}: broken, or more than plain data: {one_line(error)}") from None
    samples = content.get("samples") if isinstance(content, dict) else None
    if not isinstance(samples, list):
        raise InputError(f"{name}: {type(content).__name__}; expected a dict with a list samples")
    step = {"rollout_id": content.get("rollout_id")}
    for number, sample in enumerate(samples, start=1):
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
    content = stream.read(LARGEST_UNPACKED + 1)
    if len(content) > LARGEST_UNPACKED:
        raise InputError(f"{name}: more than {LARGEST_UNPACKED:,} bytes when unpacked")
    return content
