"""The rollout record, version 3: an Arrow table of one row a rollout, kept as Parquet.

Trainer, scoring, report and plots hand rollouts to each other in this form and no other. Every
column's meaning is in the schema, and so in every file. A file carries the version in its metadata;
a reader refuses versions that it does not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ktae.arrays import MAX_TOKEN_ID
from ktae.errors import InputError, one_line
from ktae.files.atomic import atomic_write
from ktae.files.inputs import open_input

VERSION = "3"
VERSION_KEY = b"ktae.rollouts.version"
CREDIT_KEY = b"ktae.credit"
"""Metadata of what `ktae score` has written: the estimator."""
UNIT_KEY, WORDS = b"ktae.unit", b"words"
"""Metadata of a record whose token ids number the words of its own responses."""


COLUMNS: dict[str, tuple[Any, str]] = {
    "group": (
        pa.string(),
        "a name for people, one for each run, file, label, prompt_id and model told apart; "
        "rows of equal group and step are compared, and may stand anywhere",
    ),
    "step": (pa.int32(), "training step; null outside training"),
    "prompt": (pa.string(), "what the model was asked"),
    "response": (pa.string(), "what it answered; may be null where token_ids are given"),
    "answer": (pa.string(), "the reference answer"),
    "token_ids": (pa.list_(pa.int32()), "the response's tokens without padding; null: none yet"),
    "mask": (
        pa.list_(pa.bool_()),
        "aligned with token_ids; false: neither counted nor given credit. null: all tokens count",
    ),
    "reward": (pa.float64(), "finite, as the trainer used it; null: there is none"),
    "correct": (pa.float64(), "the verdict: 1 correct, 0 incorrect; null: unknown, not counted"),
    "advantage": (pa.float64(), "the rollout advantage, before token credit"),
    "credit": (
        pa.list_(pa.float32()),
        "token credit, aligned with token_ids, 0 where masked; null: not scored yet",
    ),
    "model": (pa.string(), "the policy that wrote the response"),
    "source": (pa.string(), "where the rollout comes from"),
    "segments": (
        pa.list_(pa.struct({"role": pa.string(), "text": pa.string()})),
        "the parts of the response, of the roles policy, user, tool and system; what is not the "
        "policy's is neither counted nor given credit. null: all of it is the policy's",
    ),
    "run": (pa.string(), "the run whose rollouts are apart from others'; null: it tells nothing"),
    "file": (pa.string(), "the same of a file, or of one table in it"),
    "label": (pa.string(), "the problem's label; null: the prompt alone tells the problem"),
    "prompt_id": (pa.string(), "a digest of the prompt; null: the label alone tells the problem"),
    "outcome": (pa.string(), "what a grader of ktae found; null: it was not graded"),
    "extracted": (pa.string(), "the answer that the grader found in the response"),
    "grader": (pa.string(), "which grader"),
    "extra": (pa.string(), "further fields of the input, as a JSON object"),
}
"""Each column's type and meaning; `group` is never null."""
SCHEMA = pa.schema(
    [
        pa.field(name, kind, nullable=name != "group", metadata={"description": text})
        for name, (kind, text) in COLUMNS.items()
    ],
    metadata={VERSION_KEY: VERSION},
)
ROWS_PER_GROUP = 1 << 16
"""Rows of a row group of Parquet. A writer has a group's compressed columns in memory."""

REQUIRED = ("group", "reward")
"""Columns that a table must have; the others may be absent where all of their values are null."""


def write(table: Any, path: str | Path) -> None:
    """Write a record as Parquet, beside and then renamed. The schema's metadata is kept.

    Raises:
        InputError: `table` is not a record (see `conform`), or the file cannot be written.
    """
    table = conform(table)
    with atomic_write(path) as temporary:
        write_parquet(table, temporary)


def write_parquet(table: Any, path: Path) -> None:
    """Write any table as Parquet to this very path; a full disk is an `InputError`."""
    try:
        with open(path, "wb") as file:  # Arrow opens no path that is not UTF-8
            pq.write_table(table, file, compression="zstd", row_group_size=ROWS_PER_GROUP)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error}") from None


def read_record(path: str | Path) -> Any:
    """A record that `write` wrote, with the metadata that it was written with.

    Raises:
        InputError: the file is missing, is not Parquet, is not a record or not of this version.
    """
    try:
        with open_input(path) as file:
            table = pq.ParquetFile(file).read()
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {path}: {one_line(error)}") from None
    return parse_record(table, str(path))


def metadata_of(path: Path) -> dict[bytes, bytes]:
    """The metadata of a Parquet file; none of any other, and of one that is broken."""
    if path.suffix != ".parquet":
        return {}
    try:
        with open_input(path) as stream:  # Arrow opens no path that is not UTF-8
            return pq.read_metadata(stream).metadata or {}
    except (InputError, pa.ArrowException, OSError, ValueError):
        return {}  # what is wrong with it is said where it is read


def is_own(path: Path) -> bool:
    """Whether ktae has written this file as a record."""
    return VERSION_KEY in metadata_of(path)


