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
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ktae.errors import InputError, one_line
from ktae.files.text import path_text
from ktae.rollouts import record
from ktae.rollouts.files import ROWS_PER_BATCH, EmptyFileError, own_tables
from ktae.rollouts.folders import choose_files, is_known_other, of_evaluation, stem_of
from ktae.rollouts.labels import (
    READ,
    Place,
    grouped,
    note_prompt_ids,
    note_rewards,
    note_states,
    place_of,
)
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.paths import PathError, UnknownRowsError
from ktae.rollouts.proposal import propose
from ktae.rollouts.reader import Reader
from ktae.rollouts.trained_with import TrainedWith

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
        proposal = propose(paths[0], [x for x in rows if isinstance(x, dict)], options, read)
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
            row["place"] = numbers[id(schema), table]
            yield row

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
    note_states(table, notes)
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
