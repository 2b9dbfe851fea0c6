"""One file's rows as rollouts: located, told by their schema or their fields, and checked."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ktae.errors import InputError, one_line, quoted
from ktae.files.text import path_text
from ktae.rollouts.conditions import Conditions
from ktae.rollouts.files import EmptyFileError, iterate_rows
from ktae.rollouts.locate import KEY, TOKEN_LISTS, Located, Locator
from ktae.rollouts.names import PROMPTS
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import MISSING, PathError, UnknownRowsError, at, rows_and_fields
from ktae.rollouts.plain import SAMPLE, AmbiguousError, Meanings, understand
from ktae.rollouts.proposal import unknown_rows, usual_rows
from ktae.rollouts.rows import FINAL, MissingFieldError, complete, to_record_row
from ktae.rollouts.schemas import BY_FIELDS, PLAIN, detect, is_of_tool
from ktae.rollouts.schemas.base import CORRECTNESS_NAMES, Schema, Source, choose, scores_in
from ktae.rollouts.values import Row, as_verdict, is_null, label_of, prompt_label, without


class Reader:
    """Reads rows of files as rollouts; what it knows of one file serves the next."""

    def __init__(self, options: ReadOptions, notes: Notes) -> None:
        self.options, self.notes = options, notes
        self.run: Row = {}
        """What schemas remember from one file to the next."""
        self.rejected: list[InputError] = []
        """Of the file that is read."""
        self.meanings, self.usual = Meanings(), frozenset[str]()
        """What the fields of its plain rows mean, and those that most of them have."""

    def located(self, path: Path) -> tuple[Iterator[Located], Mapping[str, str]]:
        """The rows of a file, and the fields that a user has named, as they are from a row."""
        options = self.options
        values = iterate_rows(path, self._reject)
        first = list(itertools.islice(values, 2))
        rows, fields = options.rows, dict(options.fields)
        if rows is None and fields and first:
            rows, fields = rows_and_fields(first[0][0], fields)
        columns = [x for name, x in fields.items() if name != "answer" or x != options.fields[name]]
        rewards = [x for name, x in fields.items() if name in ("reward", "correct")]
        tokens = [x for name, x in fields.items() if name in TOKEN_LISTS]
        locator = Locator(is_of_tool, rows, columns, rewards, tokens)
        is_file = len(first) == 1 and path.name.removesuffix(".gz").endswith(".json")

        def each() -> Iterator[Located]:
            for value, where in itertools.chain(first, values):
                try:
                    yield from locator.rows(value, where, is_file)
                except InputError as error:
                    self._reject(error)

        return each(), fields

    def rows(self, path: Path) -> Iterator[tuple[Row, Located, Schema]]:
        """The rollouts of a file as plain rows, each with where it was and its row's schema.

        A tolerant reader leaves rows out that cannot be used, and notes them.
        """
        notes, source = self.notes, Source(path, self.options, self.notes, run=self.run)
        self.rejected = []
        titles: set[str] = set()
        located, fields = self.located(path)
        items = self._with_meanings(located, fields, path)
        for schema, some in itertools.groupby(items, key=lambda item: item[0]):
            for row, one in schema.once(((x.row, x) for _, x in some), source):
                where = one.where
                try:
                    rollouts = self._rollouts_of(row, where, source, schema, fields)
                except PathError:
                    raise
                except InputError as error:
                    self._reject(error)
                    continue
                if schema.title not in titles:
                    titles.add(schema.title)
                    notes.titles[schema.title] += schema is not PLAIN
                if one.path and one.path not in notes.names["rows"]:
                    notes.add("rows", one.path)
                for plain in rollouts:
                    if plain.get("response") == [] and plain.get("token_ids") is None:
                        notes.add("empty", where)
                    else:
                        yield plain, one, schema

    def record_rows(self, path: Path) -> Iterator[tuple[Row, Schema, str | None]]:
        """Rows of the record, with what of `READ` a row says, its schema and its table's name."""
        n, repeated = 0, self.notes.counts["steps"]
        conditions = Conditions(self.notes)
        for plain, located, schema in self.rows(path):
            where, parent = located.where, located.parent
            has_tables = "*" in located.path.removesuffix("*")
            table = located.row.get(KEY) if has_tables else None
            label = None if self.notes.strict else f"rollout {n + 1}"
            label = label if parent is None else f"row {parent}"
            try:
                is_evaluation = bool(plain.pop("is_evaluation", False))
                needs_reward, is_plain = self.options.needs_reward, schema is PLAIN
                fields = complete(
                    plain, where, self.notes, label, is_plain=is_plain, needs_reward=needs_reward
                )
                if not self.options.needs_reward and fields.get("answer") is None:
                    raise MissingFieldError(
                        f"{where}: no field 'answer'; its fields are {quoted(located.row)}"
                    )
                if fields.get("_is_alone"):
                    self.notes.add("by_row" if parent is not None else "alone")
                if not self.options.needs_reward and "correct" in fields:
                    # A reward may be shaped, or stand in for a verdict that is not known.
                    known = as_verdict(fields["correct"])
                    fields["reward"] = None if known is None else float(known)
                made = to_record_row(
                    without(fields, located.inherited) if located.inherited else fields,
                    where,
                    self.options.threshold or 0.0,
                )
            except MissingFieldError as error:
                message = str(error).removeprefix(f"{where}: ")
                is_known = schema is not PLAIN or not isinstance(located.row, dict)
                needed = self.options.needed
                self._reject(
                    error if is_known else unknown_rows([located.row], where, message, needed)
                )
            except InputError as error:
                self._reject(error)
            else:
                n += 1
                if (schema is PLAIN or schema is BY_FIELDS) and self.options.needs_reward:
                    conditions.add(fields, made, is_evaluation)
                made["is_evaluation"], made["by_reward"] = is_evaluation, "correct" not in fields
                yield made, schema, table
        if self.rejected and len(self.rejected) > n:
            first, rejected = self.rejected[0], len(self.rejected)
            message = f"{rejected} of {rejected + n} rows cannot be used; the first is {first}"
            raise type(first)(f"{path}: {message}") if n else first
        if not n and self.notes.counts["steps"] == repeated:
            raise EmptyFileError(f"{path} is empty: it holds no rollouts")
        conditions.note()

    def _reject(self, error: InputError) -> None:
        """Raise what is wrong with a row, or leave it out."""
        self.notes.reject(error)
        self.rejected.append(error)

    def _with_meanings(
        self, located: Iterator[Located], fields: Mapping[str, str], path: Path
    ) -> Iterator[tuple[Schema, Located]]:
        """The objects among a file's rows, each with its schema, once plain fields are known."""
        schema: Schema | None = None
        names: Any = None
        is_named = not {"response", "token_ids"}.isdisjoint(fields)
        sample = list(itertools.islice(located, SAMPLE))
        self._require_fields(sample, fields, path)
        objects = [x.row for x in sample if isinstance(x.row, dict)]
        of_plain = [x for x in objects if is_named or detect(x) is PLAIN]
        self.meanings = meanings = Meanings()
        if of_plain:
            usual = usual_rows(of_plain)
            self.usual = frozenset.intersection(*map(frozenset, usual))
            rows = [self._named(x, fields) for x in usual]
            known = {*fields, "group"} if self.options.group_by else {*fields}
            try:
                self.meanings = meanings = understand(rows, self.notes, known)
            except AmbiguousError as error:
                raise UnknownRowsError(f"{path_text(path)}: {error}") from None
            if not {"response", "token_ids"} & meanings.plain(rows[0]).keys():
                message = f"no field 'response'; its fields are {quoted(usual[0])}"
                where = next(x.where for x in sample if x.row is usual[0])
                raise unknown_rows(usual, where, message, self.options.needed)
        for one in itertools.chain(sample, located):
            row = one.row
            if not isinstance(row, dict):
                message = f"{row!r:.60}; expected an object with group, response, reward"
                self._reject(InputError(f"{one.where}: {message}"))
                continue
            if not row:  # of no rollouts
                self.notes.add("empty", one.where)
                continue
            if is_named:
                schema = BY_FIELDS
            elif not (
                schema is PLAIN
                and row.keys() == names
                and (type(row.get("response")) is str or PLAIN.also(row))
            ):
                schema, names = detect(row, schema), row.keys()
            if schema in (PLAIN, BY_FIELDS) and self._is_summary(row, fields):
                self.notes.add("summaries", one.where)
                continue
            yield schema, one

    def _is_summary(self, row: Row, fields: Mapping[str, str]) -> bool:
        """Whether a plain row has neither a response nor a reward, as a summary has none."""
        if not self.usual or self.usual <= row.keys():
            return False
        plain = self.meanings.plain(self._named(row, fields))
        names = ("response", "token_ids", "reward", "correct", "group", "prompt")
        return all(plain.get(x) is None for x in names)

    def _named(self, row: Row, fields: Mapping[str, str]) -> Row:
        """A row with the fields that a user has named; null where it has nothing there.

        Naming removes nothing: what a field is taken from stays what it is.
        """
        if not fields and not self.options.group_by:
            return row
        values = self._values(row, fields)
        # The row's verdict belongs to its own reward, not to the one that is named.
        if "reward" in values and "correct" not in values:
            row = without(row, ["correct"])
        taken = {x for x in fields.values() if x not in PROMPTS} - {*fields}
        return without(row, taken) | values

    def _values(self, row: Row, fields: Mapping[str, str]) -> Row:
        """What a user has named in a row; the group, a path or several together, is final."""
        values = {name: at(row, path) for name, path in fields.items()}
        values = {name: None if value is MISSING else value for name, value in values.items()}
        if "prompt" in values:
            values["_prompt_is_final"] = True
        if paths := self.options.group_by:
            parts = [at(row, path) for path in paths]
            label = label_of(parts[0]) if len(parts) == 1 else prompt_label(parts)
            return values | {"group": None if MISSING in parts else label, FINAL: True}
        return values | (
            {"group": label_of(values["group"]), FINAL: True} if "group" in values else {}
        )

    def _require_fields(
        self, sample: Sequence[Located], fields: Mapping[str, str], path: Path
    ) -> None:
        """Raise an UnknownRowsError if a path that a user has named leads nowhere in all rows."""
        rows = [x for x in sample if isinstance(x.row, dict)]
        for name, where in fields.items() if rows else ():
            if all(at(x.row, where) is MISSING for x in rows):
                message = f"nothing at {self.options.fields[name]!r} for {name}"
                objects = [x.row for x in rows]
                raise unknown_rows(objects, rows[0].where, message, (name,))

    def _rollouts_of(
        self, row: Row, where: str, source: Source, schema: Schema, fields: Mapping[str, str]
    ) -> list[Row]:
        """The plain rows in a row."""
        if schema in (PLAIN, BY_FIELDS):
            rollouts = [self._plain(row, where, source, fields)]
        else:
            try:
                rollouts = schema.rollouts(row, where, source)
            except InputError:
                raise
            except (TypeError, ValueError, LookupError, AttributeError) as error:
                raise InputError(
                    f"{where}: looks like {schema.title}, but a field is not as it should be: "
                    f"{type(error).__name__} ({one_line(error)})"
                ) from None
            for rollout in rollouts:
                # What a tool's row has null for a reward is an unknown verdict.
                if is_null(rollout.get("reward", 0)):
                    rollout.setdefault("correct", None)
            if fields or self.options.group_by:
                rollouts = overridden(rollouts, self._values(row, fields))
        for rollout in rollouts:
            reward = rollout.get("reward")
            if isinstance(reward, bool | str) and (verdict := as_verdict(reward)) is not None:
                rollout |= {"reward": float(verdict), "correct": rollout.get("correct", verdict)}
        return rollouts

    def _plain(self, row: Row, where: str, source: Source, fields: Mapping[str, str]) -> Row:
        """A rollout of a row that no known tool has written."""
        plain = self.meanings.plain(self._named(row, fields))
        rewards = row.get(self.meanings.rewards or "")
        if self.options.correctness:
            reward = choose(scores_in(row), (), where, source)
            return without(plain, ["correct"]) | {"reward": reward}
        if isinstance(rewards, dict) and "reward" not in fields:
            return plain | {"reward": choose(rewards, CORRECTNESS_NAMES, where, source)}
        return plain if plain is not row else dict(row)


def overridden(rollouts: Sequence[Row], values: Row) -> list[Row]:
    """A schema's rollouts, with what the user has named in the schema's row.

    What this row lacks is null: never the schema's own value, which would be another quantity. Of a
    row with several rollouts, a list that is named has one value a rollout.
    """
    # The schema's verdict belongs to its own reward, not to the one that is named.
    if "reward" in values and "correct" not in values:
        rollouts = [without(rollout, ["correct"]) for rollout in rollouts]
    n, changed = len(rollouts), []
    for i, rollout in enumerate(rollouts):
        dealt = {k for k, x in values.items() if n > 1 and isinstance(x, list) and len(x) == n}
        changed.append(rollout | {k: x[i] if k in dealt else x for k, x in values.items()})
    return changed
