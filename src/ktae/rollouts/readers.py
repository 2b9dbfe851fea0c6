"""From files and folders to the rollout record: the one reader of all commands.

What a row's fields may be is said in `ktae.rollouts.rows`; what other tools write is turned into
such rows by `ktae.rollouts.schemas`, what a user names by `ktae.rollouts.paths`. A group is one
label and one prompt, in one step, of one file or of the files of one run (`ktae.rollouts.labels`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ktae.errors import InputError, one_line, quoted
from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.conversation import dialogue, messages_of, plain_text
from ktae.rollouts.files import (
    BYTES_PER_BATCH,
    ROWS_PER_BATCH,
    EmptyFileError,
    is_own_record,
    iterate_rows,
    own_tables,
)
from ktae.rollouts.folders import choose_files
from ktae.rollouts.labels import Labels, by_model, run_of
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.paths import MISSING, PathError, at, named_values, nothing_at, spread
from ktae.rollouts.rows import Row, as_verdict, is_null, to_record_row
from ktae.rollouts.schemas import NESTED, OTHERWISE, PLAIN, detect
from ktae.rollouts.schemas.base import Schema, Source, label_of, prompt_label, without
from ktae.rollouts.schemas.trainers import goes_on, is_nested, is_padding
from ktae.rollouts.spool import Spool
from ktae.rollouts.steps import Steps
from ktae.rollouts.trained_with import TrainedWith
from ktae.rollouts.unknown import UnknownRowsError, unknown_row

BY_FIELDS = Schema("by the fields that were named", {})
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
    rollouts name several models, the model is added.

    More than `ktae.rollouts.spool.IN_MEMORY` lies in the temporary folder, in a file that is
    mapped: a dump may be larger than memory. The rows of a group may stand anywhere.

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
    reader = Reader(options, notes, trained_with(paths))
    files_of = [files_in(path, notes) for path in paths]
    # A file that is given twice, under whatever name, would count twice.
    seen: set[str] = set()
    for file in itertools.chain.from_iterable(files_of):
        if (real := os.path.realpath(file)) in seen:
            raise InputError(
                f"the same file is given twice: {file}; its rollouts would count twice"
            )
        seen.add(real)
    several = sum(map(len, files_of)) > 1
    labels = Labels(options, notes, several)
    batches = _Batches(labels)
    for path, files in zip(paths, files_of, strict=True):
        read_file = functools.partial(batches.read, reader, path)
        for file in reader.of_folder(path, files, read_file):
            notes.add("files", path_text(file.relative_to(path)))
    reader.note_rewards()
    table = batches.table()
    if not len(table):
        raise EmptyFileError(f"{', '.join(map(str, paths))}: no rollouts")
    return by_model(table, options.pool_models, notes)


class _Batches:
    """The rows of the record, collected over files: many small files make few batches."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.spool = Spool(record.SCHEMA)
        self.rows: list[Row] = []
        self.size = 0

    def read(self, reader: Reader, given: Path, file: Path) -> None:
        """All rollouts of a file, which is `given` itself or lies in that folder."""
        options = reader.options
        may_be_own = file.suffix in (".parquet", ".gz") and not options.fields
        if may_be_own and is_own_record(file):
            options.require_no_choice(file)
            self.flush()
            self.labels.begin(file, given, run_of(file, None))
            for table in own_tables(file):
                self.labels.add_table(table)
                self.spool.add(table)
            return
        schema: Schema | None = None
        for row, of_row, is_evaluation in reader.record_rows(file):
            if of_row is not schema:
                schema = of_row
                self.labels.begin(file, given, run_of(file, schema))
            self.labels.add(row, is_evaluation)
            self.rows.append(row)
            self.size += len(row["response"] or "") + len(row["prompt"] or "")
            if len(self.rows) >= ROWS_PER_BATCH or self.size > BYTES_PER_BATCH:
                self.flush()

    def flush(self) -> None:
        """Keep the rows that were collected."""
        if self.rows:
            self.spool.add(pa.Table.from_pylist(self.rows, schema=record.SCHEMA))
            self.rows, self.size = [], 0

    def table(self) -> Any:
        """The record of all files, with the labels that it gets."""
        self.flush()
        return self.labels.finish(self.spool.table())


