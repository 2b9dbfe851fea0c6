"""Which files of a folder hold rollouts: ktae's run folder, TRL's output folder, verl's dump."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pyarrow as pa

from ktae.errors import InputError
from ktae.rollouts import readers
from ktae.rollouts.dumps import Tolerance

SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet", ".parquet.gz")


def rollout_files(path: Path) -> list[Path]:
    """`path` itself, or a folder's rollout files by step: those in `rollouts/` (ktae's run folder)
    or `completions/` (TRL's output folder) if it has one, else those that lie in it.

    Raises:
        InputError: there is no such path, or the folder holds no rollouts.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if not path.is_dir():
        return [path]
    for folder in (path / "rollouts", path / "completions", path):
        if folder.is_dir():
            found = [
                file
                for file in folder.iterdir()
                if file.name.endswith(SUFFIXES) and not file.name.endswith(".tokens.parquet")
            ]
            if found:
                return sorted(found, key=_natural)
    raise InputError(
        f"{path} holds no rollouts; expected files that end in {', '.join(SUFFIXES)} there, in "
        "rollouts/ or in completions/"
    )


def read(
    inputs: list[Path],
    *,
    threshold: float = 0.0,
    correctness: str | None = None,
    tolerance: Tolerance | None = None,
) -> Any:
    """The rollouts of files and folders as one record; arguments as in `ktae.rollouts.readers`.

    The files of a folder whose rollouts all have a step share their groups' labels, since the step
    keeps them apart; any other two files' labels get the file's path in front.

    Raises:
        InputError: as there, or a file is given twice, be it once by its folder.
    """
    if not inputs:
        raise InputError("no files to read")
    files_of = [rollout_files(path) for path in inputs]
    readers.require_distinct(itertools.chain.from_iterable(files_of))
    tables = []
    for path, files in zip(inputs, files_of, strict=True):
        parts = [
            readers.read([file], threshold=threshold, correctness=correctness, tolerance=tolerance)
            for file in files
        ]
        if len(files) > 1 and any(part["step"].null_count for part in parts):
            parts = [
                readers.label(part, f"{file.name}:")
                for part, file in zip(parts, files, strict=True)
            ]
        prefix = f"{path}:" if len(inputs) > 1 else ""
        tables += [readers.label(part, prefix) if prefix else part for part in parts]
    return pa.concat_tables(tables)


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sorts 2.jsonl before 10.jsonl."""
    return [
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)
    ]
