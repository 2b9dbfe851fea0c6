"""`ktae data`: training data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ktae.cli.command import Command, Group
from ktae.cli.options import one_of
from ktae.cli.printing import AsJson, Screen
from ktae.cli.reading import note
from ktae.errors import InputError

app = typer.Typer(cls=Group, help="Make training data for the engines.", no_args_is_help=True)


@app.callback()
def _data() -> None:
    """Make training data for the engines."""


@app.command(cls=Command)
def prepare(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="The problems: math12k, math-l3-5 or gsm8k from the hub, or a file of them.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Write to this folder [default: data/SOURCE].",
        ),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Validate on the problems of this file, instead of SOURCE's own."
        ),
    ] = None,
    template: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=one_of(("qwen-math", "plain")),
            help="Write the prompts in this form: qwen-math or plain.",
        ),
    ] = "qwen-math",
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Call verl's data_source this [default: SOURCE's name]."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the Parquet files that verl and TRL train from, out of one source.

    A file holds one problem a row: `problem` and `answer`, as JSON lines (also .gz) or Parquet.
    """
    from ktae.data import prepare as prepared
    from ktae.data import sources
    from ktae.rollouts.files import without_format

    named = source in sources.SOURCES
    stem = source if named else without_format(Path(source).name)
    splits = sources.load(source) if named else {"train": sources.load_file(Path(source))}
    if test is not None:
        splits["test"] = sources.load_file(test)
    if "test" not in splits:
        raise InputError(f"{source} has no problems to validate on; name a file of them: --test")
    data_source = name or (sources.SOURCES[source].data_source if named else stem)
    folder = output or Path("data") / stem
    problems = {kind: split.problems for kind, split in splits.items()}
    counts = prepared.write(problems, folder, data_source=data_source, template=template)
    for kind, split in splits.items():
        if split.without_answer:
            note(f"warning: {split.without_answer} {kind} problems have no answer and are left out")
    shown = ", ".join(f"{count:,} {split}" for split, count in counts.items())
    screen = Screen(as_json)
    screen.console.print(f"{folder}: {shown} problems, in verl/ and trl/", soft_wrap=True)
    without = {kind: split.without_answer for kind, split in splits.items()}
    screen.end({"output": folder, "problems": counts, "without_answer": without})
