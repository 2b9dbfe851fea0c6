"""What a command prints: tables for people, or with `--json` one JSON document and nothing else."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ktae.files.atomic import atomic_write

AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print the numbers as JSON on stdout, and nothing else there."),
]


class Screen:
    """Where a command prints.

    Args:
        as_json: `--json` is given: `console` is silent, and `end` prints.
    """

    def __init__(self, as_json: bool = False) -> None:
        from rich.console import Console

        self.as_json = as_json
        self.console = Console(markup=False, emoji=False, highlight=False, quiet=as_json)
        self.progress = Console(stderr=True, highlight=False) if as_json else self.console
        """For bars, and for lines in their place."""

    def end(self, content: object, output: Path | None = None) -> None:
        """Print the command's numbers, with `--json`, and write them to `output`."""
        text = as_text(content)
        if output is not None:
            with atomic_write(output) as temporary:
                temporary.write_text(text + "\n", encoding="utf-8")
            self.console.print(f"wrote {output}", soft_wrap=True)
        if self.as_json:
            typer.echo(text)

    @contextlib.contextmanager
    def others_aside(self) -> Iterator[None]:
        """With `--json`, what libraries print on stdout goes to stderr."""
        if not self.as_json:
            yield
            return
        with contextlib.redirect_stdout(sys.stderr):
            yield


def as_text(content: object) -> str:
    """Standard JSON: NaN and infinities are null, arrays are lists, tuples with names objects."""
    return json.dumps(plain(content), indent=2, allow_nan=False)


def plain(value: Any) -> Any:
    """The same of what JSON has: objects, lists, texts, numbers, true, false and null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value
