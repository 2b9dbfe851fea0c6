"""One file's rows as rollouts: located, told by their schema or their fields, and checked."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ktae.errors import InputError, quoted
from ktae.files.text import path_text
from ktae.rollouts.files import EmptyFileError, iterate_rows
from ktae.rollouts.labels import Place, note_conditions, place_of
from ktae.rollouts.locate import KEY, TOKEN_LISTS, Located, Locator
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import PathError, UnknownRowsError, at, rows_and_fields
from ktae.rollouts.plain import AmbiguousError, understand
from ktae.rollouts.proposal import LOOKED_AT, unknown_rows, usual_rows
from ktae.rollouts.rows import MissingFieldError, complete, to_record_row
from ktae.rollouts.schemas import SCHEMAS, detect
from ktae.rollouts.schemas.base import Schema, Source
from ktae.rollouts.values import MISSING, Row, without

MAX_COMPARED = 5000
"""Rollouts of a file among which conditions are looked for."""
OF_ROLLOUTS = ("response", "token_ids", "reward", "correct", "group", "prompt")
"""Fields of which a summary has none."""


class Reader:
    """Reads rows of files as rollouts; what it knows of one file serves the next."""

    def __init__(self, options: ReadOptions, notes: Notes) -> None:
        self.options, self.notes = options, notes
        self.run: Row = {}
        """What schemas remember from one file to the next."""
        self.rejected: list[InputError] = []
        """Errors of rows of the file that is read."""
        self.places: dict[Place, int] = {}
        """Where rollouts came from, numbered."""

    def record_rows(self, path: Path, file: Path, is_single: bool) -> Iterator[Row]:
        """Rows of the record, with the columns of `ktae.rollouts.labels.READ`.

        A tolerant reader leaves rows out that cannot be used, and notes them. `path` is the input
        whose file it is; `is_single`: the only one.
        """
        options, notes, n, self.rejected = self.options, self.notes, 0, []
        repeated, places = notes.counts["steps"], dict[Any, Place]()
        compared: list[tuple[Row, Row]] = []
        for plain, located, schema in self._rollouts(file):
            has_tables = "*" in located.path.removesuffix("*")
            table = located.row.get(KEY) if has_tables else None
            if (schema, table) not in places:
                place = place_of(path, file, schema.run, table, is_single, options.join)
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
        options, notes, where, parent = self.options, self.notes, located.where, located.parent
        label = None if notes.strict else f"rollout {n + 1}"
        label = label if parent is None else f"row {parent}"
        try:
            fields = complete(
                plain,
                where,
                notes,
                label,
                is_plain=schema.is_plain,
                needs_reward=options.needs_reward,
            )
            if not options.needs_reward and fields.get("answer") is None:
                names = quoted(located.row)
                raise MissingFieldError(f"{where}: no field 'answer'; its fields are {names}")
            is_alone = fields.get("_is_alone", False)
            if is_alone:
                notes.add("by_row" if parent is not None else "alone")
            kept = without(fields, located.inherited) if located.inherited else fields
            return to_record_row(kept, where, options.threshold or 0.0) | {"is_alone": is_alone}
        except MissingFieldError as error:
            message = str(error).removeprefix(f"{where}: ")
            is_known = not schema.is_plain or not isinstance(located.row, dict)
            self._reject(
                error if is_known else unknown_rows([located.row], where, message, options.needed)
            )
        except InputError as error:
            self._reject(error)
        return None

    def _rollouts(self, file: Path) -> Iterator[tuple[Row, Located, Schema]]:
        """The rollouts of a file as plain rows, each with where it was and its row's schema."""
        notes, (located, fields) = self.notes, self.located(file)
        source = Source(file, self.options, notes, fields, run=self.run)
        titles: set[str] = set()
        items = self._with_schemas(located, source)
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

    def located(self, path: Path) -> tuple[Iterator[Located], Mapping[str, str]]:
        """The rows of a file, and the fields that a user has named, as they are from a row."""
        options = self.options
        values = iterate_rows(path, self._reject)
        first = list(itertools.islice(values, 2))
        rows, fields = options.rows, dict(options.fields)
        if rows is None and fields and first:
            rows, fields = rows_and_fields(first[0][0], fields)
        locator = Locator(
            lambda row: any(schema.detects(row) for schema in SCHEMAS),
            rows,
            columns=[x for k, x in fields.items() if k != "answer" or x != options.fields[k]],
            rewards=[x for name, x in fields.items() if name in ("reward", "correct")],
            tokens=[x for name, x in fields.items() if name in TOKEN_LISTS],
        )
        is_file = len(first) == 1 and path.name.removesuffix(".gz").endswith(".json")

        def each() -> Iterator[Located]:
            for value, where in itertools.chain(first, values):
                try:
                    yield from locator.rows(value, where, is_file)
                except InputError as error:
                    self._reject(error)

        return each(), fields

    def _with_schemas(
        self, located: Iterator[Located], source: Source
    ) -> Iterator[tuple[Schema, Located]]:
        """The objects among a file's rows, each with its schema, once plain fields are known."""
        sample = list(itertools.islice(located, LOOKED_AT))
        self._require_fields(sample, source.fields)
        # Where the response is named, no tool's form is looked for.
        is_named = not {"response", "token_ids"}.isdisjoint(source.fields)
        plain, usual = self._understood(sample, source, is_named)
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
            if not (is_named or place.is_repeated):
                schema = detect(row, None if schema is plain else schema) or plain
            if schema is plain and usual and not usual <= row.keys():
                fields = plain.rollouts(row, place.where, source)[0]
                if all(fields.get(x) is None for x in OF_ROLLOUTS):
                    self.notes.add("summaries", place.where)
                    continue
            yield schema, place

    def _understood(
        self, sample: Sequence[Located], source: Source, is_named: bool
    ) -> tuple[Schema, frozenset[str]]:
        """The schema of a file's plain rows, and the fields that most of these have."""
        objects = [x.row for x in sample if isinstance(x.row, dict)]
        rows = [x for x in objects if is_named or detect(x) is None]
        if not rows:
            return Schema("plain rollouts", is_plain=True), frozenset()
        usual, options = usual_rows(rows), self.options
        named = {*source.fields, "group"} if options.group_by else {*source.fields}
        try:
            plain = understand([x | source.named(x) for x in usual], self.notes, named)
        except AmbiguousError as error:
            raise UnknownRowsError(f"{path_text(source.path)}: {error}") from None
        if plain is None:
            message = f"no field 'response'; its fields are {quoted(usual[0])}"
            where = next(x.where for x in sample if x.row is usual[0])
            raise unknown_rows(usual, where, message, options.needed)
        return plain, frozenset.intersection(*map(frozenset, usual))

    def _require_fields(self, sample: Sequence[Located], fields: Mapping[str, str]) -> None:
        """Raise an UnknownRowsError if a path that a user has named leads nowhere in all rows."""
        rows = [x for x in sample if isinstance(x.row, dict)]
        for name, path in fields.items() if rows else ():
            if all(at(x.row, path) is MISSING for x in rows):
                message = f"nothing at {self.options.fields[name]!r} for {name}"
                raise unknown_rows([x.row for x in rows], rows[0].where, message, (name,))

    def _reject(self, error: InputError) -> None:
        """Raise what is wrong with a row, or leave it out."""
        if isinstance(error, PathError):
            raise error
        self.notes.reject(error)
        self.rejected.append(error)
