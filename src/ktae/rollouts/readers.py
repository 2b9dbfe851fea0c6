"""From files and folders to the rollout record: the one reader of all commands.

A file's rows (`files`) are told by their schema, which makes plain rollouts of them (`schemas`), or
by what a user names (`spread`); each is checked and becomes a row of the record (`rows`). When all
are read, it is known which are a group (`labels`).
"""

from __future__ import annotations

import functools
import itertools
import operator
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ktae.errors import InputError, one_line, quoted
from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.files import ROWS_PER_BATCH, EmptyFileError, iterate_rows, own_tables
from ktae.rollouts.folders import choose_files, is_known_other, of_evaluation, stem_of
from ktae.rollouts.labels import READ, by_model, front_of, labelled, note_rewards
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.paths import MISSING, PathError, UnknownRowsError, at, unknown_row
from ktae.rollouts.rows import (
    MissingFieldError,
    Row,
    as_verdict,
    complete,
    is_null,
    to_record_row,
)
from ktae.rollouts.schemas import BY_FIELDS, NESTED, PLAIN, detect
from ktae.rollouts.schemas.base import Schema, Source
from ktae.rollouts.spread import override
from ktae.rollouts.trained_with import TrainedWith

MOST_UNKNOWN = 100
"""Rows in no known form, one after another, after which a file is none of rollouts."""
T = TypeVar("T")


def read(
    inputs: Sequence[str | Path] | str | Path,
    options: ReadOptions = DEFAULT,
    *,
    notes: Notes | None = None,
) -> Any:
    """The rollouts of files and folders, in order, as one record (`ktae.rollouts.record.SCHEMA`).

    Rollouts are a group if they have the same label, the same prompt (where rows hold one) and the
    same step (where there is one), and are of one file. `options.join` takes the files together,
    and those of a run of ktae, TRL, verl or another trainer are together already. Where there are
    several files or runs, their names are put in front of the labels ("a.jsonl:7"); where the
    rollouts name several models, the model is added. The rows of a group may stand anywhere.

    Args:
        inputs: files by their names' ends (`ktae.rollouts.files.FORMATS`), and folders of them;
            one or several. A folder's files that hold no rollouts are left alone, and noted.
        options: how rows become rollouts.
        notes: takes what was read, joined, left out and assumed, and says whether rows that cannot
            be used are errors; they are where none is given.

    Raises:
        InputError: a file or a row cannot be used, or a file is given twice. It names the file and
            the line (or row, or entry, counted from 1), what was found and what was expected.
    """
    paths = paths_of(inputs)
    notes = Notes(strict=True) if notes is None else notes
    trained = TrainedWith.beside(paths)
    options = options if trained is None else trained.applied(options, notes)
    reader = Reader(options, notes)
    files_of = [(path, files_in(path, notes, options.evaluation)) for path in paths]
    # A file that is given twice, under whatever name, would count twice.
    real = Counter(os.path.realpath(file) for _, files in files_of for file in files)
    if twice := [name for name, n in real.items() if n > 1]:
        raise InputError(f"the same file is given twice: {twice[0]}; it would count twice")
    fronts: list[str] = []  # of the labels of each file

    def of_file(path: Path, file: Path) -> Iterator[Any]:
        """Rows of the record, or of a record that ktae has written its tables."""
        number, is_alone = len(fronts), len(paths) == 1
        fronts.append("")
        if not (options.fields or options.correctness) and record.is_own(file):
            fronts[number] = "" if options.join else front_of(path, file, None, is_alone)
            for table in own_tables(file):
                for field, value in zip(READ, (number, False, None), strict=True):
                    column = pa.repeat(pa.scalar(value, field.type), len(table))
                    table = table.append_column(field, column)
                yield table
            return
        for n, (row, schema) in enumerate(reader.record_rows(file)):
            if n == 0 and not options.join:
                fronts[number] = front_of(path, file, schema, is_alone)
            yield row | {"file": number}

    items = (
        item
        for path, files in files_of
        for item in read_all(path, files, functools.partial(of_file, path), notes)
    )
    schema = pa.schema([*record.SCHEMA, *READ])
    tables = [schema.empty_table()]
    for is_table, some in itertools.groupby(items, key=lambda item: isinstance(item, pa.Table)):
        if is_table:
            tables += some
        while rows := list(itertools.islice(some, ROWS_PER_BATCH)):
            tables.append(pa.Table.from_pylist(rows, schema=schema))
    table = pa.concat_tables(tables)
    if options.threshold is None:
        note_rewards(table, notes)
    by_name = any(of_evaluation(file) for _, files in files_of for file in files)
    where = ", ".join(map(str, paths))
    if options.evaluation and not by_name and not pc.any(table["is_evaluation"]).as_py():
        raise InputError(f"{where}: nothing in it is of an evaluation")
    if not len(table):
        raise EmptyFileError(f"{where}: no rollouts")
    return by_model(labelled(table, fronts, options, notes), options.pool_models, notes)


