"""From files and folders to the rollout record: the one reader of all commands.

What other tools write is turned into plain rollouts by `ktae.rollouts.schemas`, what a user names
by `ktae.rollouts.paths`; `ktae.rollouts.rows` checks them. A group is one label and one prompt, in
one step, of one file or of the files of one run (`ktae.rollouts.labels`).
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ktae.errors import InputError, one_line, quoted
from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.files import (
    BYTES_PER_BATCH,
    ROWS_PER_BATCH,
    EmptyFileError,
    iterate_rows,
    own_tables,
)
from ktae.rollouts.folders import choose_files, is_known_other, of_evaluation
from ktae.rollouts.labels import Labels, by_model
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.paths import (
    MISSING,
    PathError,
    UnknownRowsError,
    at,
    by_fields,
    override,
    unknown_row,
)
from ktae.rollouts.rows import Row, as_verdict, complete, is_null, to_record_row
from ktae.rollouts.schemas import AS_THEY_ARE, BY_FIELDS, NESTED, OTHERWISE, PLAIN, detect
from ktae.rollouts.schemas.base import Schema, Source
from ktae.rollouts.schemas.trainers import is_nested
from ktae.rollouts.steps import Steps
from ktae.rollouts.trained_with import TrainedWith

MOST_UNKNOWN = 100
"""Rows in no known form, one after another, after which a file is none of rollouts."""


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
    reader = Reader(options, notes, TrainedWith.beside(paths))
    files_of = [(path, files_in(path, notes, options.evaluation)) for path in paths]
    # A file that is given twice, under whatever name, would count twice.
    real = Counter(os.path.realpath(file) for _, files in files_of for file in files)
    for name, n in real.items():
        if n > 1:
            raise InputError(f"the same file is given twice: {name}; it would count twice")
    labels = Labels(options, notes, several=len(real) > 1)
    tables: list[Any] = []
    rows: list[Row] = []
    size = 0

    def flush() -> None:
        nonlocal size
        if rows:
            tables.append(pa.Table.from_pylist(rows, schema=record.SCHEMA))
        rows.clear()
        size = 0

    def read_file(path: Path, file: Path) -> None:
        nonlocal size
        if not options.fields and record.VERSION_KEY in record.metadata_of(file):
            options.require_no_choice(file)
            flush()
            labels.begin(file, path, None)
            for table in own_tables(file):
                labels.add_table(table)
                tables.append(table)
            return
        schema: Schema | None = None
        for row, of_row, is_evaluation in reader.record_rows(file):
            if of_row is not schema:
                schema = of_row
                labels.begin(file, path, schema)
            labels.add(row, is_evaluation)
            rows.append(row)
            size += len(row["response"] or "") + len(row["prompt"] or "")
            if len(rows) >= ROWS_PER_BATCH or size > BYTES_PER_BATCH:
                flush()

    for path, files in files_of:
        reader.of_folder(path, files, read_file)
    flush()
    reader.note_rewards()
    by_name = any(of_evaluation(file) for _, files in files_of for file in files)
    if options.evaluation and not by_name and not any(labels.is_evaluation_b):
        raise InputError(f"{', '.join(map(str, paths))}: nothing in it is of an evaluation")
    table = labels.finish(pa.concat_tables(tables or [record.SCHEMA.empty_table()]))
    if not len(table):
        raise EmptyFileError(f"{', '.join(map(str, paths))}: no rollouts")
    return by_model(table, options.pool_models, notes)


def paths_of(inputs: Sequence[str | Path] | str | Path) -> list[Path]:
    """The files and folders that are named, at least one."""
    names = [inputs] if isinstance(inputs, str | os.PathLike) else inputs
    for name in names if isinstance(names, Iterable) else [names]:
        if not isinstance(name, str | os.PathLike):
            raise InputError(f"a {type(name).__name__} among the files to read; expected paths")
    if not names:
        raise InputError("no files to read")
    return list(map(Path, names))


def files_in(path: Path, notes: Notes, evaluation: bool) -> list[Path]:
    """The files to read (`choose_files`); the others are noted, but for a tokenizer's own."""
    files, others = choose_files(path, evaluation)
    for file in others:
        if file.name == "tokenizer.json":
            continue
        key = "settings" if is_known_other(file) else "files"
        notes.add(key, path_text(file.relative_to(path)))
    return files