def paths_of(inputs: Sequence[str | Path] | str | Path) -> list[Path]:
    """The files and folders that are named, at least one.

    Raises:
        InputError: there is none, or one is no path.
    """
    names = [inputs] if isinstance(inputs, str | os.PathLike) else inputs
    if not isinstance(names, Iterable):
        raise InputError(f"a {type(names).__name__} for the files to read; expected paths")
    names = list(names)
    for name in names:
        if not isinstance(name, str | os.PathLike):
            raise InputError(f"a {type(name).__name__} among the files to read; expected paths")
    if not names:
        raise InputError("no files to read")
    return [Path(name) for name in names]


def files_in(path: Path, notes: Notes) -> list[Path]:
    """The files to read (`choose_files`); others that may hold rollouts are noted."""
    files, others = choose_files(path)
    for file in others:
        notes.add("files", path_text(file.relative_to(path)))
    return files


def trained_with(paths: Sequence[Path]) -> TrainedWith | None:
    """What the trainer of these files and folders has stored beside them, if all say the same."""
    stored = []
    for path in paths:
        folders = [path, path / "rollouts", path / "completions"] if path.is_dir() else []
        folders += [path.parent, path.parent.parent]
        there = (TrainedWith.read(folder) for folder in folders)
        stored.append(next((x for x in there if x is not None), None))
    return stored[0] if all(x == stored[0] for x in stored) else None


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
        self.first: InputError | None = None

    def of_folder(self, path: Path, files: Sequence[Path], read: Any) -> Iterator[Path]:
        """Read the files of an input; those that hold no rollouts are given back.

        Raises:
            InputError: there is no other file, or a file is broken.
        """
        left = []
        for file in files:
            try:
                read(file)
            except (UnknownRowsError, EmptyFileError) as error:
                empty = isinstance(error, EmptyFileError)
                if not path.is_dir() or (empty and (self.notes.strict or len(files) == 1)):
                    raise
                left.append((file, error))
        if files and len(left) == len(files):
            raise left[0][1]
        yield from (file for file, _ in left)

    def rows(self, path: Path) -> Iterator[tuple[Row, str, Schema]]:
        """The rollouts of a file as plain rows, each with its place and its row's schema.

        Raises:
            UnknownRowsError: the file's rows are in no known form.
            InputError: the file cannot be read, no row has a field that the user has named, or a
                row cannot be used (a tolerant reader leaves it out, and notes it).
        """
        options, notes = self.options, self.notes
        source = Source(
            path,
            options.correctness_names,
            self.hinted,
            options.threshold or 0.0,
            # A reward that the user has named need not be found among several.
            needs_reward=options.needs_reward and "reward" not in options.fields,
        )
        if options.fields:
            # What is wrong with a line is said when it is read again.
            self._require_fields(iterate_rows(path, lambda error: None))
        titles: set[str] = set()
        schema, unknown, known = None, 0, len(notes.names["rejected"])
        for row, where in without_filling(self.steps.rows_once(path), notes):
            try:
                schema, rollouts = self._rollouts_of(row, where, source, schema)
                for response in (plain.get("response") for plain in rollouts):
                    if isinstance(response, str) and len(response) > options.max_response:
                        raise InputError(
                            f"{where}: the response has {len(response):,} characters; expected at "
                            f"most {options.max_response:,} (--max-response takes longer ones)"
                        )
            except PathError:
                raise
            except InputError as error:
                if isinstance(error, UnknownRowsError) and not titles:
                    unknown += 1
                    self.first = self.first if unknown > 1 else error
                    if notes.strict or unknown > MOST_UNKNOWN:
                        raise
                notes.reject(error)
                continue
            if not rollouts and schema in (NESTED, BY_FIELDS):
                notes.add("empty", where)
            if schema.title not in titles:
                titles.add(schema.title)
                if schema not in (PLAIN, OTHERWISE):
                    notes.titles[schema.title] += 1
            for plain in rollouts:
                yield plain, where, schema
        if not titles and unknown and self.first is not None:
            notes.counts["rejected"] -= unknown
            notes.names["rejected"] = notes.names["rejected"][:known]
            raise self.first
        if titles and not source.chose:
            options.require_no_choice(path)
        if source.took is not None and "reward" not in options.fields:
            notes.add("taken", repr(source.took))
        if source.chose and self.hinted and not options.correctness_names:
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
        threshold = self.options.threshold or 0.0
        for plain, where, schema in self.rows(path):
            try:
                is_evaluation = bool(plain.pop("is_evaluation", False))
                fields = self.complete(plain, where)
                row = to_record_row(fields, where, threshold)
            except InputError as error:
                if schema is OTHERWISE and f"{where}: no field" in str(error):
                    message = str(error).removeprefix(f"{where}: ")
                    error = self._unknown(plain, where, message)
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
            first = ", ".join(f"{x:g}" for x in positive[:3])
            more = ", ..." if len(positive) > 3 else ""
            self.notes.add("values", first + more, sum(self.rewards[x] for x in positive))
        if not self.by_verdict and values[0] < values[-1]:
            if values[0] > 0:
                self.notes.add("all_above", shown)
            elif values[-1] <= 0:
                self.notes.add("none_above", shown)

    def complete(self, row: Row, where: str) -> Row:
        """`row`, with the texts of its conversations, and with what it lacks and can do without."""
        fields = with_texts(row, where, self.notes)
        strict, notes = self.notes.strict, self.notes
        if not ("response" in fields or "token_ids" in fields):
            return fields  # refused, with the fields that it has
        if not strict:
            before = notes.counts["half_surrogates"]
            for name, value in fields.items():
                if isinstance(value, str) and not value.isascii():
                    # Half a surrogate pair, which is no text, becomes U+FFFD.
                    text = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
                    if text != value:
                        fields[name] = text
                        notes.counts["half_surrogates"] = before + 1
        # The same prompt of a step is the same group, also where nobody wrote that down.
        if is_null(fields.get("group")) and ("group" not in fields or not strict):
            prompt = fields.get("prompt")
            prompt = fields.get("problem") if is_null(prompt) else prompt
            of_row = fields.pop("of_row", False)
            if prompt is not None:
                notes.add("without_group")
                fields["group"] = prompt_label(prompt)
            elif of_row:
                notes.add("by_row")
                fields["group"] = where.rpartition(", ")[2]
            elif not strict:
                notes.add("alone")
                fields["group"] = where
        fields.pop("of_row", None)
        # A verdict is a reward of 1 or 0.
        if is_null(fields.get("reward")) and (not strict or "reward" not in fields):
            verdict = as_verdict(fields.get("correct"))
            if verdict is not None:
                fields["reward"] = float(verdict)
            elif not strict:
                notes.add("without_reward")
                fields["reward"] = None
                fields.setdefault("correct", None)
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
            except (TypeError, ValueError, KeyError, LookupError, AttributeError) as error:
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

    def _require_fields(self, rows: Iterable[tuple[Any, str]]) -> None:
        """Raise the error of a path that leads to nothing in every row; no more rows are read than
        it takes."""
        missing, first = dict(self.options.fields), None
        for row, where in rows:
            if isinstance(row, dict):
                first = first or (where, row)
                missing = {name: x for name, x in missing.items() if at(row, x) is MISSING}
            if not missing:
                return
        if first is not None:
            name, path = next(iter(missing.items()))
            raise UnknownRowsError(nothing_at(path, name, *first))