def paths_of(inputs: Sequence[str | Path] | str | Path) -> list[Path]:
    """The files and folders that are named, at least one."""
    try:
        paths = [Path(x) for x in ([inputs] if isinstance(inputs, str | os.PathLike) else inputs)]
    except TypeError as error:
        raise InputError(f"files and folders to read: {one_line(error)}") from None
    if not paths:
        raise InputError("no files to read")
    return paths


def files_in(path: Path, notes: Notes, evaluation: bool) -> list[Path]:
    """The files to read (`choose_files`); the others are noted, but for a tokenizer's own."""
    files, others = choose_files(path, evaluation)
    for file in (x for x in others if x.name != "tokenizer.json"):
        key = "settings" if is_known_other(file) else "files"
        notes.add(key, path_text(file.relative_to(path)))
    return files


def read_all(
    path: Path, files: Sequence[Path], read: Callable[[Path], Iterable[T]], notes: Notes
) -> Iterator[T]:
    """What `read` gives of each file of an input, of those of one name the first with rollouts.

    A folder's files without rollouts are noted, and those that are broken, where notes are not
    strict.
    """
    errors: dict[Path, InputError] = {}
    done = set[Path]()
    for file in files:
        has_rows = False
        if (stem := stem_of(file)) in done:
            notes.add("files", path_text(file.relative_to(path)))
            continue
        try:
            for item in read(file):
                has_rows = True
                done.add(stem)
                yield item
        except PathError:
            raise
        except InputError as error:
            is_other = isinstance(error, UnknownRowsError) and not has_rows
            if not path.is_dir() or (notes.strict and not is_other):
                raise
            errors[file] = error
    if errors and len(errors) == len(files):
        raise errors[files[0]]
    for file, reason in errors.items():
        is_other = isinstance(reason, UnknownRowsError | EmptyFileError)
        name = path_text(file.relative_to(path)) if is_other else str(reason).partition("\n")[0]
        notes.add("files" if is_other else "broken", name)


