"""From files and folders to the rollout record: the one reader of all commands.

The values of a file (`files`) hold rows (`locate`). A row is told by its schema, which makes plain
rollouts of it (`schemas`), and which may be what the fields of the whole file mean (`plain`); each
is checked and becomes a row of the record (`rows`). When all are read, it is known which are a
group (`labels`).
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from ktae.errors import InputError, one_line, quoted
from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.files import ROWS_PER_BATCH, EmptyFileError, Rows, iterate_rows
from ktae.rollouts.folders import choose_files, stem_of
from ktae.rollouts.labels import READ, Place, grouped, note_conditions, note_rewards, place_of
from ktae.rollouts.locate import KEY, Located, Locator
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.paths import UnknownRowsError, at
from ktae.rollouts.plain import understand, usual_rows
from ktae.rollouts.proposal import propose, unknown_rows
from ktae.rollouts.rows import MissingFieldError, to_record_row
from ktae.rollouts.schemas import SCHEMAS, detect
from ktae.rollouts.schemas.base import Schema, Source
from ktae.rollouts.values import MISSING, Row, without

T = TypeVar("T")

SCHEMA = pa.schema([*record.SCHEMA, *READ])
LOOKED_AT = 1000
"""Rows that say what a field of a file holds."""
MAX_COMPARED = 5000
"""Rollouts of a file among which conditions are looked for."""
OF_ROLLOUTS = ("response", "token_ids", "reward", "correct", "group", "prompt")
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
    reader = Reader(options, Notes(strict=True) if notes is None else notes)
    try:
        return _read(paths, reader)
    except UnknownRowsError as error:
        if not options.proposes or len(paths) > 1 or not paths[0].is_file():
            raise
        rows = [x.row for x in Reader(options, Notes()).located(iterate_rows(paths[0]), paths[0])]
        rows = [x for x in rows if isinstance(x, dict)][:LOOKED_AT]
        proposal = propose(paths[0], rows, options, read)
        if proposal is None:
            raise
        raise UnknownRowsError(f"{error}\n{proposal.text(paths[0], options.rows)}") from None


def read_values(values: Rows, name: str, options: ReadOptions, notes: Notes | None) -> Any:
    """The same of values in memory, each with its place; `name` is what errors call them."""
    reader = Reader(options, Notes(strict=True) if notes is None else notes)
    return reader.record([*reader.tables(Path(name), Path(name), values)])


def _read(paths: Sequence[Path], reader: Reader) -> Any:
    notes, options = reader.notes, reader.options
    files_of = [(path, files_in(path, notes)) for path in paths]
    files = [os.path.realpath(file) for _, some in files_of for file in some]
    if twice := [name for name, n in Counter(files).items() if n > 1]:
        raise InputError(f"the same file is given twice: {twice[0]}; it would count twice")
    reader.is_single = len(paths) == 1
    if options.join and len(files) > 1:
        notes.add("join", n=len(files))
    tables: list[Any] = []
    for path, some in files_of:
        tables += read_all(path, some, reader.file_tables, notes)
    if not any(map(len, tables)):
        raise EmptyFileError(f"{', '.join(map(str, paths))}: no rollouts")
    return reader.record(tables)


def paths_of(inputs: Sequence[str | Path] | str | Path) -> list[Path]:
    """The files and folders that are named, at least one."""
    try:
        paths = [Path(x) for x in ([inputs] if isinstance(inputs, str | os.PathLike) else inputs)]
    except TypeError as error:
        raise InputError(f"files and folders to read: {one_line(error)}") from None
    if not paths:
        raise InputError("no files to read")
    return paths


def files_in(path: Path, notes: Notes) -> list[Path]:
    """The files to read (`choose_files`); the others are noted."""
    files, others = choose_files(path)
    real = {os.path.realpath(x) for x in files if not x.is_symlink()}
    others |= {x: "files" for x in files if x.is_symlink() and os.path.realpath(x) in real}
    for file, key in others.items():
        notes.add(key, path_text(file.relative_to(path)))
    return [x for x in files if x not in others]


def read_all(
    path: Path, files: Sequence[Path], read: Callable[[Path, Path], Iterable[T]], notes: Notes
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
            for item in read(path, file):
                has_rows = True
                done.add(stem)
                yield item
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
        self.is_single = True
        """Whether one input is read."""
        self.is_named = not {"response", "token_ids"}.isdisjoint(options.fields)
        """Whether the user has named the response: no tool's form is looked for."""
        self.run: Row = {}
        """What schemas remember from one file to the next."""
        self.rejected: list[InputError] = []
        """Errors of rows of the file that is read."""
        self.places: dict[Place, int] = {}
        """Where rollouts came from, numbered."""

    def record(self, tables: Sequence[Any]) -> Any:
        """The record of what was read."""
        table = pa.concat_tables([SCHEMA.empty_table(), *tables])
        if self.options.threshold is None and self.options.needs_reward:
            note_rewards(table, self.notes)
        return grouped(table, list(self.places), self.options, self.notes)

    def file_tables(self, path: Path, file: Path) -> Iterator[Any]:
        """Tables with the columns of `SCHEMA` of a file; `path` is the input whose file it is."""
        options = self.options
        if not record.is_own(file) or options.fields or options.correctness or options.group_by:
            yield from self.tables(path, file, iterate_rows(file, self._reject))
            return
        table = record.conform(record.without_words(record.read_record(file)))
        if not len(table):
            raise EmptyFileError(f"{file} is empty: it holds no rollouts")
        place = place_of(path, file, r"step-\d+\.parquet", None, self.is_single, options.join)
        number = self.places.setdefault(place, len(self.places))
        # What told its groups apart is in their names, which are its labels.
        columns = {name: table[name] for name in table.column_names}
        columns |= {"label": table["group"], "prompt_id": pa.nulls(len(table), pa.string())}
        for field, value in zip(READ, (number, False, False), strict=True):
            columns[field.name] = pa.repeat(pa.scalar(value, field.type), len(table))
        yield pa.table(columns, schema=SCHEMA)

    def tables(self, path: Path, file: Path, values: Rows) -> Iterator[Any]:
        """The same of values, each with its place, that are a file's or stand in memory."""
        rows = self._record_rows(path, file, values)
        while batch := list(itertools.islice(rows, ROWS_PER_BATCH)):
            names = set[str]().union(*batch)
            columns = [
                pa.array([row.get(x.name) for row in batch], x.type)
                if x.name in names
                else pa.nulls(len(batch), x.type)
                for x in SCHEMA
            ]
            yield pa.Table.from_arrays(columns, schema=SCHEMA)

    def _record_rows(self, path: Path, file: Path, values: Rows) -> Iterator[Row]:
        """Rows of the record; a tolerant reader notes those that cannot be used."""
        options, notes, n, self.rejected = self.options, self.notes, 0, []
        repeated, places = notes.counts["steps"], dict[Any, Place]()
        compared: list[tuple[Row, Row]] = []
        for plain, located, schema in self._rollouts(file, values):
            has_tables = "*" in located.path.removesuffix("*")
            table = located.row.get(KEY) if has_tables else None
            if (schema, table) not in places:
                place = place_of(path, file, schema.run, table, self.is_single, options.join)
                places[schema, table] = place
            made = self._made(plain, located, schema, n)
            if made is None:
                continue
            n += 1
            if schema.is_plain and options.needs_reward and len(compared) < MAX_COMPARED:
                compared.append((without(plain, located.inherited), made))
            place = places[schema, table]
            if made.pop("is_alone"):  # its label is its row's, which nothing in another file is
                place = Place(None, path_text(file), place.front)
            made["place"] = self.places.setdefault(place, len(self.places))
            yield made
        if self.rejected and len(self.rejected) > n:
            first, rejected = self.rejected[0], len(self.rejected)
            message = f"{rejected} of {rejected + n} rows cannot be used; the first is {first}"
            raise type(first)(f"{file}: {message}") if n else first
        if not n and notes.counts["steps"] == repeated:
            raise EmptyFileError(f"{file} is empty: it holds no rollouts")
        note_conditions(compared, notes)

    def _made(self, plain: Row, located: Located, schema: Schema, n: int) -> Row | None:
        """The row of the record that a rollout becomes; None for one that cannot be used."""
        where, parent = located.where, located.parent
        alone = None if self.notes.strict else f"rollout {n + 1}"
        alone = alone if parent is None else f"row {parent}"
        kept = without(plain, located.inherited) if located.inherited else plain
        try:
            made = to_record_row(kept, where, self.options, self.notes, alone, schema.is_plain)
        except MissingFieldError as error:
            if schema.is_plain:
                message = str(error).removeprefix(f"{where}: ")
                error = unknown_rows([located.row], where, message, self.options.needed)
            self._reject(error)
            return None
        except InputError as error:
            self._reject(error)
            return None
        if made["is_alone"]:
            self.notes.add("by_row" if parent is not None else "alone")
        return made

    def _rollouts(self, file: Path, values: Rows) -> Iterator[tuple[Row, Located, Schema]]:
        """The rollouts of a file as plain rows, each with where it was and its row's schema."""
        notes, fields = self.notes, {} if self.is_named else self.options.fields
        source = Source(file, self.options, notes, fields, run=self.run)
        titles: set[str] = set()
        items = self._with_schemas(self.located(values, file), source)
        for schema, some in itertools.groupby(items, key=lambda item: item[0]):
            for row, place in schema.once(((x.row, x) for _, x in some), source):
                try:
                    rollouts = schema.rollouts(row, place.where, source)
                except InputError as error:
                    self._reject(error)
                    continue
                if schema.title not in titles:
                    titles.add(schema.title)
                    notes.titles[schema.title] += not schema.is_plain
                if place.path and place.path not in notes.names["rows"]:
                    notes.add("rows", place.path)
                for plain in rollouts:
                    if plain.get("response") == [] and plain.get("token_ids") is None:
                        notes.add("empty", place.where)
                    else:
                        yield plain, place, schema

    def located(self, values: Rows, path: Path) -> Iterator[Located]:
        """The rows of a file."""
        fields = self.options.fields
        source = Source(path, self.options, self.notes, fields)
        main = fields.get("response", fields.get("token_ids", ""))
        taken = {*fields.values()} - fields.keys()

        def named(row: Row) -> Row:
            return without(row, taken) | source.named(row)

        locator = Locator(
            lambda row: any(schema.detects(row) for schema in SCHEMAS),
            self.options.rows,
            fields.values(),
            *((named, main) if self.is_named else ()),
        )
        first = list(itertools.islice(values, 2))
        is_file = len(first) == 1 and path.name.removesuffix(".gz").endswith(".json")
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
        self._require_fields(sample)
        plain, usual = self._understood(sample, source)
        schema = plain
        for place in itertools.chain(sample, located):
            row = place.row
            if not isinstance(row, dict):
                message = f"{row!r:.60}; expected an object with group, response, reward"
                self._reject(InputError(f"{place.where}: {message}"))
                continue
            if not row:  # of no rollouts
                self.notes.add("empty", place.where)
                continue
            if not (self.is_named or place.is_repeated):
                schema = detect(row, None if schema is plain else schema) or plain
            if schema is plain and usual and not usual <= row.keys():
                fields = plain.rollouts(row, place.where, source)[0]
                if all(fields.get(x) is None for x in OF_ROLLOUTS):
                    self.notes.add("summaries", place.where)
                    continue
            yield schema, place

    def _understood(
        self, sample: Sequence[Located], source: Source
    ) -> tuple[Schema, frozenset[str]]:
        """The schema of a file's plain rows, and the fields that most of these have."""
        objects = [x.row for x in sample if isinstance(x.row, dict)]
        rows = [x for x in objects if self.is_named or detect(x) is None]
        if not rows:
            return Schema("plain rollouts", is_plain=True), frozenset()
        usual, options = usual_rows(rows), self.options
        named = {*options.fields, "group"} if options.group_by else {*options.fields}
        plain = understand([x | source.named(x) for x in usual], self.notes, named)
        if plain is None:
            message = f"no field 'response'; its fields are {quoted(usual[0])}"
            where = next(x.where for x in sample if x.row is usual[0])
            raise unknown_rows(usual, where, message, options.needed)
        return plain, frozenset.intersection(*map(frozenset, usual))

    def _require_fields(self, sample: Sequence[Located]) -> None:
        """Raise an UnknownRowsError if a path that a user has named leads nowhere in all rows."""
        rows = [x for x in sample if isinstance(x.row, dict)]
        for name, path in self.options.fields.items() if rows else ():
            is_there = (at(x.row, name if self.is_named else path) for x in rows)
            if all(x is MISSING or x is None for x in is_there):
                message = f"nothing at {path!r} for {name}"
                raise unknown_rows([x.row for x in rows], rows[0].where, message, (name,))

    def _reject(self, error: InputError) -> None:
        """Raise what is wrong with a row, or leave it out."""
        self.notes.reject(error)
        self.rejected.append(error)
