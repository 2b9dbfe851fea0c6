"""`ktae data`: training data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ktae.errors import InputError

app = typer.Typer(help="Training data for the engines.", no_args_is_help=True)


@app.callback()
def _data() -> None:
    """Training data for the engines."""


@app.command()
def prepare(
    source: Annotated[
        str, typer.Argument(help="math12k, math-l3-5 or gsm8k (from the hub), or a file.")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder to write to [default: data/SOURCE]."),
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="A file of problems to validate on, instead of its own.")
    ] = None,
    template: Annotated[str, typer.Option(help="qwen-math or plain.")] = "qwen-math",
    name: Annotated[
        str | None, typer.Option(help="verl's data_source [default: SOURCE's name].")
    ] = None,
) -> None:
    """Write the Parquet files that verl and TRL train from, out of one source.

    A file holds one problem a row: `problem` and `answer`, as JSON lines (also .gz) or Parquet.
    """
    from ktae.data import prepare as prepared
    from ktae.data import sources

    named = source in sources.SOURCES
    stem = source if named else Path(source).name.split(".")[0]
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
            typer.echo(
                f"ktae: warning: {split.without_answer} {kind} problems have no answer and are "
                "left out",
                err=True,
            )
    shown = ", ".join(f"{count:,} {split}" for split, count in counts.items())
    typer.echo(f"{folder}: {shown} problems, in verl/ and trl/")
