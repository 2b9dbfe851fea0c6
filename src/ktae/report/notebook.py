"""For notebooks and scripts: rollouts of files or in memory, and their credit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from ktae.credit import AnEstimator
from ktae.errors import InputError
from ktae.estimators import DEFAULT, as_estimator, resolved
from ktae.report import group as groups
from ktae.report import inputs
from ktae.report.frame import frame_of
from ktae.report.proposal import proposing
from ktae.report.scoring import credit_column, credit_of
from ktae.rollouts import memory, readers, record
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.tokens import kept_tokenizer


def read_rollouts(
    rollouts: Any, options: ReadOptions | None = None, *, notes: Notes | None = None
) -> Any:
    """Rollouts as one record: from files and folders, or from a table or rows in memory.

    What is in memory is told by its columns as a file's is, so the columns of a trainer or another
    tool serve as they are. This is `ktae.read_rollouts`.

    Args:
        rollouts: files and folders (`ktae.rollouts.readers.read`), a `pyarrow.Table`, a DataFrame
            of pandas or polars, a `datasets.Dataset`, or a list of dicts.
        options: how rows become rollouts.
        notes: takes what was read, joined, left out and assumed.

    Returns:
        A record (`ktae.rollouts.record.SCHEMA`): of files a `pyarrow.Table`, else what was given.

    Raises:
        InputError: a file, a row or a table cannot be used.
    """
    options = options or ReadOptions()
    if memory.is_paths(rollouts):
        with proposing(rollouts, options):
            return readers.read(rollouts, options, notes=notes)
    if memory.is_rows(rollouts):
        rows, back = json.loads(json.dumps(rollouts, default=_plain)), pa.Table.to_pylist
    else:
        table, back = memory.to_arrow(rollouts)
        rows = record.without_words(table).to_pylist()
    values = ((row, f"rollouts, row {n}") for n, row in enumerate(rows, start=1))
    return back(readers.read_values(values, "rollouts", options, notes))


def _plain(value: Any) -> Any:
    """An array, a number or a tensor of a library as JSON has it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise InputError(f"a row holds a {type(value).__name__}, which is no JSON")


def score(
    rollouts: Any, credit: AnEstimator = DEFAULT, *, tokenizer: Any = None, threshold: float = 0.0
) -> Any:
    """The rollouts with the columns `token_ids`, `mask` and `credit`, one list a rollout each.

    This is `ktae.score`. Groups are independent of each other, so any data engine can map it over
    parts of a table that hold whole groups. Without token ids and without a tokenizer, responses
    are cut at words: `token_ids` number them, and a column `words` holds them.

    Args:
        rollouts: B rollouts as a `pyarrow.Table`, a DataFrame of pandas or polars, a
            `datasets.Dataset` or a list of dicts, with the columns `group`, `response` (text) or
            `token_ids` (lists of integers), `reward` (numbers) or `correct` (1, 0, null); perhaps
            `step` and `mask`. Other columns stay as they are. `ktae.read_rollouts` makes such a
            table of what has other names.
        credit: the estimator, as in `ktae.token_credit`.
        tokenizer: a fast one, a folder or a hub name.
        threshold: where there is no `correct`, a reward above it is correct (`ktae.arrays.above`).

    Returns:
        The same rows in the same order and the same type; `credit` is float32, 0 where masked.

    Raises:
        InputError: a column is missing or is not what it should be, or a tokenizer is.
    """
    table, back = memory.to_arrow(rollouts)
    estimator = resolved(as_estimator(credit)) if isinstance(credit, str) else as_estimator(credit)
    if isinstance(tokenizer, str | Path):
        tokenizer = kept_tokenizer(str(tokenizer))  # engines call this for each group
    ReadOptions(threshold=threshold)  # refuses one that is not finite
    scored = memory.as_record(table, threshold)
    columns: dict[str, Any] = {name: scored[name] for name in ("token_ids", "mask", "credit")}
    if len(scored):
        dump = inputs.from_record(scored, tokenizer)
        frame, scored = frame_of(dump), dump.rollouts
        credit_b = credit_column(frame, credit_of(frame, estimator))
        columns = {"token_ids": scored["token_ids"], "mask": scored["mask"], "credit": credit_b}
        if dump.unit == "words":
            ids = scored["token_ids"].to_pylist()
            columns["words"] = pa.array([[dump.text(i) for i in x] for x in ids])
    table = table.drop_columns([name for name in columns if name in table.column_names])
    for name, column in columns.items():
        field = record.SCHEMA.field(name).remove_metadata() if name in record.COLUMNS else name
        table = table.append_column(field, column)
    return back(table)


def show_group(
    rollouts: Any,
    group: str | None = None,
    credit: AnEstimator | None = None,
    *,
    step: int | None = None,
    tokenizer: Any = None,
) -> groups.ScoredGroup:
    """One group as the last value of a cell, as `ktae show` has it in the terminal.

    Args:
        rollouts: files and folders, or whatever `ktae.score` takes.
        group: its label; None: the one of most evidence.
        credit: the estimator; None: the one that held-out pairs advise, as in a report.
        step: the training step of the group; None: the first.
        tokenizer: a fast one, a folder or a hub name; without one, words are shown.

    Raises:
        InputError: nothing can be read, or there is no such group.
    """
    dump = inputs.dump_of(rollouts, ReadOptions(tokenizer))
    return groups.scored_group(dump, group, step, credit)
