"""Tables as CSV, or as CSV in gzip where the name ends with `.gz`, written and read."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ktae.errors import InputError, reason
from ktae.files.atomic import atomic_write


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write `csv_text`; the same rows are the same bytes, in gzip too: it has no date and no name.

    Raises:
        InputError: the file cannot be written.
    """
    content = csv_text(rows).encode()
    with atomic_write(path) as temporary:
        is_gzip = path.suffix == ".gz"
        temporary.write_bytes(gzip.compress(content, mtime=0) if is_gzip else content)


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a row, with the columns that any of them has; seven digits of a float."""
    text = io.StringIO()
    columns = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _shown(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def read_csv(path: Path, columns: Iterable[str] = ()) -> list[dict[str, str]]:
    """The rows of a file.

    Args:
        path: a `.csv` or `.csv.gz`.
        columns: those that it has to have.

    Raises:
        InputError: it cannot be read, lacks a column, or has rows of several lengths.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = set(columns) - set(reader.fieldnames or ())
            rows = list(reader)
    except (OSError, EOFError, zlib.error, ValueError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {reason(error)}") from None
    if missing:
        raise InputError(f"{path} has no column {', '.join(sorted(missing))}")
    if any(None in row or None in row.values() for row in rows):
        raise InputError(f"{path} has rows of other lengths than its first line")
    return rows


def _shown(value: Any) -> Any:
    """Seven digits of a float: beyond, files differ by rounding alone."""
    return f"{value:.7g}" if isinstance(value, float) else value
