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
    """Make it and what is above it; `what` is its name in the error."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make {what or f'folder {folder}'}: {error.strerror}") from None


@contextlib.contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """A temporary path in the same folder; it replaces `path` when the block ends without error.

    Of a link the file that it points to is replaced. A pipe or a device stays what it is, and gets
    the whole content at the end.
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
        temporary.replace(target)
    except OSError as error:  # a full disk, most of the time
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path`; it takes that name when the block ends without error.

    A folder that is there already, left by a run that was cut short, is replaced.
    """
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield temporary
        temporary.chmod(0o755)  # mkdtemp makes folders private
        shutil.rmtree(path, ignore_errors=True)
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_unfinished(paths: Iterable[Path]) -> int:
    """Remove what a killed process was writing, files or folders; how many bytes that was."""
    size = 0
    for path in paths:
        inside = path.rglob("*") if path.is_dir() else [path]
        size += sum(file.stat().st_size for file in inside if file.is_file())
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return size


def unfinished(path: Path) -> list[Path]:
    """What `atomic_write` and `atomic_folder` had not finished of a path when they were killed."""
    path = _followed(path)
    return list(path.parent.glob(f".{glob.escape(path.name)}.*"))


def _followed(path: Path) -> Path:
    """Where a link leads; any other path itself, as it is spelled."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path
