"""From files and folders to the rollout record: the one reader of all commands.

What a row's fields may be is said in `ktae.rollouts.rows`; what other tools write is turned into
such rows by `ktae.rollouts.schemas`, what a user names by `ktae.rollouts.paths`. A group is one
label and one prompt, in one step, of one file or of the files of one run (`ktae.rollouts.labels`).
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
from ktae.rollouts.conversation import with_texts
from ktae.rollouts.files import (
    BYTES_PER_BATCH,
    ROWS_PER_BATCH,
    EmptyFileError,
    iterate_rows,
    own_tables,
)
from ktae.rollouts.folders import choose_files, is_known_other, of_evaluation
from ktae.rollouts.labels import Labels, by_model
from ktae.rollouts.named import by_fields, override
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.paths import MISSING, PathError, at, nothing_at
from ktae.rollouts.rows import Row, as_verdict, is_null, to_record_row
from ktae.rollouts.schemas import BY_FIELDS, NESTED, OTHERWISE, PLAIN, detect
from ktae.rollouts.schemas.base import Schema, Source, prompt_label
from ktae.rollouts.spool import Spool
from ktae.rollouts.steps import Steps, without_filling
from ktae.rollouts.trained_with import TrainedWith
from ktae.rollouts.unknown import UnknownRowsError, unknown_row

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
    rollouts name several models, the model is added. The rows of a group may stand anywhere, and a
    dump may be larger than memory (`ktae.rollouts.spool`).

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
    labels, spool = Labels(options, notes, several=len(real) > 1), Spool(record.SCHEMA)
    rows: list[Row] = []
    size = 0

    def flush(*, full: bool) -> None:
        nonlocal size
        if rows and (not full or len(rows) >= ROWS_PER_BATCH or size > BYTES_PER_BATCH):
            spool.add(pa.Table.from_pylist(rows, schema=record.SCHEMA))
            rows.clear()
            size = 0

    def read_file(path: Path, file: Path) -> None:
        nonlocal size
        if not options.fields and record.VERSION_KEY in record.metadata_of(file):
            options.require_no_choice(file)
            flush(full=False)
            labels.begin(file, path, None)
            for table in own_tables(file):
                labels.add_table(table)
                spool.add(table)
            return
        schema: Schema | None = None
        for row, of_row, is_evaluation in reader.record_rows(file):
            if of_row is not schema:
                schema = of_row
                labels.begin(file, path, schema)
            labels.add(row, is_evaluation)
            rows.append(row)
            size += len(row["response"] or "") + len(row["prompt"] or "")
            flush(full=True)

    for path, files in files_of:
        reader.of_folder(path, files, read_file)
    flush(full=False)
    reader.note_rewards()
    by_name = any(of_evaluation(file) for _, files in files_of for file in files)
    if options.evaluation and not by_name and not any(labels.is_evaluation_b):
        raise InputError(f"{', '.join(map(str, paths))}: nothing in it is of an evaluation")
    table = labels.finish(spool.table())
    if not len(table):
        raise EmptyFileError(f"{', '.join(map(str, paths))}: no rollouts")
    return by_model(table, options.pool_models, notes)


def paths_of(inputs: Sequence[str | Path] | str | Path) -> list[Path]:
    """The files and folders that are named, at least one.

    Raises:
        InputError: there is none, or one is no path.
    """
    names = [inputs] if isinstance(inputs, str | os.PathLike) else inputs
    if not isinstance(names, Iterable):
        raise InputError(f"a {type(names).__name__} for the files to read; expected paths")
    paths = []
    for name in names:
        if not isinstance(name, str | os.PathLike):
            raise InputError(f"a {type(name).__name__} among the files to read; expected paths")
        paths.append(Path(name))
    if not paths:
        raise InputError("no files to read")
    return paths


def files_in(path: Path, notes: Notes, evaluation: bool) -> list[Path]:
    """The files to read (`choose_files`); the others are noted."""
    files, others = choose_files(path, evaluation)
    for file in others:
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
            names = trained.correctness or ()
            if options.correctness is None:
                self.hinted = (names,) if isinstance(names, str) else tuple(names)
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
        """Read the files of an input; those that hold no rollouts are noted.

        Raises:
            InputError: there is no other file, or a file is broken.
        """
        first: InputError | None = None
        left: list[str] = []
        for file in files:
            try:
                read(path, file)
            except (UnknownRowsError, EmptyFileError) as error:
                if not path.is_dir() or (isinstance(error, EmptyFileError) and self.notes.strict):
                    raise
                first = first or error
                left.append(path_text(file.relative_to(path)))
        if first is not None and len(left) == len(files):
            raise first
        for name in left:
            self.notes.add("files", name)

    def rows(self, path: Path) -> Iterator[tuple[Row, str, Schema]]:
        """The rollouts of a file as plain rows, each with its place and its row's schema.

        Raises:
            UnknownRowsError: the file's rows are in no known form.
            InputError: the file cannot be read, no row has a field that the user has named, or a
                row cannot be used (a tolerant reader leaves it out, and notes it).
        """
        options, notes = self.options, self.notes
        # A reward that the user has named need not be found among several.
        needs_reward = options.needs_reward and "reward" not in options.fields
        asked = options.correctness_names
        source = Source(path, asked, self.hinted, options.threshold or 0.0, needs_reward)
        if options.fields:
            self._require_fields(path)
        titles: set[str] = set()
        unknown: list[InputError] = []
        schema = None
        for row, where in without_filling(self.steps.rows_once(path), notes):
            try:
                schema, rollouts = self._rollouts_of(row, where, source, schema)
                for plain in rollouts:
                    response = plain.get("response")
                    if isinstance(response, str) and len(response) > options.max_response:
                        raise InputError(
                            f"{where}: the response has {len(response):,} characters; expected at "
                            f"most {options.max_response:,} (--max-response takes longer ones)"
                        )
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
            if not rollouts and schema in (NESTED, BY_FIELDS):
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
        if source.chose and self.hinted and not asked:
            notes.add("trained", f"correctness {' or '.join(self.hinted)}")
        notes.add("filters", n=source.skipped)
        for text in source.unknown:
            notes.add("verdicts", repr(text))

    def record_rows(self, path: Path) -> Iterator[tuple[Row, Schema, bool]]:
        """Rows of the record, each with its schema and whether it is of an evaluation.

        Raises:
            InputError: as in `rows`, and where not a single row of the file could be used.
        """
        n, first, before = 0, None, self.notes.counts.copy()
        for plain, where, schema in self.rows(path):
            try:
                is_evaluation = bool(plain.pop("is_evaluation", False))
                fields = self.complete(plain, where)
                row = to_record_row(fields, where, self.options.threshold or 0.0)
            except InputError as error:
                if schema is OTHERWISE and f"{where}: no field" in str(error):
                    error = self._unknown(plain, where, str(error).removeprefix(f"{where}: "))
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
        if not n and first is not None:
            raise first
        if not n and self.notes.counts["rejected"] > before["rejected"]:
            raise InputError(self.notes.names["rejected"][-1])
        if not n and self.notes.counts["steps"] == before["steps"]:
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

    def complete(self, row: Row, where: str) -> Row:
        """`row`, with the texts of its conversations, and with what it lacks and can do without."""
        fields = with_texts(row, where, self.notes)
        strict, notes, of_row = self.notes.strict, self.notes, fields.pop("of_row", False)
        if not ("response" in fields or "token_ids" in fields):
            return fields  # refused, with the fields that it has
        if not strict:
            halves: Row = {}
            for name, value in fields.items():
                if isinstance(value, str) and not value.isascii():
                    # Half a surrogate pair, which is no text, becomes U+FFFD.
                    text = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
                    halves |= {} if text == value else {name: text}
            notes.add("half_surrogates", n=bool(halves))
            fields |= halves
        # The same prompt of a step is the same group, also where nobody wrote that down.
        if is_null(fields.get("group")) and ("group" not in fields or not strict):
            prompt = fields.get("prompt")
            if prompt is not None:
                notes.add("without_group")
                fields["group"] = prompt_label(prompt)
            elif of_row:
                notes.add("by_row")
                fields["group"] = where.rpartition(", ")[2]
            elif not strict:
                notes.add("alone")
                fields["group"] = where
        # A verdict is a reward of 1 or 0.
        if is_null(fields.get("reward")) and (not strict or "reward" not in fields):
            verdict = as_verdict(fields.get("correct"))
            if verdict is not None:
                fields["reward"] = float(verdict)
            elif not strict:
                notes.add("without_reward")
                fields |= {"reward": None, "correct": fields.get("correct")}
        return fields

    def _rollouts_of(
        self, row: object, where: str, source: Source, likely: Schema | None
    ) -> tuple[Schema, list[Row]]:
        """A row's schema, and the plain rows in it."""
        if not isinstance(row, dict):
            raise InputError(
                f"{where}: {row!r:.60}; expected an object with group, response, reward"
            )
        fields = self.options.fields
        if "response" in fields or "token_ids" in fields:
            schema, plain = BY_FIELDS, by_fields(row, fields, where)
        else:
            schema = detect(row, likely)
            try:
                plain = list(schema.rollouts(row, where, source))
            except InputError:
                raise
            except (TypeError, ValueError, LookupError, AttributeError) as error:
                raise InputError(
                    f"{where}: looks like {schema.title}, but a field is not as it should be: "
                    f"{type(error).__name__} ({one_line(error)})"
                ) from None
            if fields:
                plain = override(row, plain, fields, where)
            elif schema is OTHERWISE and not {"response", "token_ids"} & row.keys():
                message = f"no field 'response'; its fields are {quoted(row)}"
                raise self._unknown(row, where, message)
        if len(plain) > 1:
            plain = [rollout | {"of_row": True} for rollout in plain]
        return schema, plain

    def _unknown(self, row: Row, where: str, message: str) -> UnknownRowsError:
        needed = ("response", "group", "reward" if self.options.needs_reward else "answer")

        def reads(fields: dict[str, str]) -> bool:
            trial = Reader(dataclasses.replace(self.options, fields=fields), Notes(strict=True))
            try:
                rollouts = by_fields(row, fields, where)
                for plain in rollouts if self.options.needs_reward else ():
                    to_record_row(trial.complete(plain, where), where, 0.0)
            except InputError:
                return False
            return bool(rollouts)

        return unknown_row(row, where, message, needed, reads)

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
            raise UnknownRowsError(nothing_at(missing[name], name, *first))