class Reader:
    """Reads rows of files as rollouts; what it knows of one file serves the next."""

    def __init__(
        self, options: ReadOptions, notes: Notes, trained: TrainedWith | None = None
    ) -> None:
        """Options of the user come first, and then what the run was `trained` with."""
        self.notes = notes
        self.hinted: tuple[str, ...] = ()
        if trained is not None and not {"reward", "correct"} & options.fields.keys():
            if options.correctness is None:
                self.hinted = ReadOptions(correctness=trained.correctness).correctness_names
            if options.threshold is None and trained.threshold:
                options = dataclasses.replace(options, threshold=trained.threshold)
                notes.add("trained", f"threshold {trained.threshold:g}")
        self.options = options
        self.steps = Steps(notes)
        self.rewards: Counter[float] = Counter()
        """Those that alone say what is correct, without a threshold."""
        self.by_verdict = 0

    def of_folder(
        self, path: Path, files: Sequence[Path], read: Callable[[Path, Path], object]
    ) -> None:
        """Read the files of an input; those without rollouts are noted."""
        errors: dict[Path, InputError] = {}
        for file in files:
            try:
                read(path, file)
            except (UnknownRowsError, EmptyFileError) as error:
                if not path.is_dir() or (isinstance(error, EmptyFileError) and self.notes.strict):
                    raise
                errors[file] = error
        if errors and len(errors) == len(files):
            raise errors[files[0]]
        for file in errors:
            self.notes.add("files", path_text(file.relative_to(path)))

    def rows(self, path: Path) -> Iterator[tuple[Row, str, Schema]]:
        """The rollouts of a file as plain rows, each with its place and its row's schema.

        A tolerant reader leaves rows out that cannot be used, and notes them.
        """
        options, notes = self.options, self.notes
        source = Source(path, options, notes, self.hinted)
        if options.fields:
            self._require_fields(path)
        titles: set[str] = set()
        unknown: list[InputError] = []
        schema = None
        for row, where in self.steps.rows_once(path):
            try:
                schema, rollouts = self._rollouts_of(row, where, source, schema)
            except PathError:
                raise
            except InputError as error:
                if isinstance(error, UnknownRowsError) and not titles:
                    unknown.append(error)
                    if notes.strict or len(unknown) > MOST_UNKNOWN:
                        raise unknown[0] from None
                else:
                    notes.reject(error)
                continue
            if not rollouts and (schema.convert is None or schema is NESTED):
                notes.add("empty", where)
            if schema.title not in titles:
                titles.add(schema.title)
                notes.titles[schema.title] += schema not in (PLAIN, OTHERWISE)
            for plain in rollouts:
                yield plain, where, schema
        if unknown and not titles:
            raise unknown[0]
        for rejected in unknown:
            notes.reject(rejected)
        if titles and not source.chose:
            options.require_no_choice(path)
        if source.took is not None and "reward" not in options.fields:
            notes.add("taken", repr(source.took))
        if source.chose and self.hinted and not options.correctness_names:
            notes.add("trained", f"correctness {' or '.join(self.hinted)}")

    def record_rows(self, path: Path) -> Iterator[tuple[Row, Schema, bool]]:
        """Rows of the record, each with its schema and whether it is of an evaluation."""
        n, first, before = 0, None, self.notes.counts.copy()
        for plain, where, schema in self.rows(path):
            try:
                is_evaluation = bool(plain.pop("is_evaluation", False))
                fields = complete(plain, where, self.notes)
                row = to_record_row(fields, where, self.options.threshold or 0.0)
            except InputError as error:
                if schema is OTHERWISE and f"{where}: no field" in str(error):
                    message = str(error).removeprefix(f"{where}: ")
                    error = unknown_row(plain, where, message, self.options.needed)
                first = first or error
                self.notes.reject(error)
                continue
            n += 1
            reward = row["reward"]
            if "correct" not in fields and isinstance(fields.get("reward"), float | int):
                if len(self.rewards) < MOST_UNKNOWN or reward in self.rewards:
                    self.rewards[reward] += 1
            else:
                self.by_verdict += 1
            yield row, schema, is_evaluation
        if n:
            return
        if first is not None:
            raise first
        if self.notes.counts["rejected"] > before["rejected"]:
            raise InputError(self.notes.names["rejected"][-1])
        if self.notes.counts["steps"] == before["steps"]:
            raise EmptyFileError(f"{path} is empty: it holds no rollouts")

    def note_rewards(self) -> None:
        """Note where rewards leave open which of them mean correct."""
        values = sorted(self.rewards)
        if self.options.threshold is not None or not values:
            return
        shown = f"{values[0]:g} to {values[-1]:g}"
        positive = [x for x in values if x > 0]
        if len(positive) > 1 or any(x < 1 for x in positive):
            first = ", ".join(f"{x:g}" for x in positive[:3]) + ", ..." * (len(positive) > 3)
            self.notes.add("values", first, sum(self.rewards[x] for x in positive))
        if not self.by_verdict and values[0] < values[-1]:
            self.notes.add("all_above", shown, n=values[0] > 0)
            self.notes.add("none_above", shown, n=values[-1] <= 0)

    def _rollouts_of(
        self, row: object, where: str, source: Source, likely: Schema | None
    ) -> tuple[Schema, list[Row]]:
        """A row's schema, and the plain rows in it."""
        if not isinstance(row, dict):
            raise InputError(
                f"{where}: {row!r:.60}; expected an object with group, response, reward"
            )
        fields, longest = self.options.fields, self.options.max_response
        if "response" in fields or "token_ids" in fields:
            schema, plain = BY_FIELDS, by_fields(row, fields, where)
        else:
            schema = detect(row, likely)
            try:
                plain = schema.rollouts(row, where, source)
            except InputError:
                raise
            except (TypeError, ValueError, LookupError, AttributeError) as error:
                raise InputError(
                    f"{where}: looks like {schema.title}, but a field is not as it should be: "
                    f"{type(error).__name__} ({one_line(error)})"
                ) from None
            for rollout in plain if schema not in AS_THEY_ARE else ():
                # What a tool's row has null for a reward is an unknown verdict.
                if is_null(rollout.get("reward", 0)):
                    rollout.setdefault("correct", None)
            if fields:
                plain = override(plain, row, fields, where, is_nested(row))
            elif schema is OTHERWISE and not {"response", "token_ids"} & row.keys():
                message = f"no field 'response'; its fields are {quoted(row)}"
                raise unknown_row(row, where, message, self.options.needed)
        for rollout in plain:
            if len(plain) > 1:
                rollout["of_row"] = True
            response, reward = rollout.get("response"), rollout.get("reward")
            if isinstance(reward, bool | str) and (verdict := as_verdict(reward)) is not None:
                rollout |= {"reward": float(verdict), "correct": rollout.get("correct", verdict)}
            if isinstance(response, str) and len(response) > longest:
                raise InputError(
                    f"{where}: the response has {len(response):,} characters; expected at most "
                    f"{longest:,} (max_response in Python takes more)"
                )
        return schema, plain

    def _require_fields(self, path: Path) -> None:
        """Raise the error of a path that leads to nothing in every row; no more rows are read than
        it takes."""
        missing, first = dict(self.options.fields), None
        # What is wrong with a line is said when it is read again.
        for row, where in iterate_rows(path, lambda error: None):
            if isinstance(row, dict):
                first = first or (where, row)
                missing = {name: x for name, x in missing.items() if at(row, x) is MISSING}
                if not missing:
                    return
        if first is not None:
            name = next(iter(missing))
            message = f"nothing at {missing[name]!r} for {name}"
            raise unknown_row(first[1], first[0], message, (name,))
