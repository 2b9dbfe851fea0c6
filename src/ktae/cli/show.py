"""`ktae show`: a group in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from ktae.cli.options import (
    EstimatorName,
    Settings,
    estimator_of,
)
from ktae.cli.printing import AsJson, Screen
from ktae.cli.reading import Reading, note_single_tokens, note_unit, reads_rollouts


@reads_rollouts
def show(
    reading: Reading,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL",
            help="Show this group, by its label or its prompt's beginning [default: the first "
            "mixed one].",
        ),
    ] = None,
    step: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Show the group at this training step [default: the first]."
        ),
    ] = None,
    estimator: EstimatorName = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show one group: every token coloured by its credit, or with its credit beside it.

    A terminal gets colours. A pipe, a file and a terminal without colours get one token a line,
    after its credit.
    """
    from ktae.report import terminal

    chosen = estimator_of(estimator, settings, reading.inputs)
    screen = Screen(as_json)
    dump = reading.load()
    shown = terminal.scored_group(dump, group, step, chosen)
    note_unit(dump)
    terminal.show_group(screen.console, shown)
    if (used := chosen or dump.estimator) not in (None, shown.estimator):
        note_single_tokens(used)
    screen.end(terminal.as_dict(shown))