def with_texts(row: Row, where: str, notes: Notes) -> Row:
    """The row with what the policy said in a conversation as its response, and its prompt."""
    fields = dict(row)
    response, prompt = fields.get("response"), fields.get("prompt")
    if prompt is not None and (not isinstance(prompt, str) or prompt.startswith("[")):
        fields["prompt"] = plain_text(prompt)
    if response is not None and (not isinstance(response, str) or response.startswith("[")):
        messages = messages_of(response)
        if messages is not None:
            talk = dialogue(messages)
            if talk is None:
                raise InputError(
                    f"{where}: response is a conversation without a message of the role assistant"
                )
            fields["response"] = talk.response
            fields["context_spans"] = talk.context or None
            before = fields.get("prompt")
            if talk.prompt is not None and not (isinstance(before, str) and talk.prompt in before):
                fields["prompt"] = f"{before}\n{talk.prompt}" if before else talk.prompt
    if fields.get("context_spans"):
        notes.add("context")
        if fields.get("token_ids") is not None and fields.get("mask") is None:
            notes.add("ids")
            fields["token_ids"] = None
    return fields


def by_fields(row: Row, fields: Any, where: str) -> list[Row]:
    """The rollouts of a row whose fields a user has named.

    Raises:
        InputError: a path leads nowhere, lists that are dealt out together differ in length, or one
            reward stands beside several responses.
    """
    named = named_values(row, fields, where)
    # What the named fields are taken from is no field of the rollout any more.
    roots = [x if (x := fields[name]) in row else re.split(r"[.\[]", x)[0] for name in named]
    plain = without(row, [*roots, *fields]) | named
    # Of a response that is one message of a conversation, the ones before it are the prompt.
    if match := re.fullmatch(r"(.+?)(?:\.-1|\[-1\])\.content", fields.get("response", "")):
        messages = messages_of(at(row, match[1]))
        if messages is not None and len(messages) > 1:
            plain = {"prompt": messages[:-1]} | plain
    if "group" in named:
        plain["group"] = label_of(named["group"])
    rollouts = list(spread(plain, where))
    for rollout in rollouts:
        if isinstance(label := rollout.get("group"), list):
            raise InputError(
                f"{where}: group is a list of {len(label)}; expected one label for each rollout"
            )
    return rollouts


