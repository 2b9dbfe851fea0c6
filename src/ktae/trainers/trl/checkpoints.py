"""From which checkpoint a run goes on, and what to do when the disk is full."""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError, safe_open

from ktae.errors import InputError, one_line
from ktae.runs import RunFolder

_FULL = ("No space left on device", "Disk quota exceeded", "iostream error", "unexpected pos")
"""What the libraries say that write a checkpoint; the last two are torch's."""


def newest_whole(folder: RunFolder) -> tuple[Path | None, list[str]]:
    """The newest checkpoint whose files are whole, and what is wrong with each newer one."""
    problems: list[str] = []
    for checkpoint in folder.all_checkpoints():
        problem = what_is_wrong(checkpoint)
        if problem is None:
            return checkpoint, problems
        problems.append(f"{checkpoint} is damaged ({problem})")
    return None, problems


def what_is_wrong(checkpoint: Path) -> str | None:
    """The first file that cannot be read, and why; None for a whole checkpoint.

    Reads everything but the weights' numbers: of those the header tells whether any are missing.
    """
    for file in sorted(path for path in checkpoint.rglob("*") if path.is_file()):
        try:
            if file.suffix == ".json":
                json.loads(file.read_text(encoding="utf-8"))
            elif file.suffix == ".safetensors":
                with safe_open(file, "numpy"):
                    pass
            elif file.suffix in (".pt", ".pth"):
                with zipfile.ZipFile(file) as archive:
                    if (bad := archive.testzip()) is not None:
                        return f"{file.name}: {bad} in it has another checksum"
        except (OSError, ValueError, SafetensorError, zipfile.BadZipFile) as error:
            return f"{file.name}: {one_line(error)}"
    return None


@contextlib.contextmanager
def full_disk_is_said(folder: RunFolder) -> Iterator[None]:
    """Make a full disk one error that says what is saved and what to do.

    Raises:
        InputError: something could not be written because there was no room.
    """
    try:
        yield
    except Exception as error:
        if not _is_full(error):
            raise
        checkpoint, _ = newest_whole(folder)
        saved = f"the last whole checkpoint is {checkpoint}" if checkpoint else "nothing is saved"
        go_on = "add --resume" if checkpoint else "start again"
        free = shutil.disk_usage(folder.path).free / 1e6
        raise InputError(
            f"the disk of {folder.path} is full ({free:,.1f} MB free): {one_line(error)}; {saved}. "
            f"Make room, then {go_on}; fewer checkpoints are kept with logging.keep_checkpoints=1"
        ) from error


def _is_full(error: BaseException) -> bool:
    """Whether an error, or one that it came from, is that of a full disk."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    if any(text in str(error) for text in _FULL):
        return True
    return error.__cause__ is not None and _is_full(error.__cause__)
