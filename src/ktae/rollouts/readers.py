"""From files and folders to the rollout record: the one reader of all commands.

The values of a file (`files`) hold rows (`locate`). A row is told by its schema, which makes plain
rollouts of it (`schemas`), or by what the fields of the whole file mean (`plain`), or by what a
user names; each is checked and becomes a row of the record (`rows`). When all are read, it is known
which are a group (`labels`).
"""

from __future__ import annotations

import functools
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ktae.errors import InputError, one_line, quoted
from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.conditions import Conditions
from ktae.rollouts.files import ROWS_PER_BATCH, EmptyFileError, iterate_rows, own_tables
from ktae.rollouts.folders import choose_files, is_known_other, of_evaluation, stem_of
from ktae.rollouts.labels import READ, Place, grouped, note_rewards, place_of
from ktae.rollouts.locate import KEY, TOKEN_LISTS, Located, Locator
from ktae.rollouts.names import PROMPTS
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.paths import (
    MISSING,
    PathError,
    UnknownRowsError,
    at,
    rows_and_fields,
)
from ktae.rollouts.plain import SAMPLE, AmbiguousError, Meanings, understand
from ktae.rollouts.proposal import propose, unknown_rows, usual_rows
from ktae.rollouts.rows import FINAL, MissingFieldError, complete, to_record_row
from ktae.rollouts.schemas import BY_FIELDS, PLAIN, detect, is_of_tool
from ktae.rollouts.schemas.base import CORRECTNESS_NAMES, Schema, Source, choose, scores_in
from ktae.rollouts.tokens import note_prompt_ids
from ktae.rollouts.trained_with import TrainedWith
from ktae.rollouts.values import Row, as_verdict, is_null, label_of, prompt_label, without

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
    and those of a run of ktae, TRL, verl or another trainer are together already. Where rollouts
    name several models, each has groups of its own. The rows of a group may stand anywhere.

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
    notes = Notes(strict=True) if notes is None else notes
    try:
        return _read(paths, options, notes)
    except UnknownRowsError as error:
        if not options.proposes or len(paths) > 1 or not paths[0].is_file():
            raise
        rows = [x.row for x in Reader(options, Notes()).located(paths[0])[0]]
        proposal = propose(paths[0], [x for x in rows if isinstance(x, dict)], options)
        if proposal is None:
            raise
        raise UnknownRowsError(f"{error}\n{proposal.text(paths[0])}") from None


def _read(paths: Sequence[Path], options: ReadOptions, notes: Notes) -> Any:
    """The same, without a proposal where nothing reads a file."""
    trained = TrainedWith.beside(paths)
    options = options if trained is None else trained.applied(options, notes)
    reader = Reader(options, notes)
    files_of = [(path, files_in(path, notes, options.evaluation)) for path in paths]
    # A file that is given twice, under whatever name, would count twice.
    real = Counter(os.path.realpath(file) for _, files in files_of for file in files)
    if twice := [name for name, n in real.items() if n > 1]:
        raise InputError(f"the same file is given twice: {twice[0]}; it would count twice")
    places: dict[Place, int] = {}

    def of_file(path: Path, file: Path) -> Iterator[Any]:
        """Rows of the record, or of a record that ktae has written its tables."""
        is_single = len(paths) == 1
        is_changed = options.fields or options.correctness or options.group_by
        if not is_changed and record.is_own(file):
            own = place_of(path, file, None, None, is_single)
            yield from own_rows(file, places.setdefault(own, len(places)))
            return
        numbers: dict[tuple[int, str | None], int] = {}
        for row, schema, table in reader.record_rows(file):
            if (id(schema), table) not in numbers:
                place = place_of(path, file, schema, table, is_single)
                numbers[id(schema), table] = places.setdefault(place, len(places))
            yield row | {"place": numbers[id(schema), table]}

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
    if options.threshold is None and options.needs_reward:
        note_rewards(table, notes)
    by_name = any(of_evaluation(file) for _, files in files_of for file in files)
    where = ", ".join(map(str, paths))
    if options.evaluation and not by_name and not pc.any(table["is_evaluation"]).as_py():
        raise InputError(f"{where}: nothing in it is of an evaluation")
    if not len(table):
        raise EmptyFileError(f"{where}: no rollouts")
    table = grouped(table, list(places), options, notes)
    note_prompt_ids(table, notes)
    return table


