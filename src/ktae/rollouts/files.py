"""Which files may hold rollouts, and the values of each as they are, one at a time.

What a row means is the matter of `ktae.rollouts.schemas`. Errors name the file and the line, the
entry (JSON) or the row (Parquet), counted from 1.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ktae.errors import InputError, one_line, passed_on
from ktae.files.inputs import Unpacked, open_input, proportionate, require_proportion
from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.paths import LIKELY, UnknownRowsError

ROWS_AT_ONCE = 256
"""Rows of Parquet that exist as Python objects at a time: a small file can hold very long ones."""
MAX_DEPTH = 100
"""Levels of lists and objects in JSON: whatever works on a row may recurse so far. Parquet
has a limit of its own."""
BLANKS = re.compile(r"\s*")
TEXTS = {x for name in ("response", "group", "answer") for x in LIKELY[name]} | {"model", "source"}
"""Columns of a CSV file that are text, whatever they look like: 007 is not the label 7."""

Stream = IO[bytes]
Rows = Iterator[tuple[Any, str]]  # each value that a file holds, and its place for errors
Reject = Callable[[InputError], None]


class EmptyFileError(InputError):
    """A file holds no rows, or no rollouts."""


def iterate_rows(path: Path, reject: Reject | None = None) -> Rows:
    """The rows of a file, each with the place that its errors name.

    `reject` is called with the error of a line of JSON Lines that is broken, such as the last one
    of a file that is being written; it may raise it. Raised where none is given.
    """
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix not in FORMATS:
        raise InputError(
            f"{path}: no known format; expected {', '.join(FORMATS)}, also packed as .gz"
        )
    with passed_on(f"cannot read {path}", OSError, EOFError, zlib.error), open_input(path) as raw:
        if not raw.peek(1):
            raise EmptyFileError(f"{path} is empty")
        stream = Unpacked(raw, str(path)) if path.suffix == ".gz" else raw
        yield from FORMATS[suffix](stream, path_text(path), reject)


def jsonl_rows(stream: Stream, name: str, reject: Reject | None = None) -> Rows:
    """One value a line, of a list each entry; or else JSON that goes over several lines."""
    for number, line in enumerate(stream, start=1):
        where = f"{name}, line {number}"
        try:
            text = line.decode("utf-8", "surrogatepass").strip().removeprefix("\ufeff")
            row = json.loads(text) if text else []
            if text.count("[") + text.count("{") > MAX_DEPTH:
                _require_shallow(row)
            yield from entries_of(row, where) if isinstance(row, list) else ((row, where),)
        except (ValueError, RecursionError) as error:
            broken = InputError(f"{where}: broken JSON: {one_line(error)}")
            if number == 1:
                stream.seek(0)
                with contextlib.suppress(InputError):
                    yield from list(json_rows(stream, name))
                    return
                stream.seek(len(line))
            if reject is None:
                raise broken from None
            reject(broken)


def json_rows(stream: Stream, name: str, reject: Reject | None = None) -> Rows:
    """The entries of each list, and each other value that the file holds, such as one object."""
    decoder, numbers, end = json.JSONDecoder(), itertools.count(1), 0
    with passed_on(f"{name}: broken JSON", ValueError, TypeError, RecursionError):
        text = stream.read().decode().removeprefix("\ufeff").strip()
        while end < len(text):
            blanks = BLANKS.match(text, end)
            value, end = decoder.raw_decode(text, blanks.end() if blanks else end)
            _require_shallow(value, 1)
            for entry, _ in entries_of(value, name):
                yield entry, f"{name}, entry {next(numbers)}"


def entries_of(value: Any, where: str) -> Rows:
    """A value, or the entries of a list, each with its place."""
    if not isinstance(value, list):
        yield value, where
        return
    if len(value) > 1 and all(isinstance(x, dict) and {"role", "content"} <= set(x) for x in value):
        n = len(value)
        raise UnknownRowsError(f"{where}: one conversation of {n} messages; expected rollouts")
    yield from ((x, f"{where}, entry {n}") for n, x in enumerate(value, start=1))


def eval_rows(stream: Stream, name: str, reject: Reject | None = None) -> Rows:
    """inspect's log, a zip of JSON: each sample, with `eval` of the log's header."""
    kinds = (zipfile.BadZipFile, ValueError, LookupError, TypeError, AttributeError, RuntimeError)
    with (
        passed_on(f"{name}: broken zip", *kinds),
        zipfile.ZipFile(io.BytesIO(stream.read())) as archive,
    ):
        require_proportion(sum(x.file_size for x in archive.infolist()), stream.tell(), name)
        names = archive.namelist()
        header = json.loads(archive.read("header.json")) if "header.json" in names else {}
        for inside in (x for x in names if x.startswith("samples/") and x.endswith(".json")):
            sample = json.loads(archive.read(inside))
            _require_shallow(sample)
            yield {"eval": header.get("eval")} | sample, f"{name}, {inside}"


def _require_shallow(value: Any, more: int = 0) -> None:
    """Raise a RecursionError for more than `MAX_DEPTH` + `more` levels."""
    level, depth = [value], 0
    while level := [x for x in level if isinstance(x, dict | list)]:
        depth += 1
        if depth > MAX_DEPTH + more:
            raise RecursionError("nested too deeply")
        level = [y for x in level for y in (x.values() if isinstance(x, dict) else x)]


def parquet_rows(stream: Stream, name: str, reject: Reject | None = None) -> Rows:
    """One dict a row of a table; of ktae's own records without credit, which is computed again."""
    numbers = itertools.count(1)
    for table in map(record.without_words, _tables(stream, name)):
        version = (table.schema.metadata or {}).get(record.VERSION_KEY)
        if (is_own := version is not None) and version != record.VERSION.encode():
            raise InputError(f"{name}: a rollout record of another version than {record.VERSION}")
        names = {"credit", "run", "file", "label", "prompt_id"} if is_own else set[str]()
        table = table.drop_columns([*names & {*table.column_names}])
        with passed_on(f"{name}: broken table", ValueError, OverflowError, pa.ArrowException):
            rows = table.to_pylist()  # a date after 9999 is an OverflowError
        # Each call has the arguments of all others as null.
        has_calls = "arguments: struct" in str(table.schema)
        for row in rows:
            if is_own:  # what told its groups apart is in their names
                graded = {x: row.pop(x, None) for x in ("outcome", "extracted", "grader")}
                row |= {"ktae:group_is_final": True, "ktae:graded": graded}
            elif has_calls:
                row = _without_others(row)
            yield row, f"{name}, row {next(numbers)}"


