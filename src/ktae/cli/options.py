"""The options that several commands have, and their checks."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from ktae.errors import InputError
from ktae.files.inputs import spooled
from ktae.files.plots import KINDS as PICTURE

rare = functools.partial(typer.Option, rich_help_panel="Rarely needed")
"""An option that few people ask for: the help has a panel of its own for these."""
number = functools.partial(typer.Option, metavar="N")
rare_number = functools.partial(rare, metavar="N")
output_option = functools.partial(typer.Option, "--output", "-o", metavar="FILE")

JsonFile = Annotated[Path | None, output_option(help="A file for what --json would print.")]
Plot = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A .png, .svg or .pdf file for a forest plot.")
]
Workers = Annotated[
    int | None, rare_number(min=1, help="Processes that grade [default: one a processor].")
]


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters that are dataclasses are taken apart: each field is an option.

    The command's own options come first in the help. One that has the name of a field takes the
    field's place, and then is no part of the dataclass.
    """
    own = inspect.signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {}
    options = []
    for name, parameter in own.items():
        kind: Any = parameter.annotation
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            fields = inspect.signature(kind, eval_str=True).parameters
            groups[name] = kind, [x for x in fields if x not in own]
            options += [fields[x] for x in groups[name][1]]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, (group, fields) in groups.items():
            values[name] = group(**{field: values.pop(field) for field in fields})
        command(**values)

    options = [*(own[name] for name in own if name not in groups), *options]
    options = [option.replace(kind=option.KEYWORD_ONLY) for option in options]
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in options}
    return run


def require_outputs(
    inputs: Iterable[Path], *outputs: tuple[str, Path | None, Sequence[str]]
) -> None:
    """Raise an InputError, before any work, for a file that cannot be written or that is read.

    Args:
        inputs: files and folders with rollouts.
        *outputs: an option, the file that it names, and how that may end, if not in any way.
    """
    from ktae.rollouts.folders import choose_files

    written = [(option, path, ends) for option, path, ends in outputs if path is not None]
    # A folder of many files takes time to look through.
    files = [x for path in inputs for x in choose_files(spooled(path))[0]] if written else []
    read = {*map(os.path.realpath, files)}
    for option, path, ends in written:
        if not path.parent.is_dir():
            raise InputError(f"{option} {path}: folder {path.parent} does not exist")
        if os.path.realpath(path) in read:
            raise InputError(f"{option} would overwrite {path}, which is one of the inputs")
        if ends and path.suffix not in ends:
            raise InputError(f"{option} {path}: expected a name that ends in {', '.join(ends)}")
        if ends and path.suffix in PICTURE and find_spec("matplotlib") is None:
            raise InputError(f"{option} {path}: needs matplotlib; pip install matplotlib")
