"""Write beside, then rename: a reader never sees half a file. And the folders to write into."""

from __future__ import annotations

import contextlib
import glob
import os
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
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder")
    is_stream = path.exists() and not path.is_file()
    target = path if is_stream else _followed(path)
    try:
        folder = None if is_stream else target.parent
        handle, name = tempfile.mkstemp(dir=folder, prefix=f".{target.name}.")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if is_stream:
            with temporary.open("rb") as content, target.open("wb") as stream:
                shutil.copyfileobj(content, stream)
            return
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes files private
        _sync(temporary)
        temporary.replace(target)
        _sync(target.parent)
    except OSError as error:  # a full disk, most of the time
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file, atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path`; it takes that name when the block ends without error.

    A folder of that name is replaced.
    """
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield temporary
        temporary.chmod(0o755)  # mkdtemp makes folders private
        for file in (*temporary.rglob("*"), temporary):
            _sync(file)
        with contextlib.suppress(FileNotFoundError):
            path.rename(f"{temporary}.old")
        temporary.replace(path)
        _sync(path.parent)
    finally:
        for leftover in (temporary, f"{temporary}.old"):
            shutil.rmtree(leftover, ignore_errors=True)


def _sync(path: Path) -> None:
    """Have the system write a file's content, or a folder's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_unfinished(paths: Iterable[Path]) -> None:
    """Remove files and folders that a killed process was writing."""
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def unfinished(path: Path) -> list[Path]:
    """What `atomic_write` and `atomic_folder` had not finished of a path when they were killed."""
    path = _followed(path)
    return list(path.parent.glob(f".{glob.escape(path.name)}.*"))


def _followed(path: Path) -> Path:
    """The end of a link; any other path as it is spelled."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path