def _without_others(value: Any, are_arguments: bool = False) -> Any:
    if isinstance(value, dict):
        kept = {k: x for k, x in value.items() if not (are_arguments and x is None)}
        return {k: _without_others(x, k == "arguments") for k, x in kept.items()}
    return [*map(_without_others, value)] if isinstance(value, list) else value


def _tables(stream: Stream, name: str) -> Iterator[Any]:
    content = io.BytesIO(stream.read()) if isinstance(stream, Unpacked) else stream
    size = content.seek(0, os.SEEK_END)
    content.seek(0)
    with passed_on(f"{name}: broken table", pa.ArrowException, OSError, ValueError, MemoryError):
        if ".arrow" in Path(name).suffixes:
            is_file = content.read(6) == b"ARROW1"
            content.seek(0)
            opened = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(content)
            schema, n = opened.schema, opened.num_record_batches if is_file else 0
            batches = map(opened.get_batch, range(n)) if is_file else opened
        else:
            file = pq.ParquetFile(content)
            schema = file.schema_arrow
            # Without columns, a wrong number of rows would end the process.
            batches = file.iter_batches(ROWS_AT_ONCE) if len(schema) else iter(())
            sizes = [file.metadata.row_group(i).total_byte_size for i in range(file.num_row_groups)]
            require_proportion(sum(sizes), size, name)
        for table in proportionate(batches, ROWS_AT_ONCE, size, name):
            # What a broken file says of its columns may not be those that it has.
            record.require_single_columns(table.column_names, name)
            yield table.replace_schema_metadata(schema.metadata)


def csv_rows(stream: Stream, name: str, reject: Reject | None = None) -> Rows:
    """One dict a row; the first line names the columns, an empty value is null or no text."""
    with passed_on(f"{name}: broken CSV", pa.ArrowException, UnicodeDecodeError):
        # The whole file says what a column is: a stream's beginning would have to do.
        table = pyarrow.csv.read_csv(
            stream,
            pyarrow.csv.ReadOptions(block_size=1 << 24),
            pyarrow.csv.ParseOptions(newlines_in_values=True),
            pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(TEXTS, pa.string())),
        )
    record.require_single_columns(table.column_names, name)
    rows = (row for batch in table.to_batches(record.ROWS_PER_BATCH) for row in batch.to_pylist())
    yield from ((row, f"{name}, row {number}") for number, row in enumerate(rows, start=1))


