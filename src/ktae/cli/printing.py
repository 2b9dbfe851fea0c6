"""What a command prints: lines and tables for people, or with `--json` one JSON document alone."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

from ktae.files.text import on_one_line


def note(text: str) -> None:
    """Say something on stderr, above a bar that is there; it may quote a file."""
    print(f"ktae: {on_one_line(text)}", file=sys.stderr)


class Screen:
    """Where a command prints; with `as_json` the console is silent, and `end` prints."""

    def __init__(self, as_json: bool = False) -> None:
        from rich.console import Console

        self.as_json = as_json
        # This very stdout, also where what others print there is led away.
        self.console = Console(
            file=sys.stdout, markup=False, emoji=False, highlight=False, quiet=as_json
        )
        self.progress = Console(stderr=True, highlight=False) if as_json else self.console
        """For bars, and for lines in their place."""

    def print(self, *lines: str, style: str | None = None) -> None:
        """Print lines, each as one: newlines in them and whatever does not print are escaped."""
        for line in lines:
            self.console.print(on_one_line(line), style=style, soft_wrap=True)

    def table(
        self,
        heading: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[str] | None],
        first: str = "",
    ) -> None:
        """Print a table: a column of names, headed `first`, and others of numbers, which are never
        broken. A row that is None is a blank line."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        if not any(rows):
            return
        self.print(heading, style="bold")
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        names, *numbers = [max(map(len, x)) for x in zip(*filter(None, rows), strict=True)]
        table.add_column(on_one_line(first), overflow="fold", min_width=min(16, names))
        for column, width in zip(map(on_one_line, columns), numbers, strict=True):
            width = max(width, *map(len, column.split() or [""]))
            table.add_column(column, justify="right", overflow="fold", min_width=width)
        for row in rows:
            if row is None:
                table.add_section()
            else:
                table.add_row(*(Text(on_one_line(cell)) for cell in row))
        self.console.print(table, crop=False)

    def end(self, content: object) -> None:
        """Print the command's numbers, with `--json`."""
        if self.as_json:  # standard JSON has neither NaN nor infinities
            typer.echo(json.dumps(plain(content), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """The same of what JSON has: NaN and infinities are null, arrays lists, tuples with names
    objects."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value
