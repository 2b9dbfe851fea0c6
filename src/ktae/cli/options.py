"""The options that several commands have, and their checks."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktae.cli.printing import note
from ktae.errors import InputError
from ktae.files.hub import check_local_or_hub
from ktae.files.plots import KINDS as KINDS_OF_PICTURES
from ktae.rollouts.options import ReadOptions

if TYPE_CHECKING:
    from ktae.rollouts.notes import Notes

rare = functools.partial(typer.Option, rich_help_panel="Rarely needed")
"""An option that few people ask for: the help has a panel of its own for these."""

number = functools.partial(typer.Option, metavar="N")
rare_number = functools.partial(rare, metavar="N")

JsonFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="A file for what --json would print."),
]
Plot = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A .png, .svg or .pdf file for a forest plot.")
]
Correctness = Annotated[
    str | None, rare(help="Of several rewards or metrics the one that says what is correct.")
]
Fields = Annotated[
    list[str] | None,
    rare(
        "--field",
        "-f",
        metavar="NAME=PATH",
        help="Where a field is in a row, such as response=output or "
        "reward=samples[].score. Can be given several times.",
    ),
]
PoolModels = Annotated[
    bool | None,
    rare(
        "--pool-models/--by-model",
        help="Whether several models are compared as one [default: by model; of rollouts, unless "
        "most would be alone].",
        show_default=False,
    ),
]
Join = Annotated[
    bool, rare("--join", help="Take files together: a group may span them, such as files of seeds.")
]
Workers = Annotated[
    int | None, rare_number(min=1, help="Processes that grade [default: one a processor].")
]


def read_options(field: Sequence[str] | None, tokenizer: str | None, **others: Any) -> ReadOptions:
    """What the command line says about reading rollouts; `others` are fields of `ReadOptions`.

    Raises:
        InputError: there can be no such tokenizer, or a field or threshold makes no sense.
    """
    from ktae.rollouts.paths import parse_fields

    if tokenizer is not None:
        check_local_or_hub("tokenizer", tokenizer)
    return ReadOptions(tokenizer=tokenizer, fields=parse_fields(field or []), **others)


def require_outputs(inputs: Iterable[Path], **outputs: Path | None) -> None:
    """Raise an InputError, before any work, for a file that cannot be written or that is read.

    Args:
        inputs: files and folders with rollouts.
        outputs: by the names of options the files that they name.
    """
    from ktae.rollouts.folders import choose_files

    named = {f"--{name}": path for name, path in outputs.items() if path is not None}
    # A folder of many files takes time to look through.
    choices = [choose_files(path)[0] for path in inputs] if named else []
    read = {os.path.realpath(file) for files in choices for file in files}
    for option, path in named.items():
        if not path.parent.is_dir():
            raise InputError(f"{option} {path}: folder {path.parent} does not exist")
        if os.path.realpath(path) in read:
            raise InputError(f"{option} would overwrite {path}, which is one of the inputs")
        if option == "--plot":
            require_picture(option, path)


def require_picture(option: str, path: Path, *others: str) -> None:
    """Raise an InputError, before any work, for a file that no picture can be written to.

    `others` are endings of names that the command knows beside those of pictures.
    """
    if path.suffix not in KINDS_OF_PICTURES:
        *endings, last = *others, *KINDS_OF_PICTURES
        expected = f"{', '.join(endings)} or {last}"
        raise InputError(f"{option} {path}: expected a name that ends in {expected}")
    if find_spec("matplotlib") is None:
        raise InputError(
            f"{option} {path}: a picture needs matplotlib, which is not installed; "
            "pip install matplotlib"
        )


def note_reading(notes: Notes) -> None:
    """Say on stderr what the files were read as, what was left out, joined and assumed."""
    for line in notes:
        note(line.text + (f"; {line.more[:1].lower()}{line.more[1:]}" if line.more else ""))
