"""Write beside, then rename: a reader never sees half a file. And the folders to write into."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from ktae.errors import InputError, passed_on


def make_folder(folder: Path, what: str | None = None) -> None:
    """Make a folder and its parents; `what` is its name in the error."""
    with passed_on(f"cannot make {what or f'folder {folder}'}", OSError):
        folder.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """A temporary path in the same folder; it replaces `path` when the block ends without error.

    Of a link the file that it points to is replaced. A path that cannot be written to, and one of a
    pipe, a device or a folder, is an InputError.
    """
    target = Path(os.path.realpath(path))
    temporary = _beside(target)
    try:
        if target.exists() and not target.is_file():
            raise OSError("it is no file")
        temporary.touch(exist_ok=False)
        yield temporary
        _sync(temporary)
        temporary.replace(target)
        _sync(target.parent)
    except OSError as error:  # a full disk, most of the time
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A temporary folder, which replaces that at `path` when the block ends without error."""
    temporary, old = _beside(path), _beside(path)
    temporary.mkdir()
    try:
        yield temporary
        for file in (*temporary.rglob("*"), temporary):
            _sync(file)
        with contextlib.suppress(FileNotFoundError):
            path.rename(old)
        temporary.replace(path)
        _sync(path.parent)
    finally:
        for leftover in (temporary, old):
            shutil.rmtree(leftover, ignore_errors=True)


def unfinished(path: Path) -> list[Path]:
    """What `atomic_write` and `atomic_folder` had not finished of a path when they were killed."""
    path = Path(os.path.realpath(path))
    return list(path.parent.glob(f".{glob.escape(path.name)}.*"))


def remove_unfinished(paths: Iterable[Path]) -> None:
    """Remove files and folders that a killed process was writing."""
    for path in paths:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def _sync(path: Path) -> None:
    """Have the system write a file's content, or a folder's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
