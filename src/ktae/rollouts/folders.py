"""Which files of a folder hold rollouts: ktae's run folder, or the output folder of other tools."""

from __future__ import annotations

import gzip
import re
import zlib
from pathlib import Path

from ktae.errors import InputError
from ktae.rollouts import record
from ktae.rollouts.files import FORMATS, SUFFIXES
from ktae.rollouts.schemas import SCHEMAS

PACKED = tuple(f"{x}.{how}" for x in FORMATS for how in ("zst", "bz2", "xz", "lz4", "br", "zip"))
"""Files that are packed in a way that is not read: a folder's are named as left alone."""
LAST = (".pt", ".pt.gz", ".json", ".json.gz")
"""Files that often are weights, settings or results; read where a folder has no other ones."""
NUMBERED = re.compile(r"\d\.pt(\.gz)?$")
"""What slime calls its dumps, one a step, and other tools seldom their weights."""

EVALUATION = re.compile(r"(^|[^a-z])eval_\d+\.pt(\.gz)?$")
"""slime's dumps of an evaluation: it puts eval_ before the step, in the name that training has."""


def choose_files(path: Path) -> tuple[list[Path], list[Path]]:
    """A folder's rollout files by step, or `path` itself; and the files that are left alone.

    These are the files in `rollouts/` (ktae's run folder) or `completions/` (TRL's output folder)
    if it has one, else those that lie in it, else those in any folder below. Of these are left
    alone: what `ktae score` has written, unless there is nothing else; a packed file beside the
    same one unpacked; .json and .pt files beside others; slime's evaluations beside its training;
    files beside those of a tool that names its files; and files packed
    in a way that is not read.

    Raises:
        InputError: there is no such path, or the folder holds no rollouts.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a file or folder with rollouts")
    if not path.is_dir():
        return [path], []
    scored: list[Path] = []
    # The likeliest place first; then whatever is below and not hidden.
    named = [x for x in (path / "rollouts", path / "completions", path) if x.is_dir()]
    below = (
        x for x in path.rglob("*") if not re.search(r"(^|/)\.", x.relative_to(path).as_posix())
    )
    for place in map(list, [*(folder.iterdir() for folder in named), below]):
        readable = [
            file
            for file in place
            if file.name.endswith(SUFFIXES)
            and not file.name.endswith(".tokens.parquet")
            and (".pt" not in file.suffixes or NUMBERED.search(file.name))
            and file.is_file()
        ]
        # By step: 2.jsonl before 10.jsonl.
        readable.sort(
            key=lambda file: [
                (int(part), "") if part.isdigit() else (-1, part)
                for part in re.split(r"(\d+)", str(file))
            ]
        )
        if chosen := _chosen(readable):
            others = set(readable) - set(chosen)
            packed = sorted(file for file in place if file.name.endswith(PACKED))
            return chosen, [file for file in readable if file in others] + packed
        scored = scored or readable
    if scored:
        return scored, []
    raise InputError(
        f"{path} holds no rollouts; expected files that end in {', '.join(FORMATS)}, or that "
        "followed by .gz, there, in rollouts/ or in completions/"
    )


def looks_like_rollouts(file: Path) -> bool:
    """Whether a file that is left alone is worth a word: weights, settings and results are not."""
    if not file.name.endswith(LAST):
        return True
    if ".pt" in file.suffixes:
        return EVALUATION.search(file.name) is not None
    try:
        with gzip.open(file) if file.suffix == ".gz" else open(file, "rb") as stream:
            return stream.read(100).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
    except (OSError, EOFError, zlib.error):
        return False


def _chosen(files: list[Path]) -> list[Path]:
    """Those that are to be read; none where all are what `ktae score` has written."""
    there = set(files)
    left = [
        file
        for file in files
        if not (file.suffix == ".gz" and file.with_suffix("") in there)
        and not record.is_scored(file)
    ]
    # Each rule leaves something: where it would leave nothing, it says nothing.
    left = [file for file in left if not file.name.endswith(LAST)] or left
    left = [file for file in left if not EVALUATION.search(file.name)] or left
    for name in filter(None, (schema.files for schema in SCHEMAS)):
        if named := [file for file in left if file.name.startswith(name)]:
            return named
    return left
