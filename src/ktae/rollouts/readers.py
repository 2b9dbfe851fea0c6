"""From files and folders to the rollout record: the one reader of all commands.

The values of a file (`files`) hold rows (`locate`). A row is told by its schema, which makes plain
rollouts of it (`schemas`), and which may be what the fields of the whole file mean (`plain`); each
is checked and becomes a row of the record (`rows`). When all are read, it is known which are a
group (`groups`).
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ktae.errors import InputError, passed_on, quoted
from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.files import EmptyFileError, Rows, choose_files, iterate_rows, stem_of
from ktae.rollouts.groups import READ, Place, grouped, note_conditions, note_rewards, place_of
from ktae.rollouts.locate import Located, Locator
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.paths import MISSING, UnknownRowsError, at
from ktae.rollouts.plain import understand, unknown_rows, usual_rows
from ktae.rollouts.rows import MissingFieldError, to_record_row
from ktae.rollouts.schemas import Schema, Source, detect
from ktae.rollouts.values import Row, without

SCHEMA = pa.schema([*record.SCHEMA, *READ])
LOOKED_AT = 1000  # rows that say what a field of a file holds
MAX_COMPARED = 5000  # rollouts of a file among which conditions are looked for
OF_ROLLOUTS = ("response", "token_ids", "reward", "correct", "group", "prompt", "mask")
"""Fields of which a summary has none."""


def read(
    inputs: Sequence[str | Path] | str | Path,
    options: ReadOptions = DEFAULT,
    *,
    notes: Notes | None = None,
) -> Any:
    """The rollouts of files and folders, in order, as one record (`ktae.rollouts.record.SCHEMA`).

    Rollouts are a group if they have the same label, the same prompt (where rows hold one), the
    same model and the same step (where there is one), and are of one file. `options.join` takes the
    files together, and those of a run of ktae, TRL, verl or another trainer are together already.
    The rows of a group may stand anywhere.

    Args:
        inputs: files by their names' ends (`ktae.rollouts.files.FORMATS`), and folders of them;
            one or several. A folder's files that hold no rollouts are left alone, and noted.
        options: how rows become rollouts.
        notes: takes what was read, joined, left out and assumed, and says whether rows that cannot
            be used are errors; they are where none is given.

    Raises:
        InputError: a file or a row cannot be used, most rows of a file cannot, or a file is given
            twice. It names the file and the line (or row, or entry, counted from 1), what was found
            and what was expected.
    """
    paths = paths_of(inputs)
    reader = Reader(options, notes or Notes(strict=notes is None))
    files_of = {}
    for path in paths:
        files_of[path], others = choose_files(path)
        for file, key in others.items():
            reader.notes.add(key, path_text(file.relative_to(path)))
    files = [os.path.realpath(file) for path in paths for file in files_of[path]]
    if twice := [name for name, n in Counter(files).items() if n > 1]:
        raise InputError(f"the same file is given twice: {twice[0]}; it would count twice")
    reader.notes.add("join", n=len(files) if options.join and len(files) > 1 else 0)
    tables = [x for path in paths for x in reader.tables_of(path, files_of[path])]
    if not any(map(len, tables)):
        raise EmptyFileError(f"{', '.join(map(str, paths))}: no rollouts")
    return reader.record(tables)


def read_values(values: Rows, name: str, options: ReadOptions, notes: Notes | None) -> Any:
    """The same of values in memory, each with its place; `name` is what errors call them."""
    reader = Reader(options, notes or Notes(strict=notes is None))
    return reader.record([*reader.tables(Path(name), values)])


def paths_of(inputs: Sequence[str | Path] | str | Path) -> list[Path]:
    """The files and folders that are named, at least one."""
    with passed_on("files and folders to read", TypeError):
        paths = [Path(x) for x in ([inputs] if isinstance(inputs, str | os.PathLike) else inputs)]
    if not paths:
        raise InputError("no files to read")
    return paths


class Reader:
    """Reads rows of files as rollouts; what it knows of one file serves the next."""

    def __init__(self, options: ReadOptions, notes: Notes) -> None:
        self.options, self.notes = options, notes
        self.run: dict[Any, Any] = {}  # what schemas remember from one file to the next
        self.rejected: list[InputError] = []  # errors of rows of the file that is read

    def record(self, tables: Sequence[Any]) -> Any:
        """The record of what was read."""
        table = pa.concat_tables([SCHEMA.empty_table(), *tables])
        if self.options.threshold is None and self.options.needs_reward:
            note_rewards(table, self.notes)
        return grouped(table, self.options, self.notes)

    def tables_of(self, path: Path, files: Sequence[Path]) -> Iterator[Any]:
        """Tables of each file of an input, of those of one name the first with rollouts."""
        errors: dict[Path, InputError] = {}
        done = set[Path]()
        for file in files:
            name = path_text(file.relative_to(path))
            if stem_of(file) in done:
                self.notes.add("files", name)
                continue
            try:
                yield from list(self.tables(file, iterate_rows(file, self._reject)))
                done.add(stem_of(file))
            except InputError as error:
                is_other = isinstance(error, UnknownRowsError)
                if not path.is_dir() or (self.notes.strict and not is_other):
                    raise
                errors[file] = error
                if is_other or isinstance(error, EmptyFileError):
                    self.notes.add("files", name)
                else:
                    self.notes.add("broken", str(error).partition("\n")[0])
        if errors and len(errors) == len(files):
            raise errors[files[0]]

    def tables(self, file: Path, values: Rows) -> Iterator[Any]:
        """Tables with the columns of `SCHEMA`, of values that are a file's or stand in memory."""
        rows = self._record_rows(file, values)
        while batch := list(itertools.islice(rows, record.ROWS_PER_BATCH)):
            yield pa.Table.from_pylist(batch, SCHEMA)

    def _record_rows(self, file: Path, values: Rows) -> Iterator[Row]:
        """Rows of the record; a tolerant reader notes those that cannot be used."""
        options, notes, n, self.rejected = self.options, self.notes, 0, []
        repeated, places = notes.counts["steps"], dict[Any, Place]()
        compared: list[tuple[Row, Row]] = []
        for plain, located, schema in self._rollouts(file, values):
            table = located.table if "*" in located.path.removesuffix("*") else None
            if (schema, table) not in places:
                places[schema, table] = place_of(file, schema.run, table, options.join)
            place, parent = places[schema, table], located.parent
            alone = None if notes.strict else f"rollout {n + 1}"
            alone = alone if parent is None else f"row {parent}"
            kept = without(plain, located.inherited) if located.inherited else plain
            try:
                made = to_record_row(kept, located.where, options, notes, alone, schema.is_plain)
            except InputError as error:
                if isinstance(error, MissingFieldError) and schema.is_plain:
                    error = unknown_rows([located.row], str(error), options.needed)
                self._reject(error)
                continue
            n += 1
            if schema.is_plain and options.needs_reward and len(compared) < MAX_COMPARED:
                compared.append((kept, made))
            if made.pop("is_alone"):  # its label is its row's, which nothing in another file is
                notes.add("by_row" if parent is not None else "alone")
                place = (None, path_text(file))
            made["run"], made["file"] = place
            yield made
        if self.rejected and len(self.rejected) > n:
            first, rejected = self.rejected[0], len(self.rejected)
            message = f"{rejected} of {rejected + n} rows cannot be used; the first is {first}"
            raise type(first)(f"{file}: {message}") if n else first
        if not n and notes.counts["steps"] == repeated:
            raise EmptyFileError(f"{file} is empty: it holds no rollouts")
        note_conditions(compared, notes)

    def _rollouts(self, file: Path, values: Rows) -> Iterator[tuple[Row, Located, Schema]]:
        """The rollouts of a file as plain rows, each with where it was and its row's schema."""
        notes, source = self.notes, Source(file, self.options, self.notes, self.run)
        items = self._with_schemas(self.located(values, source), source)
        for n, (schema, some) in enumerate(itertools.groupby(items, key=lambda item: item[0])):
            notes.titles[schema.title] += n == 0 and not schema.is_plain
            for row, place in schema.once(((x.row, x) for _, x in some), source):
                if place.path and place.path not in notes.names["rows"]:
                    notes.add("rows", place.path)
                try:
                    rollouts = schema.rollouts(row, place.where, source)
                except InputError as error:
                    self._reject(error)
                    continue
                for plain in rollouts:
                    if plain.get("response") == [] and plain.get("token_ids") is None:
                        notes.add("empty", place.where)
                    else:
                        yield plain, place, schema

    def located(self, values: Rows, source: Source) -> Iterator[Located]:
        """The rows of a file."""
        locator = Locator(source)
        first = list(itertools.islice(values, 2))
        is_file = len(first) == 1 and source.path.name.removesuffix(".gz").endswith(".json")
        for value, where in itertools.chain(first, values):
            try:
                yield from locator.rows(value, where, is_file)
            except InputError as error:
                self._reject(error)

    def _with_schemas(
        self, located: Iterator[Located], source: Source
    ) -> Iterator[tuple[Schema, Located]]:
        """The objects among a file's rows, each with its schema, once plain fields are known."""
        sample = list(itertools.islice(located, LOOKED_AT))
        plain, usual = self._understood([x for x in sample if isinstance(x.row, dict)], source)
        schema = plain
        for place in itertools.chain(sample, located):
            row = place.row
            if not isinstance(row, dict):
                message = f"{row!r:.60}; expected an object with group, response, reward"
                self._reject(InputError(f"{place.where}: {message}"))
                continue
            if not (self.options.names_response or place.is_repeated):
                schema = detect(row, None if schema is plain else schema) or plain
            if not row:  # of no rollouts
                self.notes.add("empty", place.where)
            elif schema is plain and usual.isdisjoint(row.keys()):
                self.notes.add("summaries", place.where)
            else:
                yield schema, place

    def _understood(
        self, sample: Sequence[Located], source: Source
    ) -> tuple[Schema, frozenset[str]]:
        """The schema of a file's plain rows, and fields of which each rollout has one."""
        options, is_named = self.options, self.options.names_response
        for name, path in (*options.fields.items(), *(("group", x) for x in options.group_by)):
            values = (at(x.row, name if is_named else path) for x in sample)
            if sample and all(x is MISSING or x is None for x in values):
                message = f"{sample[0].where}: nothing at {path!r} for {name}"
                raise unknown_rows([x.row for x in sample], message, (name,))
        rows = [x.row for x in sample if is_named or detect(x.row) is None]
        if not rows:
            return Schema("plain rollouts", is_plain=True), frozenset()
        usual = usual_rows(rows)
        named = {*options.fields, "group"} if options.group_by else {*options.fields}
        plain_rows = usual if is_named else [x | source.named(x) for x in usual]
        plain = understand(plain_rows, self.notes, named)
        if plain is None:
            where = next(x.where for x in sample if x.row is usual[0])
            message = f"{where}: no field 'response'; its fields are {quoted(usual[0])}"
            raise unknown_rows(usual, message, options.needed)
        return plain, frozenset(OF_ROLLOUTS).union(*usual)

    def _reject(self, error: InputError) -> None:
        """Raise what is wrong with a row, or leave it out."""
        self.notes.reject(error)
        self.rejected.append(error)
