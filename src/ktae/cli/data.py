"""`ktae data`: training data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ktae.cli.options import output_option
from ktae.cli.printing import AsJson, Screen, note
from ktae.errors import InputError


def prepare(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="math12k, math-l3-5 or gsm8k, or a file.")
    ],
    output: Annotated[Path | None, output_option(help="A folder [default: data/SOURCE].")] = None,
    test: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Problems to validate on, instead of SOURCE's own."),
    ] = None,
    template: Annotated[
        Literal["qwen-math", "plain"], typer.Option(help="The form of the prompts.")
    ] = "qwen-math",
    name: Annotated[
        str | None, typer.Option(help="verl's data_source [default: SOURCE's name].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the Parquet files that verl and TRL train from, out of one source.

    A file holds one problem a row: `problem` and `answer`, as JSON lines (also .gz) or Parquet.
    """
    from ktae.experiments.tasks import sources
    from ktae.experiments.tasks.base import write
    from ktae.experiments.tasks.problems import as_row
    from ktae.experiments.templates import INSTRUCTION
    from ktae.rollouts.files import without_format

    named = source in sources.SOURCES
    stem = source if named else without_format(Path(source).name)
    splits = sources.load(source) if named else {"train": sources.load_file(Path(source))}
    if test is not None:
        splits["test"] = sources.load_file(test)
    if "test" not in splits:
        raise InputError(f"{source} has no problems to validate on; name a file of them: --test")
    instruction = INSTRUCTION if template == "qwen-math" else None
    rows = {kind: [as_row(x, instruction) for x in splits[kind].problems] for kind in splits}
    folder = output or Path("data") / stem
    counts = write(rows, folder, data_source=name or stem)
    without = {kind: split.without_answer for kind, split in splits.items()}
    for kind, n in without.items():
        if n:
            note(f"warning: {n} {kind} problems have no answer and are left out")
    screen = Screen(as_json)
    shown = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
    screen.print(f"{folder}: {shown} problems, in verl/ and trl/")
    screen.end({"output": folder, "problems": counts, "without_answer": without})
