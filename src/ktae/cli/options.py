"""The options that several commands have, and their checks."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktae.cli.printing import note
from ktae.errors import InputError
from ktae.files.hub import check_local_or_hub
from ktae.files.plots import KINDS as PICTURE
from ktae.rollouts.options import ReadOptions

if TYPE_CHECKING:
    from ktae.evaluation.outputs import Output
    from ktae.rollouts.notes import Notes

rare = functools.partial(typer.Option, rich_help_panel="Rarely needed")
"""An option that few people ask for: the help has a panel of its own for these."""

number = functools.partial(typer.Option, metavar="N")
rare_number = functools.partial(rare, metavar="N")

output_option = functools.partial(typer.Option, "--output", "-o", metavar="FILE")

JsonFile = Annotated[Path | None, output_option(help="A file for what --json would print.")]
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
Evaluation = Annotated[
    bool,
    rare("--evaluation", help="Of a run that holds both, read evaluations and not training."),
]
Join = Annotated[
    bool, rare("--join", help="Take files together: a group may span them, such as files of seeds.")
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
    groups: dict[str, Any] = {
        x: own[x].annotation for x in own if dataclasses.is_dataclass(own[x].annotation)
    }
    of_groups = {x: inspect.signature(groups[x], eval_str=True).parameters for x in groups}
    fields = {x: [of[name] for name in of if name not in own] for x, of in of_groups.items()}

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{x.name: values.pop(x.name) for x in fields[name]})
        command(**values)

    alone = [own[name] for name in own if name not in groups]
    parameters = [x.replace(kind=x.KEYWORD_ONLY) for x in (*alone, *chain(*fields.values()))]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {x.name: x.annotation for x in parameters}
    return run


def read_options(given: Any) -> ReadOptions:
    """What a dataclass of options, such as `Saved`, says about reading rollouts.

    Raises:
        InputError: there can be no such tokenizer, or a field or threshold makes no sense.
    """
    from ktae.rollouts.paths import parse_fields

    if given.tokenizer is not None:
        check_local_or_hub("tokenizer", given.tokenizer)
    names = [x.name for x in dataclasses.fields(ReadOptions) if hasattr(given, x.name)]
    values = {name: getattr(given, name) for name in names}
    return ReadOptions(fields=parse_fields(given.field or []), **values)


def require_outputs(
    inputs: Iterable[Path], *outputs: tuple[str, Path | None, Sequence[str]]
) -> None:
    """Raise an InputError, before any work, for a file that cannot be written or that is read.

    Args:
        inputs: files and folders with rollouts.
        *outputs: an option, the file that it names, and how that may end, if not in any way.
    """
    from ktae.rollouts.folders import choose_files

    written = [(option, path, endings) for option, path, endings in outputs if path is not None]
    # A folder of many files takes time to look through.
    choices = [choose_files(path)[0] for path in inputs] if written else []
    read = {os.path.realpath(file) for files in choices for file in files}
    for option, path, endings in written:
        if not path.parent.is_dir():
            raise InputError(f"{option} {path}: folder {path.parent} does not exist")
        if os.path.realpath(path) in read:
            raise InputError(f"{option} would overwrite {path}, which is one of the inputs")
        if endings and path.suffix not in endings:
            expected = " or ".join(filter(None, [", ".join(endings[:-1]), endings[-1]]))
            raise InputError(f"{option} {path}: expected a name that ends in {expected}")
        if path.suffix in endings and path.suffix in PICTURE and find_spec("matplotlib") is None:
            raise InputError(
                f"{option} {path}: a picture needs matplotlib, which is not installed; "
                "pip install matplotlib"
            )


def note_reading(notes: Notes) -> None:
    """Say on stderr what the files were read as, what was left out, joined and assumed."""
    for line in notes:
        note(line.text + (f". {line.more}" if line.more else ""))


@dataclasses.dataclass(frozen=True)
class Saved:
    """The options that say how saved outputs are read."""

    tokenizer: Annotated[
        str | None, rare(help="Counts the lengths that saved outputs do not hold.")
    ] = None
    partial: Annotated[
        bool,
        rare("--partial", help="Saved problems may be missing; those that all have are compared."),
    ] = False
    field: Fields = None
    correctness: Correctness = None
    pool_models: PoolModels = None
    join: Join = False
    evaluation: Evaluation = False

    def read(
        self, path: Path, notes: Notes, benchmarks: Sequence[str] | None = None
    ) -> list[Output]:
        """What `ktae.evaluation.outputs.read` gives."""
        from ktae.evaluation.outputs import read

        how, partial = read_options(self), self.partial
        return read(path, how, notes=notes, partial=partial, benchmarks=benchmarks)