def own_rows(file: Path, place: int) -> Iterator[Any]:
    """The tables of a record that ktae has written, with the columns of `READ`.

    What told its groups apart is in their names, which are its labels.
    """
    for table in own_tables(file):
        for name in ("label", "run", "file", "prompt_id"):
            field, i = record.SCHEMA.field(name), record.SCHEMA.get_field_index(name)
            values = table["group"] if name == "label" else pa.nulls(len(table), field.type)
            table = table.set_column(i, field, values)
        for field, value in zip(READ, (place, False, None, False), strict=True):
            table = table.append_column(field, pa.repeat(pa.scalar(value, field.type), len(table)))
        yield table


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
        by_schema = itertools.groupby(items, key=lambda item: item[0])
        for schema, some in by_schema:
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
            where = located.where
            has_tables = "*" in located.path.removesuffix("*")
            table = located.row.get(KEY) if has_tables else None
            parent = located.parent
            label = f"rollout {n + 1}" if not self.notes.strict else None
            label = f"row {parent}" if parent is not None else label
            try:
                is_evaluation = bool(plain.pop("is_evaluation", False))
                is_plain = schema is PLAIN
                fields = complete(
                    plain,
                    where,
                    self.notes,
                    label,
                    is_plain=is_plain,
                    needs_reward=self.options.needs_reward,
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
                made |= {"is_evaluation": is_evaluation, "by_reward": "correct" not in fields}
                yield made, schema, table
        if self.rejected and len(self.rejected) > n:
            raise self._of_most_rows(path, n)
        if not n and self.notes.counts["steps"] == repeated:
            raise EmptyFileError(f"{path} is empty: it holds no rollouts")
        conditions.note()

    def _of_most_rows(self, path: Path, n: int) -> InputError:
        """The error of a file most of whose rows cannot be used."""
        first = self.rejected[0]
        if n == 0:
            return first
        return type(first)(
            f"{path}: {len(self.rejected)} of {len(self.rejected) + n} rows cannot be used; "
            f"the first is {first}"
        )

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
            is_changed = fields or self.options.group_by
            rows = [self._named(x, fields) for x in usual] if is_changed else usual
            known = {*fields, "group"} if self.options.group_by else {*fields}
            try:
                self.meanings = meanings = understand(rows, self.notes, known)
            except AmbiguousError as error:
                raise UnknownRowsError(f"{path_text(path)}: {error}") from None
            where = next(x.where for x in sample if x.row is usual[0])
            self._require_known(rows, meanings, where, usual)
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
        plain = self.meanings.plain(self._named(row, fields) if fields else row)
        names = ("response", "token_ids", "reward", "correct", "group", "prompt")
        return all(plain.get(x) is None for x in names)

    def _named(self, row: Row, fields: Mapping[str, str]) -> Row:
        """A row with the fields that a user has named; null where it has nothing there.

        Naming removes nothing: what a field is taken from stays what it is.
        """
        values = {name: at(row, path) for name, path in fields.items()}
        values = {name: None if value is MISSING else value for name, value in values.items()}
        values |= self._labels(row, values)
        if "prompt" in values:
            values["_prompt_is_final"] = True
        # The row's verdict belongs to its own reward, not to the one that is named.
        if "reward" in values and "correct" not in values:
            row = without(row, ["correct"])
        taken = {x for x in fields.values() if x not in PROMPTS} - {*fields}
        return without(row, taken) | values

    def _labels(self, row: Row, values: Row) -> Row:
        """The group that a user has named, which is final: a path, or several together."""
        if paths := self.options.group_by:
            parts = [at(row, path) for path in paths]
            label = label_of(parts[0]) if len(parts) == 1 else prompt_label(parts)
            return {"group": None if MISSING in parts else label, FINAL: True}
        return {"group": label_of(values["group"]), FINAL: True} if "group" in values else {}

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

    def _require_known(
        self, rows: Sequence[Row], meanings: Meanings, where: str, usual: Sequence[Row]
    ) -> None:
        """Raise an UnknownRowsError if rows lack a response, a reward or what tells their group."""
        row = next((x for x in map(meanings.plain, rows)), None)
        if row is None or {"response", "token_ids"} & row.keys():
            return
        message = f"no field 'response'; its fields are {quoted(usual[0])}"
        raise unknown_rows(usual, where, message, self.options.needed)

    def _rollouts_of(
        self,
        row: Row,
        where: str,
        source: Source,
        schema: Schema,
        fields: Mapping[str, str],
    ) -> list[Row]:
        """The plain rows in a row."""
        try:
            if schema in (PLAIN, BY_FIELDS):
                plain = [self._plain(row, where, source, fields)]
            else:
                plain = schema.rollouts(row, where, source)
        except InputError:
            raise
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise InputError(
                f"{where}: looks like {schema.title}, but a field is not as it should be: "
                f"{type(error).__name__} ({one_line(error)})"
            ) from None
        if schema not in (PLAIN, BY_FIELDS):
            for rollout in plain:
                # What a tool's row has null for a reward is an unknown verdict.
                if is_null(rollout.get("reward", 0)):
                    rollout.setdefault("correct", None)
            if fields or self.options.group_by:
                plain = overridden(plain, row, fields, self._labels(row, {}))
        for rollout in plain:
            reward = rollout.get("reward")
            if isinstance(reward, bool | str) and (verdict := as_verdict(reward)) is not None:
                rollout |= {"reward": float(verdict), "correct": rollout.get("correct", verdict)}
        return plain

    def _plain(
        self,
        row: Row,
        where: str,
        source: Source,
        fields: Mapping[str, str],
    ) -> Row:
        """A rollout of a row that no known tool has written."""
        meanings = self.meanings
        is_named = fields or self.options.group_by
        plain = meanings.plain(self._named(row, fields) if is_named else row)
        if self.options.correctness:
            reward = choose(scores_in(row), (), where, source)
            return without(plain, ["correct"]) | {"reward": reward}
        if meanings.rewards is not None and "reward" not in fields:
            rewards = row.get(meanings.rewards)
            if isinstance(rewards, dict):
                reward = choose(rewards, CORRECTNESS_NAMES, where, source)
                return plain | {"reward": reward}
        return plain if plain is not row else dict(row)


def overridden(
    rollouts: Sequence[Row], row: Row, fields: Mapping[str, str], labels: Row
) -> list[Row]:
    """A schema's rollouts, with what the user has named in the schema's row.

    What this row lacks is null: never the schema's own value, which would be another quantity. Of a
    row with several rollouts, a list that is named has one value a rollout.
    """
    values = {name: at(row, path) for name, path in fields.items()}
    values = {name: None if value is MISSING else value for name, value in values.items()}
    if "group" in values:
        values |= {"group": label_of(values["group"]), FINAL: True}
    if "prompt" in values:
        values["_prompt_is_final"] = True
    values |= labels
    # The schema's verdict belongs to its own reward, not to the one that is named.
    if "reward" in values and "correct" not in values:
        rollouts = [without(rollout, ["correct"]) for rollout in rollouts]
    n, changed = len(rollouts), []
    for i, rollout in enumerate(rollouts):
        each = {
            k: x[i] if n > 1 and isinstance(x, list) and len(x) == n else x
            for k, x in values.items()
        }
        changed.append(rollout | each)
    return changed
