"""`ktae show`: a group in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ktae.cli import options
from ktae.cli.printing import Screen
from ktae.cli.reading import Reading
from ktae.errors import InputError
from ktae.files import plots


@options.spread
def show(
    reading: Reading,
    group: Annotated[
        str | None,
        typer.Option(
            help="Its label or its prompt's beginning [default: the one of most evidence]."
        ),
    ] = None,
    step: Annotated[
        int | None, typer.Option(help="The training step of the group [default: the first].")
    ] = None,
    output: Annotated[
        Path | None,
        options.output_option(
            help="Write the group as a .html, .tex, .svg, .png or .pdf file instead.",
        ),
    ] = None,
) -> None:
    """Show one group: every token coloured by its credit, or with its credit beside it.

    A terminal gets colours. A pipe, a file and a terminal without colours get one token a line,
    after its credit.
    """
    from ktae.report import group as groups

    missing = [path for path in reading.paths[1:] if not path.exists()]
    if missing:
        raise InputError(f"{missing[0]} does not exist; a group is named by --group {missing[0]}")
    asked = reading.asked()
    options.require_outputs(reading.paths, ("--output", output, (".html", ".tex", *plots.KINDS)))
    screen, dump = Screen(reading.as_json), reading.load()
    shown = groups.scored_group(dump, group, step, asked)
    if output is None:
        groups.show_group(screen.console, shown)
    else:
        groups.save(shown, output)
        screen.print(f"wrote {output}")
    if screen.console.is_terminal:  # a pipe gets the group alone
        screen.next("ktae", "report", *reading.paths, *reading.flags())
    screen.end(groups.as_dict(shown) | {"notes": dump.notes.listed()})
