"""`ktae-lab tables`: what the pages say, made of the committed results."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ktae.errors import InputError


def tables(
    write: Annotated[
        bool, typer.Option("--write", help="Write the pages and results/comparisons.csv.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Fail where a file has something else.")
    ] = False,
    figures: Annotated[bool, typer.Option("--figures", help="Draw each study's figure.")] = False,
) -> None:
    """Make the tables and numbers of `lab/pages`, docs/evidence.md and README.md, and the CSV of
    all comparisons.

    They are made of the files in `lab/results`, so this needs a checkout of the repository.
    """
    from ktae_lab import page_figures
    from ktae_lab import tables as made

    if not made.PAGES.is_dir():
        raise InputError(f"{made.LAB} has no pages; run this from a checkout of ktae's repository")
    if not (write or check or figures):
        raise InputError("nothing to do; give --write, --check or --figures")
    written = made.stale(write=True) if write else []
    drawn = page_figures.draw() if figures else ()
    for path in [*written, *drawn]:
        typer.echo(f"wrote {os.path.relpath(path, made.LAB.parent)}")
    if check and (stale := made.stale()):
        names = ", ".join(os.path.relpath(path, made.LAB.parent) for path in stale)
        typer.echo(f"ktae-lab: not what the results give: {names}; see --write", err=True)
        raise typer.Exit(1)
