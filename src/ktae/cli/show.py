"""`ktae show`: a group in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ktae.cli import options
from ktae.cli.printing import AsJson, Screen
from ktae.errors import InputError

Picture = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the group as a picture instead of printing it."),
]


def show(
    inputs: options.Inputs = None,
    example: options.Example = False,
    group: Annotated[
        str | None,
        typer.Option(help="Its label or its prompt's beginning [default: the first mixed one]."),
    ] = None,
    step: Annotated[
        int | None,
        typer.Option(help="The training step of the group [default: the first]."),
    ] = None,
    estimator: options.EstimatorName = None,
    settings: options.Settings = None,
    tokenizer: options.TokenizerName = None,
    svg: Picture = None,
    png: Picture = None,
    html: Picture = None,
    as_json: AsJson = False,
    field: options.Fields = None,
    threshold: options.Threshold = None,
    correctness: options.Correctness = None,
    pool_models: options.PoolModels = None,
    join: options.Join = False,
    evaluation: options.Evaluation = False,
) -> None:
    """Show one group: every token coloured by its credit, or with its credit beside it.

    A terminal gets colours. A pipe, a file and a terminal without colours get one token a line,
    after its credit.
    """
    from ktae.report import group as groups

    inputs = options.inputs_or_example(inputs, example)
    missing = [path for path in inputs[1:] if not path.exists()]
    if missing:
        raise InputError(f"{missing[0]} does not exist; a group is named by --group {missing[0]}")
    how = options.read_options(
        field, tokenizer, threshold, correctness, pool_models, join, evaluation
    )
    chosen = options.estimator_of(estimator, settings, inputs)
    named = {"svg": svg, "png": png, "html": html}
    pictures = {name: path for name, path in named.items() if path is not None}
    options.require_outputs(inputs, **pictures)
    for name, path in pictures.items():
        if path.suffix != f".{name}":
            raise InputError(f"--{name} {path}: expected a name that ends in .{name}")
        if name != "html":
            options.require_picture(f"--{name}", path)
    screen = Screen(as_json)
    dump = options.load(inputs, how)
    shown = groups.scored_group(dump, group, step, chosen)
    for path in pictures.values():
        groups.save(shown, path)
        screen.print(f"wrote {path}")
    if not pictures:
        groups.show_group(screen.console, shown)
    if (used := chosen or dump.estimator) not in (None, shown.estimator):
        options.note_single_tokens(used)
    if screen.console.is_terminal:  # a pipe gets the group alone
        screen.next("ktae", "report", *inputs)
    screen.end(groups.as_dict(shown))
