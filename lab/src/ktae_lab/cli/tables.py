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
    figures: Annotated[
        bool, typer.Option("--figures", help="Draw the figures that the pages show.")
    ] = False,
) -> None:
    """Make the tables and numbers of README.md, `docs` and `lab/pages`, the CSV of all comparisons,
    and the figures.

    They are made of the files in `lab/results` and `benchmarks/results`, so this needs a checkout
    of the repository.
    """
    from ktae_lab.tables import page, pages

    if not pages.PAGES.is_dir():
        raise InputError(f"{page.LAB} has no pages; run this from a checkout of ktae's repository")
    if not (write or check or figures):
        raise InputError("nothing to do; give --write, --check or --figures")
    if write:
        for path in pages.write():
            typer.echo(f"wrote {os.path.relpath(path, page.LAB.parent)}")
    if figures:
        for path in pages.draw():
            typer.echo(f"drew {os.path.relpath(path, page.LAB.parent)}")
    if check and (stale := pages.stale()):
        names = ", ".join(str(os.path.relpath(path, page.LAB.parent)) for path in stale)
        typer.echo(f"ktae-lab: not what the results give: {names}; see --write", err=True)
        raise typer.Exit(1)
