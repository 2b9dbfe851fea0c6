"""From files and folders to the rollout record: the one reader of all commands.

The values of a file (`files`) hold rows (`locate`). A row is told by its schema, which makes plain
rollouts of it (`schemas`), and which may be what the fields of the whole file mean (`plain`); each
is checked and becomes a row of the record (`rows`). When all are read, it is known which are a
group (`labels`).
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
from ktae.rollouts.labels import OWN_STEP, READ, grouped, note_rewards, place_of
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.paths import PathError, UnknownRowsError
from ktae.rollouts.proposal import propose
from ktae.rollouts.reader import Reader

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
    files_of = [(path, files_in(path, notes, options.evaluation)) for path in paths]
    files = [file for _, some in files_of for file in some]
    # A file that is given twice, under whatever name, would count twice.
    twice = [name for name, n in Counter(map(os.path.realpath, files)).items() if n > 1]
    if twice:
        raise InputError(f"the same file is given twice: {twice[0]}; it would count twice")
    reader = Reader(options, notes)
    table = _table(files_of, reader)
    if options.threshold is None and options.needs_reward:
        note_rewards(table, notes)
    where = ", ".join(map(str, paths))
    is_evaluation = any(map(of_evaluation, files)) or pc.any(table["is_evaluation"]).as_py()
    if options.evaluation and not is_evaluation:
        raise InputError(f"{where}: nothing in it is of an evaluation")
    if not len(table):
        raise EmptyFileError(f"{where}: no rollouts")
    if options.join and len(files) > 1:
        notes.add("join", n=len(files))
    return grouped(table, list(reader.places), options, notes)


def _table(files_of: Sequence[tuple[Path, Sequence[Path]]], reader: Reader) -> Any:
    """All rollouts of the files of each input, with the columns of `READ`."""
    options, is_single = reader.options, len(files_of) == 1
    is_changed = options.fields or options.correctness or options.group_by

    schema = pa.schema([*record.SCHEMA, *READ])
    kinds = {field.name: field.type for field in schema}

    def of_file(path: Path, file: Path) -> Iterator[Any]:
        """Tables of rows of the record, or of a record that ktae has written."""
        if is_changed or not record.is_own(file):
            made = reader.record_rows(path, file, is_single)
            while rows := list(itertools.islice(made, ROWS_PER_BATCH)):
                names = set[str]().union(*rows)
                columns = [
                    pa.array([row.get(name) for row in rows], kind)
                    if name in names
                    else pa.nulls(len(rows), kind)
                    for name, kind in kinds.items()
                ]
                yield pa.Table.from_arrays(columns, schema=schema)
            return
        place = place_of(path, file, OWN_STEP, None, is_single, options.join)
        number = reader.places.setdefault(place, len(reader.places))
        for table in own_tables(file):
            # What told its groups apart is in their names, which are its labels.
            nulls = pa.nulls(len(table), pa.string())
            for name, values in (("label", table["group"]), ("prompt_id", nulls)):
                i = table.column_names.index(name)
                table = table.set_column(i, record.SCHEMA.field(name), values)
            for field, value in zip(READ, (number, False, False), strict=True):
                column = pa.repeat(pa.scalar(value, field.type), len(table))
                table = table.append_column(field, column)
            yield table

    tables = [schema.empty_table()]
    for path, files in files_of:
        tables += read_all(path, files, functools.partial(of_file, path), reader.notes)
    return pa.concat_tables(tables)


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
        except InputError as error:
            is_other = isinstance(error, UnknownRowsError) and not has_rows
            is_raised = not path.is_dir() or (notes.strict and not is_other)
            if is_raised or isinstance(error, PathError):
                raise
            errors[file] = error
    if errors and len(errors) == len(files):
        raise errors[files[0]]
    for file, reason in errors.items():
        is_other = isinstance(reason, UnknownRowsError | EmptyFileError)
        name = path_text(file.relative_to(path)) if is_other else str(reason).partition("\n")[0]
        notes.add("files" if is_other else "broken", name)