FORMATS: dict[str, Callable[[Stream, str, Reject | None], Rows]] = {
    ".jsonl": jsonl_rows,
    ".ndjson": jsonl_rows,
    ".parquet": parquet_rows,
    ".json": json_rows,
    ".csv": csv_rows,
    ".arrow": parquet_rows,
    ".eval": eval_rows,
}
"""By the end of a file's name, each with `.gz` after that, too. Of files of one name the first that
holds rollouts is read: others are often summaries."""
SUFFIXES = tuple(f"{suffix}{gz}" for suffix in FORMATS for gz in ("", ".gz"))
"""Ends of the names of all files that can be read."""


def without_format(name: str) -> str:
    """A file's name without what says its format; models, tasks and versions have dots, too."""
    return name.removesuffix(next((end for end in SUFFIXES if name.endswith(end)), ""))


# --- folders

PACKED = tuple(f"{x}.{how}" for x in FORMATS for how in ("zst", "bz2", "xz", "lz4", "br", "zip"))
"""Files that are packed in a way that is not read: a folder's are named."""
SETTINGS = re.compile(
    r"(^|/)((config|.*_config|tokenizer|.*_tokens|.*_tokens_map|vocab|.*\.index|trainer_state|state"
    r"|summary|before|dataset_info|dataset_dict|wandb-.*|manifest|run_manifest|.*settings)\.json"
    r"|index\.jsonl|metrics(-\d+)?\.jsonl|.*\.tokens\.parquet|annotations/[^/]*)$"
)
"""Files of models, settings and measurements."""
EVALUATION = re.compile(
    r"(^|[^a-z])eval_\d+\.jsonl|eval_rollouts\.jsonl|val_(data_)?step_?\d+|(^|/)eval/(.*/)?traces\.jsonl"
    r"|(^|/)(validation|val_data|val_dump)/\d+\.jsonl"
)
"""Evaluations that slime, NeMo-RL, rLLM, prime-rl and verl write beside their training."""
COPIES = re.compile(r"(^|/)(effective|live|wandb)/")
"""Folders of a run whose files say again what others say."""


def choose_files(path: Path) -> tuple[list[Path], dict[Path, str]]:
    """A folder's files that may hold rollouts, by step, or `path` itself; and those left alone,
    each with the note that says why.

    Looked at are all files at all depths that are not hidden and end as rollouts do. Left alone
    are: `SETTINGS`; what lies beside `rollouts/` in ktae's run folder; files packed in a way that
    is not read; and, beside others, what `ktae score` has written, and evaluations.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a file or folder with rollouts")
    if not path.is_dir():
        return [path], {}
    is_run = (path / "recipe.yaml").is_file() and (path / "rollouts").is_dir()
    inside, others = dict[Path, str](), dict[Path, str]()
    for folder, below, names in os.walk(path):
        below[:] = [x for x in below if not x.startswith(".")]
        for name in names:
            if not name.startswith(".") and name.endswith((*SUFFIXES, *PACKED)):
                file = Path(folder, name)
                inside[file] = file.relative_to(path).as_posix()
    for file, name in inside.items():
        if SETTINGS.search(name):
            others[file] = "settings"
        elif name.endswith(PACKED) or (is_run and not name.startswith("rollouts/")):
            others[file] = "files"
    files = sorted(inside.keys() - others.keys(), key=_by_step)
    for key, left in (
        ("files", [x for x in files if record.CREDIT_KEY in record.metadata_of(x)]),
        ("evaluations", [x for x in files if EVALUATION.search(inside[x])]),
        ("files", [x for x in files if COPIES.search(inside[x])]),
    ):
        if len(left) < len(files):  # where a rule would leave nothing, it says nothing
            others |= dict.fromkeys(left, key)
            files = [x for x in files if x not in others]
    if not files:
        raise InputError(f"{path} holds no rollouts; expected {', '.join(FORMATS)}")
    real = {os.path.realpath(x) for x in files if not x.is_symlink()}
    others |= {x: "files" for x in files if x.is_symlink() and os.path.realpath(x) in real}
    files = [x for x in files if x not in others]
    return files, {x: others[x] for x in sorted(others) if x.name != "tokenizer.json"}


def stem_of(file: Path) -> Path:
    """A file without its format: files of the same are the same rollouts, or a summary of them."""
    return file.with_name(without_format(file.name))


def _by_step(file: Path) -> tuple[list[tuple[int, str]], int]:
    """By numbers in the name, 2.jsonl before 10.jsonl, and then by the format."""
    stem = stem_of(file)
    parts = re.split(r"(\d+)", str(stem))
    numbers = [(int(x), "") if x.isdecimal() else (-1, x) for x in parts]
    return numbers, SUFFIXES.index(file.name.removeprefix(stem.name))
