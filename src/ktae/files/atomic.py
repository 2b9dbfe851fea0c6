"""Write beside, then rename: a reader never sees half a file. And the folders to write into."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from ktae.errors import InputError


def make_folder(folder: Path, what: str | None = None) -> None:
    """Make a folder and its parents; `what` is its name in the error."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make {what or f'folder {folder}'}: {error.strerror}") from None


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """A temporary path in the same folder; it replaces `path` when the block ends without error.

    The content is on the disk before the name is. A link stays one: the file that it points to is
    replaced. A pipe or a device stays what it is, and gets the content at the end.

    Raises:
        InputError: the path cannot be written to.
    """
    path = Path(path)
    is_stream = path.exists() and not path.is_file() and not path.is_dir()
    target = Path(tempfile.gettempdir()) / path.name if is_stream else _followed(path)
    temporary = _beside(target)
    try:
        if path.is_dir():
            raise IsADirectoryError("it is a folder")
        temporary.touch(exist_ok=False)
        yield temporary
        if is_stream:
            with temporary.open("rb") as content, path.open("wb") as stream:
                shutil.copyfileobj(content, stream)
        else:
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
    """A temporary folder beside `path`; it takes that name when the block ends without error.

    A folder of that name is replaced.
    """
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
    path = _followed(path)
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


def _followed(path: Path) -> Path:
    """The end of a link; any other path as it is spelled."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path
