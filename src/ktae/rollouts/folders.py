"""Which files of a folder hold rollouts: ktae's run folder, or the output folder of other tools."""

from __future__ import annotations

import re
from pathlib import Path

from ktae.errors import InputError
from ktae.rollouts.files import FORMATS
from ktae.rollouts.schemas import SCHEMAS
from ktae.rollouts.schemas.training import STEP

SUFFIXES = tuple(f"{suffix}{gz}" for suffix in FORMATS for gz in ("", ".gz"))
LAST = (".pt", ".pt.gz", ".json", ".json.gz")
"""Files that often are weights, settings or results; taken where a folder has no other ones."""
NUMBERED = re.compile(r"\d\.pt(\.gz)?$")
"""What slime calls its dumps, one a step, and other tools seldom their weights."""


def rollout_files(path: Path) -> list[Path]:
    """`path` itself, or a folder's rollout files by step; see `choose_files`."""
    return choose_files(path)[0]


def choose_files(path: Path) -> tuple[list[Path], list[Path]]:
    """A folder's rollout files by step, or `path` itself; and the files that are left alone.

    These are the files in `rollouts/` (ktae's run folder) or `completions/` (TRL's output folder)
    if it has one, else those that lie in it, else those in any folder below. Of a tool that names
    its files, others beside them are left alone, though they could be read.

    Raises:
        InputError: there is no such path, or the folder holds no rollouts.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a file or folder with rollouts")
    if not path.is_dir():
        return [path], []
    for folder in (path / "rollouts", path / "completions", path):
        if folder.is_dir() and (found := _readable(list(folder.iterdir()))):
            return _named(found)
    if found := _readable([file for file in path.rglob("*") if not _is_hidden(file, path)]):
        return _named(found)
    raise InputError(
        f"{path} holds no rollouts; expected files that end in {', '.join(FORMATS)}, or that "
        "followed by .gz, there, in rollouts/ or in completions/"
    )


def _readable(files: list[Path]) -> list[Path]:
    """Those of `files` that may hold rollouts, by step."""
    found = [
        file
        for file in files
        if file.name.endswith(SUFFIXES)
        and not file.name.endswith(".tokens.parquet")
        and (".pt" not in file.suffixes or NUMBERED.search(file.name))
        and file.is_file()
    ]
    found = [file for file in found if not file.name.endswith(LAST)] or found
    return sorted(found, key=_natural)


def _named(found: list[Path]) -> tuple[list[Path], list[Path]]:
    """Those that bear the name of a tool's files, if there are any, and the others."""
    for name in filter(None, (schema.files for schema in SCHEMAS)):
        if named := [file for file in found if file.name.startswith(name)]:
            return named, [file for file in found if file not in named]
    return found, []


def run_folder(file: Path) -> Path:
    """The folder of the run that a file belongs to: prime-rl gives each step a folder of its own."""
    return file.parent.parent if STEP.fullmatch(file.parent.name) else file.parent


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def _natural(path: Path) -> list[tuple[int, str]]:
    """Sorts 2.jsonl before 10.jsonl."""
    return [
        (int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", str(path))
    ]
