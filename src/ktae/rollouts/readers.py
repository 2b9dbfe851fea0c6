"""From files and folders to the rollout record: the one reader of all commands.

What a row's fields may be is said in `ktae.rollouts.rows`; what other tools write is turned into
such rows by `ktae.rollouts.schemas`. Which groups span several files is said in
`ktae.rollouts.labels`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ktae.errors import InputError, one_line, quoted
from ktae.files.text import path_text
from ktae.rollouts import labels, record
from ktae.rollouts.files import (
    ROWS_PER_BATCH,
    EmptyFileError,
    is_own_record,
    iterate_rows,
    own_tables,
)
from ktae.rollouts.folders import choose_files, looks_like_rollouts
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.rows import is_null, to_record_row
from ktae.rollouts.schemas import detect
from ktae.rollouts.schemas.base import Row, Schema, Source
from ktae.rollouts.schemas.nested import (
    NESTED,
    PLAIN,
    by_fields,
    override,
    parse_fields,
    require_fields,
)
from ktae.rollouts.spool import Spool
from ktae.rollouts.steps import rows_once, without_filling
from ktae.rollouts.suggestion import UnknownRowsError, is_keyed, options_for, suggested_fields
from ktae.rollouts.tolerance import Tolerance

BY_FIELDS = "by the fields that were named"


def read(
    inputs: Sequence[str | Path] | str | Path,
    options: ReadOptions = DEFAULT,
    *,
    tolerance: Tolerance | None = None,
) -> Any:
    """The rollouts of files and folders, in order, as one record (`ktae.rollouts.record.SCHEMA`).

    Files of one run share their groups' labels if all of their rollouts have a step, since the
    step keeps them apart. These files lie side by side, or in folders of the run's steps, epochs
    or ranks, and their names differ in numbers alone. Files of one rollout each share them, too,
    side by side or each in a folder of its own. It makes no difference whether files are named one
    by one or by their folder. Where there are several runs, the run's folder is put in front. Any
    other two files' labels get the file's path in front ("a.jsonl:7"). Where the rollouts name
    several models, the model is added to the label.

    More than `ktae.rollouts.spool.IN_MEMORY` lies in the temporary folder, in a file that is
    mapped: a dump may be larger than memory. The rows of a group may stand anywhere.

    Args:
        inputs: files by their names' ends (`ktae.rollouts.files.FORMATS`), and folders of them;
            one or several.
        options: how rows become rollouts.
        tolerance: what is done about rows with gaps, and notes on what was found; an error is
            raised for them where none is given.

    Raises:
        InputError: a file or a row cannot be used, or a file is given twice. It names the file and
            the line (or row, or entry, counted from 1), what was found and what was expected.
    """
    paths = paths_of(inputs)
    tolerance = tolerance or Tolerance(strict=True)
    files_of = [files_in(path, tolerance) for path in paths]
    # A file that is given twice, under whatever name, would count twice.
    seen: set[Path] = set()
    for file in itertools.chain.from_iterable(files_of):
        if file.resolve() in seen:
            raise InputError(
                f"the same file is given twice: {file}; its rollouts would count twice"
            )
        seen.add(file.resolve())
    spool, ends = Spool(record.SCHEMA), [0]
    for path, files in zip(paths, files_of, strict=True):
        for file in tuple(files):
            try:
                ends.append(spool.extend(_tables_of(file, options, tolerance)).rows)
            except EmptyFileError:
                # A folder may hold files that a trainer has only just begun.
                if tolerance.strict or len(files) == 1:
                    raise
                files.remove(file)
                name = path_text(file.relative_to(path))
                tolerance.left_alone.append(f"{name} (no rollout yet)")
    rollouts = spool.table()
    # Which groups span files is known once all of them are read.
    parts = [rollouts.slice(begin, end - begin) for begin, end in itertools.pairwise(ends)]
    prefixes = _prefixes(paths, files_of, parts, tolerance)
    tables = [
        labels.with_groups(part, pc.binary_join_element_wise(prefix, part["group"], ""))
        for part, prefix in zip(parts, prefixes, strict=True)
    ]
    return labels.by_model(pa.concat_tables(tables), options.pool_models, tolerance)


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


def _prefixes(
    paths: Sequence[Path],
    files_of: Sequence[Sequence[Path]],
    parts: Sequence[Any],
    tolerance: Tolerance,
) -> list[str]:
    """What goes in front of the labels of each file; files named one by one may be of one run."""
    left = iter(parts)
    parts_of = [list(itertools.islice(left, len(files))) for files in files_of]
    alone = {path: x[0] for path, x in zip(paths, parts_of, strict=True) if not path.is_dir()}
    shared = labels.by_file(list(alone.values()), list(alone), tolerance)
    # A place that no other file shares is the file's own name.
    place_of = {
        path: place if shared.count(place) > 1 else path
        for path, place in zip(alone, shared, strict=True)
    }
    places: list[tuple[Path, Path]] = []
    for path, files, records in zip(paths, files_of, parts_of, strict=True):
        if path in alone:
            places.append((place_of[path], Path()))
            continue
        inner = labels.by_file(records, [file.relative_to(path) for file in files], tolerance)
        # Where all files of a folder share their groups, the folder alone names them.
        places += [(path, x if len(set(inner)) > 1 else Path()) for x in inner]
    only_one = len({outer for outer, _ in places}) == 1
    return [
        "".join(f"{path_text(x)}:" for x in (outer, inner)[only_one:] if x != Path())
        for outer, inner in places
    ]


def plain_rows(
    path: Path, options: ReadOptions, tolerance: Tolerance
) -> Iterator[tuple[Row, str, Schema]]:
    """The rollouts of a file, each with its place for errors and the schema that it was written in.

    Raises:
        InputError: the file cannot be read, no row has a field that the user has named, or a row
            cannot be used (a tolerant reader leaves it out, and notes it).
    """
    # A reward that the user has named need not be found among several.
    needs_reward = options.needs_reward and "reward" not in options.fields
    source = Source(path, options.correctness, needs_reward)
    titles: set[str] = set()
    if options.fields:
        # What is wrong with a line is said when it is read again.
        require_fields(iterate_rows(path, lambda error: None), options.fields)
    rows = rows_once(path, tolerance.reject, tolerance)
    for row, where in without_filling(rows, tolerance):
        try:
            schema, rollouts = _rollouts_of(row, where, source, options)
            for plain in rollouts:
                response = plain.get("response")
                if isinstance(response, str) and len(response) > options.max_response:
                    raise InputError(
                        f"{where}: the response has {len(response):,} characters; expected at most "
                        f"{options.max_response:,} (--max-response takes longer ones)"
                    )
        except InputError as error:
            tolerance.reject(error)
            continue
        if not rollouts and schema in (None, NESTED):
            tolerance.empty.append(where)
        title = schema.title if schema else BY_FIELDS
        if title not in titles:
            titles.add(title)
            if schema is not PLAIN:
                tolerance.schemas[title] += 1
        for plain in rollouts:
            if schema is PLAIN and not options.fields and not tolerance.hint:
                has_reward = not (is_null(plain.get("reward")) and is_null(plain.get("correct")))
                has_group = any(plain.get(x) is not None for x in ("group", "prompt", "problem"))
                is_there = {"group": has_group, "reward": has_reward}
                lacking = tuple(name for name, there in is_there.items() if not there)
                tolerance.hint += options_for(row, lacking)
            yield plain, where, schema or PLAIN
    if titles and not source.chose:
        options.require_no_choice(path)
    if source.took is not None and "reward" not in options.fields:
        tolerance.taken[source.took] += 1
    tolerance.repeated += source.skipped
    if "group" not in options.fields:
        tolerance.split += source.split


def files_in(path: Path, tolerance: Tolerance) -> list[Path]:
    """The files to read, see `choose_files`; rollouts that are left alone are noted."""
    files, others = choose_files(path)
    tolerance.left_alone += [
        path_text(file.relative_to(path)) for file in others if looks_like_rollouts(file)
    ]
    return files


def _rollouts_of(
    row: object, where: str, source: Source, options: ReadOptions
) -> tuple[Schema | None, list[Row]]:
    """The plain rows in a row and their schema; None where a user has named the response."""
    if not isinstance(row, dict):
        raise InputError(f"{where}: {row!r:.60}; expected an object with group, response, reward")
    fields = options.fields
    if "response" in fields or "token_ids" in fields:
        return None, list(by_fields(row, fields, where))
    schema = detect(row)
    try:
        plain = list(schema.rollouts(row, where, source))
    except InputError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{where}: looks like {schema.title}, but a field is not as it should be: "
            f"{type(error).__name__} ({one_line(error)})"
        ) from None
    if fields:
        plain = override(row, plain, fields, where)
    if schema is PLAIN and not ("response" in plain[0] or "token_ids" in plain[0]):
        raise _unknown(row, where, f"no field 'response'; its fields are {quoted(row)}", options)
    for texts in () if fields else (rollout.get("response") for rollout in plain):
        if isinstance(texts, list) and len(texts) > 1 and all(isinstance(x, str) for x in texts):
            raise _unknown(row, where, f"response is a list of {len(texts)} texts", options)
    return schema, plain


def _unknown(row: Row, where: str, message: str, options: ReadOptions) -> InputError:
    """The error of a row in no known form: with options that read it, or why they would not."""
    if is_keyed(row):
        return InputError(
            f"{where}: {message}; each seems to hold the rollouts of a problem; expected one row a "
            'rollout, with its problem as "group", or one row a problem, with "group" and '
            '"rollouts"'
        )
    fields = suggested_fields(row, needs_reward=options.needs_reward)
    error = UnknownRowsError(f"{where}: {message}", fields)
    if not error.is_template:
        try:
            list(by_fields(row, parse_fields(fields[1::2]), where))
        except InputError as why:
            reason = str(why).removeprefix(f"{where}: ")
            return InputError(f"{where}: {message}; with {' '.join(fields)}: {reason}")
    return error


def _tables_of(path: Path, options: ReadOptions, tolerance: Tolerance) -> Iterator[Any]:
    """The record of one file, some rows at a time."""
    may_be_own = path.suffix in (".parquet", ".gz") and not options.fields
    if may_be_own and is_own_record(path):
        options.require_no_choice(path)
        yield from own_tables(path)
        return
    rollouts = _record_rows(path, options, tolerance)
    before, is_empty = len(tolerance.repeated_steps), True
    while batch := list(itertools.islice(rollouts, ROWS_PER_BATCH)):
        yield pa.Table.from_pylist(batch, schema=record.SCHEMA)
        is_empty = False
    if is_empty and len(tolerance.repeated_steps) == before:
        raise EmptyFileError(f"{path} is empty: it holds no rollouts")


def _record_rows(path: Path, options: ReadOptions, tolerance: Tolerance) -> Iterator[Row]:
    """Rows of the record; an error where not a single row of the file could be used."""
    n = 0
    before = len(tolerance.rejected)
    for plain, where, _schema in plain_rows(path, options, tolerance):
        try:
            row = to_record_row(tolerance.complete(plain, where), where, options.threshold or 0.0)
        except InputError as error:
            tolerance.reject(error)
            continue
        n += 1
        decided = row["correct"] is not None
        if decided and options.threshold is None and is_null(plain.get("correct")):
            tolerance.by_reward += 1
            tolerance.fractional += 0 < row["reward"] < 1
        yield row
    # Not one row could be used: the first error says why, with options that would read it.
    if not n and len(tolerance.rejected) > before:
        first = tolerance.rejected[before]
        unknown = tolerance.unknown
        raise unknown if unknown and str(unknown) == first else InputError(first)