class Reader:
    """Reads rows of files as rollouts; what it knows of one file serves the next."""

    def __init__(self, options: ReadOptions, notes: Notes) -> None:
        self.options, self.notes = options, notes
        self.run: Row = {}
        """What schemas remember from one file to the next."""
        self.rejected: list[InputError] = []
        """Of the file that is read."""

    def rows(self, path: Path) -> Iterator[tuple[Row, str, Schema, Row]]:
        """The rollouts of a file as plain rows, each with its place, its row's schema and that row.

        A tolerant reader leaves rows out that cannot be used, and notes them.
        """
        notes, source = self.notes, Source(path, self.options, self.notes, run=self.run)
        self.rejected = []
        titles: set[str] = set()
        unknown: list[InputError] = []
        by_schema = itertools.groupby(self._detected(path), key=operator.itemgetter(0))
        for schema, items in by_schema:
            for row, where in schema.once(((row, where) for _, row, where in items), source):
                try:
                    taken_as, rollouts = self._rollouts_of(row, where, source, schema)
                except PathError:
                    raise
                except InputError as error:
                    if titles or not isinstance(error, UnknownRowsError):
                        self._reject(error)
                        continue
                    unknown.append(error)
                    if notes.strict or len(unknown) > MOST_UNKNOWN:
                        raise unknown[0] from None
                    continue
                if not rollouts and (schema.convert is None or schema is NESTED):
                    notes.add("empty", where)
                if taken_as.title not in titles:
                    titles.add(taken_as.title)
                    notes.titles[taken_as.title] += taken_as is not PLAIN
                for plain in rollouts:
                    yield plain, where, taken_as, row
        if unknown and not titles:
            raise unknown[0]
        for rejected in unknown:
            self._reject(rejected)

    def record_rows(self, path: Path) -> Iterator[tuple[Row, Schema]]:
        """Rows of the record, with what of `READ` a row says, each with its schema."""
        n, repeated = 0, self.notes.counts["steps"]
        for plain, where, schema, row in self.rows(path):
            try:
                is_evaluation = bool(plain.pop("is_evaluation", False))
                fields = complete(plain, where, self.notes)
                made = to_record_row(fields, where, self.options.threshold or 0.0)
            except MissingFieldError as error:
                message = str(error).removeprefix(f"{where}: ")
                is_known = schema not in (PLAIN, NESTED)
                self._reject(
                    error if is_known else unknown_row(row, where, message, self.options.needed)
                )
            except InputError as error:
                self._reject(error)
            else:
                n += 1
                made |= {"is_evaluation": is_evaluation, "by_reward": "correct" not in fields}
                yield made, schema
        if not n and self.rejected:
            raise self.rejected[0]
        if not n and self.notes.counts["steps"] == repeated:
            raise EmptyFileError(f"{path} is empty: it holds no rollouts")

    def _reject(self, error: InputError) -> None:
        """Raise what is wrong with a row, or leave it out."""
        self.notes.reject(error)
        self.rejected.append(error)

    def _detected(self, path: Path) -> Iterator[tuple[Schema, Row, str]]:
        """The objects among a file's rows, each with its schema and its place."""
        schema, names = None, dict[str, Any]().keys()
        for row, where in self._with_fields(iterate_rows(path, self._reject)):
            if isinstance(row, dict):
                # Rows of no tool's, without a group, would be compared with each tool's.
                if not (schema is PLAIN and row.keys() == names and PLAIN.also(row)):
                    schema, names = detect(row, schema), row.keys()
                yield schema, row, where
            else:
                message = f"{row!r:.60}; expected an object with group, response, reward"
                self._reject(InputError(f"{where}: {message}"))

    def _with_fields(self, rows: Iterator[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
        """The rows, once each path that a user has named leads to something in one of them."""
        missing, before = dict(self.options.fields), list[tuple[Any, str]]()
        for item in rows if missing else ():
            before.append(item)
            missing = {name: x for name, x in missing.items() if at(item[0], x) is MISSING}
            if not missing:
                break
        row, where = next((item for item in before if isinstance(item[0], dict)), (None, ""))
        if missing and row is not None:
            name = next(iter(missing))
            raise unknown_row(row, where, f"nothing at {missing[name]!r} for {name}", (name,))
        return itertools.chain(before, rows)

    def _rollouts_of(
        self, row: Row, where: str, source: Source, schema: Schema
    ) -> tuple[Schema, list[Row]]:
        """The plain rows in a row, and what it was taken as."""
        fields = self.options.fields
        if {"response", "token_ids"} & fields.keys():
            schema = BY_FIELDS
        elif schema is PLAIN and not (fields or {"response", "token_ids"} & row.keys()):
            message = f"no field 'response'; its fields are {quoted(row)}"
            raise unknown_row(row, where, message, self.options.needed)
        try:
            plain = schema.rollouts(row, where, source)
        except InputError:
            raise
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise InputError(
                f"{where}: looks like {schema.title}, but a field is not as it should be: "
                f"{type(error).__name__} ({one_line(error)})"
            ) from None
        for rollout in plain:
            # What a tool's row has null for a reward is an unknown verdict.
            if schema not in (PLAIN, BY_FIELDS, NESTED) and is_null(rollout.get("reward", 0)):
                rollout.setdefault("correct", None)
        if fields and schema is not BY_FIELDS:
            plain = override(plain, row, fields, where)
        for rollout in plain:
            if len(plain) > 1:
                rollout["of_row"] = True
            reward = rollout.get("reward")
            if isinstance(reward, bool | str) and (verdict := as_verdict(reward)) is not None:
                rollout |= {"reward": float(verdict), "correct": rollout.get("correct", verdict)}
        return schema, plain
