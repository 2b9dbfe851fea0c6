"""`ktae show`: a group in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from ktae.cli.options import (
    Correctness,
    EstimatorName,
    Fields,
    Inputs,
    MaxResponse,
    PoolModels,
    Settings,
    Threshold,
    TokenizerName,
    check,
    estimator_of,
)
from ktae.cli.printing import AsJson, Screen
from ktae.cli.reading import load_dump, note_single_tokens, note_unit


def show(
    inputs: Inputs,
    group: Annotated[
        str | None,
        typer.Option(metavar="LABEL", help="Show this group [default: the first mixed one]."),
    ] = None,
    step: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Show the group at this training step [default: the first]."
        ),
    ] = None,
    tokenizer: TokenizerName = None,
    estimator: EstimatorName = None,
    settings: Settings = None,
    threshold: Threshold = 0.0,
    correctness: Correctness = None,
    field: Fields = None,
    pool_models: PoolModels = None,
    max_response: MaxResponse = None,
    as_json: AsJson = False,
) -> None:
    """Show one group: every token coloured by its credit, or with its credit beside it.

    A terminal gets colours. A pipe, a file and a terminal without colours get one token a line,
    after its credit.
    """
    from ktae.report import terminal

    check(tokenizer, threshold)
    chosen = estimator_of(estimator, settings, inputs)
    screen = Screen(as_json)
    dump = load_dump(
        inputs, tokenizer, threshold=threshold, correctness=correctness, field=field,
        pool_models=pool_models, max_response=max_response,
    )  # fmt: skip
    shown = terminal.scored_group(dump, group, step, chosen)
    note_unit(dump)
    terminal.show_group(screen.console, shown)
    if (used := chosen or dump.estimator) is not None:
        note_single_tokens(used)
    screen.end(terminal.as_dict(shown))
