"""What a command prints: lines and tables for people, or with `--json` one JSON document alone."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ktae.files.atomic import write_text
from ktae.files.inputs import Opened
from ktae.files.text import on_one_line
from ktae.rollouts import EXAMPLE

AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print the numbers as JSON on stdout, and nothing else there."),
]


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

    def next(self, *command: str | Path) -> None:
        """Print the command to type next."""
        special: dict[Any, str] = {EXAMPLE: "--example", Opened.stdin: "-"}
        words = shlex.join(special.get(word, str(word)) for word in command)
        self.print(f"next: {words}", style="dim")

    def table(
        self,
        heading: str,
        columns: Sequence[str],
        rows: Sequence[Sequence[str] | None],
        first: str = "",
    ) -> None:
        """Print a table: one column of names, headed `first`, and others of numbers.

        It is as wide as the terminal at most, or else as its numbers are. Headings are broken where
        they would make it wider. A row that is None is a blank line.
        """
        from rich import box
        from rich.table import Table
        from rich.text import Text

        title = Text(on_one_line(heading))
        table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), min_width=len(title))
        table.title_justify, table.title_style = "left", "bold"
        cells = [row and [*map(on_one_line, row)] for row in rows]
        columns = [*map(on_one_line, columns)]
        empty = [""] * (1 + len(columns))
        names, *numbers = [max(map(len, x)) for x in zip(empty, *filter(None, cells), strict=True)]
        names = min(names, 16)
        # Headings on one line, else broken at blanks, else anywhere; numbers are never broken.
        words = [max(map(len, column.split()), default=0) for column in columns]
        widths = numbers
        for headings in (words, [*map(len, columns)]):
            wider = [*map(max, numbers, headings)]
            if 3 + names + sum(wider) + 2 * len(wider) <= self.console.width:
                widths = wider
        table.add_column(on_one_line(first), overflow="fold", min_width=names)
        for column, width in zip(columns, widths, strict=True):
            table.add_column(column, justify="right", overflow="fold", width=width)
        for row in cells:
            if row is None:
                table.add_section()
            else:
                table.add_row(*(Text(cell, style=_colour(cell)) for cell in row))
        needed = 3 + names + sum(widths) + 2 * len(widths)
        table.width = needed if needed > self.console.width else None
        self.console.print(table, crop=False)

    def end(self, content: object, output: Path | None = None) -> None:
        """Print the command's numbers, with `--json`, and write them to `output`."""
        # Standard JSON has neither NaN nor infinities.
        text = json.dumps(plain(content), indent=2, allow_nan=False)
        if output is not None:
            write_text(output, text + "\n")
            self.print(f"wrote {output}")
        if self.as_json:
            typer.echo(text)

    @contextlib.contextmanager
    def others_aside(self) -> Iterator[None]:
        """With `--json`, what libraries print on stdout goes to stderr."""
        with contextlib.redirect_stdout(sys.stderr if self.as_json else sys.stdout):
            yield


def _colour(cell: str) -> str:
    """Signs are told by colour, too; those of the page."""
    signed = re.fullmatch(r"([+-])[\d.,]*[1-9][\d.,]*", cell)
    return {"+": "blue", "-": "dark_orange"}[signed[1]] if signed else ""


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
