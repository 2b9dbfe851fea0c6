"""`ktae report`: rollouts in, one HTML file out. `ktae show`: a group in the terminal."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from ktae.cli.options import (
    Correctness,
    EstimatorName,
    Fields,
    Inputs,
    PoolModels,
    Settings,
    Threshold,
    TokenizerName,
    check,
    estimator_of,
    fields_of,
    load_dump,
    note_reading,
    note_single_tokens,
    require_folder,
)
from ktae.errors import InputError


def report(
    inputs: Inputs,
    tokenizer: TokenizerName = None,
    output: Annotated[Path, typer.Option(help="The HTML file.")] = Path("report.html"),
    estimator: EstimatorName = None,
    settings: Settings = None,
    threshold: Threshold = 0.0,
    correctness: Correctness = None,
    field: Fields = None,
    pool_models: PoolModels = None,
    title: Annotated[
        str | None, typer.Option(help="Of the page [default: the inputs' names].")
    ] = None,
    max_tokens: Annotated[
        int, typer.Option(min=1, help="Above this, whole groups are left out; the page says which.")
    ] = 6_000_000,
    regrade: Annotated[
        bool,
        typer.Option(
            "--regrade/--no-regrade",
            help="Grade rollouts that have a reference answer; list where the dump differs.",
        ),
    ] = True,
) -> None:
    """Explain a rollout dump: one HTML file that needs no network and no server."""
    from rich.console import Console

    from ktae.report import write_report

    check(tokenizer, threshold)
    fields = fields_of(field)
    chosen = estimator_of(estimator, settings, inputs)
    for path in inputs:
        if os.path.realpath(path) == os.path.realpath(output):
            raise InputError(f"--output would overwrite {output}, which is one of the inputs")
    require_folder("--output", output)
    started = time.perf_counter()
    with Console(stderr=True).status("reading and scoring"):
        dump = write_report(
            inputs,
            output,
            tokenizer=tokenizer,
            estimator=chosen,
            threshold=threshold,
            correctness=correctness,
            fields=fields,
            pool_models=pool_models,
            max_tokens=max_tokens,
            regrade=regrade,
            title=title,
        )
    note_reading(dump.tolerance, len(dump.rollouts))
    if dump.unit == "words":
        typer.echo(
            "ktae: no --tokenizer: the page compares words, not the policy's tokens", err=True
        )
    typer.echo(
        f"{len(dump.rollouts):,} rollouts in {time.perf_counter() - started:.1f} s; "
        f"wrote {output} ({output.stat().st_size / 1e6:.1f} MB)"
    )


def show(
    inputs: Inputs,
    group: Annotated[str | None, typer.Option(help="Its label [default: the first mixed].")] = None,
    step: Annotated[int | None, typer.Option(help="Its training step.")] = None,
    tokenizer: TokenizerName = None,
    estimator: EstimatorName = None,
    settings: Settings = None,
    threshold: Threshold = 0.0,
    correctness: Correctness = None,
    field: Fields = None,
    pool_models: PoolModels = None,
) -> None:
    """Show one group in the terminal: every token coloured by its credit."""
    from rich.console import Console

    from ktae.report import terminal

    check(tokenizer, threshold)
    chosen = estimator_of(estimator, settings, inputs)
    dump = load_dump(
        inputs, tokenizer, threshold=threshold, correctness=correctness, field=field,
        pool_models=pool_models,
    )  # fmt: skip
    console = Console(markup=False, emoji=False, highlight=False)
    terminal.show_group(console, dump, group, step, chosen)
    if (used := chosen or dump.estimator) is not None:
        note_single_tokens(used)