def override(row: Row, rollouts: Sequence[Row], fields: Any, where: str) -> list[Row]:
    """A schema's rollouts, with what the user has named in the schema's row.

    What this row lacks is null: never the schema's own value, which would be another quantity. Of a
    row with a list of rollouts, a list that is named has one value a rollout.

    Raises:
        InputError: there are more or fewer values than rollouts.
    """
    named = {name: at(row, path) for name, path in fields.items()}
    named = {name: None if value is MISSING else value for name, value in named.items()}
    if "group" in named:
        named["group"] = label_of(named["group"])
    # The schema's verdict belongs to its own reward, not to the one that is named.
    if "reward" in named and "correct" not in named:
        rollouts = [without(rollout, ["correct"]) for rollout in rollouts]
    values = [named] * len(rollouts)
    if len(rollouts) > 1 or is_nested(row):
        spread_ones = list(spread({"response": [""] * len(rollouts)} | named, where))
        values = [{name: each[name] for name in named} for each in spread_ones]
    return [rollout | each for rollout, each in zip(rollouts, values, strict=True)]


def without_filling(rows: Iterator[tuple[Any, str]], notes: Notes) -> Iterator[tuple[Any, str]]:
    """The rows without verl's padding, and without those outputs that a session went on after."""
    # A row waits until it is known that the next one does not go on with it.
    held = None
    for row, where in rows:
        has_key = isinstance(row, dict) and "uid" in row
        if has_key and is_padding(row):
            notes.add("padding")
            continue
        if held is not None and has_key and goes_on(held[0], row):
            notes.add("intermediate")
        elif held is not None:
            yield held
        held = row, where
    # The last row has no successor that could go on with it.
    if held is not None:
        yield held