def parse_record(table: Any, where: str, before: int = 0) -> Any:
    """`table`, whose metadata must carry this version, checked; `where` begins the errors.

    `before` rows stand before it in its file.
    """
    version = (table.schema.metadata or {}).get(VERSION_KEY)
    if version is None:
        raise InputError(f"{where}: not a rollout record; expected one that ktae has written")
    number = version.decode(errors="replace")
    if number != VERSION:
        raise InputError(f"{where}: rollout record of version {number}; this ktae reads {VERSION}")
    return conform(table, where, before)


def without_words(table: Any) -> Any:
    """The table; one whose token ids number words loses them, and what is aligned with them.

    The numbers mean nothing beside another file or a tokenizer. The responses are still there.
    """
    is_of_words = (table.schema.metadata or {}).get(UNIT_KEY) == WORDS
    names = {"token_ids", "mask", "credit"} & set(table.column_names)
    return table.drop_columns(list(names)) if is_of_words else table


def require_single_columns(names: Sequence[str], where: str) -> None:
    """Raise an InputError if a Parquet file, which may do so, names two columns alike."""
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise InputError(f"{where}: {count} columns {name!r}; expected one")


def conform(table: Any, where: str = "rollout record", before: int = 0) -> Any:
    """`table` with the record's columns in the record's types and order.

    Columns that are absent become null, but for those that are `REQUIRED`, and NaN in `reward` and
    `correct` becomes null. Metadata beside the version is kept.

    Raises:
        InputError: a column is unknown, absent or of another type, or a row breaks what the schema
            promises; rows are counted from `before` + 1.
    """
    if not isinstance(table, pa.Table):
        raise InputError(
            f"{where}: a {type(table).__name__}; expected a record, the pyarrow.Table that "
            "ktae.rollouts.readers.read makes of files"
        )
    names = table.column_names
    require_single_columns(names, where)
    if unknown := [name for name in names if name not in COLUMNS]:
        raise InputError(f"{where}: unknown column {unknown[0]!r}; other fields belong in 'extra'")
    if missing := [name for name in REQUIRED if name not in names]:
        raise InputError(f"{where}: no column {missing[0]!r}")
    columns = {}
    for name, (kind, _) in COLUMNS.items():
        try:
            column = table[name].cast(kind) if name in names else pa.nulls(len(table), kind)
        except pa.ArrowException as error:
            kinds = f"is {table[name].type}; expected {kind}"
            raise InputError(f"{where}: column {name!r} {kinds} ({error})") from None
        is_score = name in ("reward", "correct")
        columns[name] = pc.if_else(pc.is_nan(column), None, column) if is_score else column
    # The estimator and the unit of a scored record are metadata, too, and go on with it.
    metadata = (table.schema.metadata or {}) | SCHEMA.metadata
    result = pa.table(columns, schema=SCHEMA.with_metadata(metadata))
    _check_rows(result, where, before)
    return result


def _check_rows(table: Any, where: str, before: int) -> None:
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
            raise InputError(f"{where}, row {before + row + 1}: {message}")
    # The schema cannot forbid a null inside a list.
    for name in ("token_ids", "mask", "credit"):
        if pc.list_flatten(table[name]).null_count:
            raise InputError(f"{where}: {name} holds a null")
    if pc.any(pc.less(pc.list_flatten(table["token_ids"]), 0)).as_py():
        raise InputError(f"{where}: token_ids holds a negative number")


def pad(
    token_id_lists: Sequence[Any], masks: Sequence[Any] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rollouts of different lengths as one padded batch.

    Args:
        token_id_lists: B sequences of token ids, 0 to 2^31 - 1.
        masks: B sequences of bool as long as their token ids, or None where every token counts.

    Returns:
        token_ids (B, T) int32, 0 where padded, and mask (B, T) bool; T is the longest length.

    Raises:
        InputError: a token id is out of range, or a mask is not as long as its token ids.
    """
    lengths_b = np.array([len(ids) for ids in token_id_lists], dtype=np.int64)
    # True where a rollout has a token; row by row these are the flat ids in their order.
    inside_bt = np.arange(lengths_b.max(initial=0)) < lengths_b[:, None]
    ids_bt = np.zeros(inside_bt.shape, dtype=np.int32)
    if not inside_bt.any():
        return ids_bt, inside_bt
    flat = np.concatenate([np.asarray(ids) for ids in token_id_lists if len(ids)])
    bad = np.flatnonzero((flat < 0) | (flat > MAX_TOKEN_ID))
    if bad.size:
        row = np.searchsorted(np.cumsum(lengths_b), bad[0], side="right")
        raise InputError(f"token_ids[{row}] holds {flat[bad[0]]}; expected 0 to 2^31 - 1")
    ids_bt[inside_bt] = flat
    mask_bt = inside_bt.copy()
    for row, mask in enumerate(masks or ()):
        if mask is None:
            continue
        if len(mask) != lengths_b[row]:
            raise InputError(f"mask[{row}] has {len(mask)} entries for {lengths_b[row]} token_ids")
        mask_bt[row, : len(mask)] = mask
    return ids_bt, mask_bt
