"""`ktae-lab study`: a matrix in, runs and comparisons out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ktae.cli.printing import AsJson, Screen
from ktae.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktae_lab.study.cells import Cell
    from ktae_lab.study.contrasts import Compared
    from ktae_lab.study.folder import State


def study(
    matrix: Annotated[
        Path,
        typer.Argument(
            metavar="MATRIX", help="The matrix: a YAML file, such as those in lab/matrices."
        ),
    ],
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Do so many runs at a time.")] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the study in the folder, or extend it.")
    ] = False,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            help="Run failed runs again: from their beginning, killed ones from their checkpoint.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Write the study to this folder [default: studies/NAME].",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the matrix and list its runs; run nothing.")
    ] = False,
    results_only: Annotated[
        bool, typer.Option("--results-only", help="Run nothing; write the results of what is there")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train every method on every seed, and compare them as announced in the matrix."""
    from ktae_lab.study import cells as expansion
    from ktae_lab.study import matrix as matrices
    from ktae_lab.study import results
    from ktae_lab.study.folder import State, StudyFolder
    from ktae_lab.study.runner import run

    screen = Screen(as_json)
    loaded = matrices.load(matrix)
    cells = expansion.expand(loaded, matrix)
    folder = StudyFolder(output or Path("studies") / loaded.name)
    if dry_run:
        for cell in cells:
            overrides = " ".join(cell.overrides)
            screen.print(
                f"{cell.name} ({folder.state(cell).value}): {cell.recipe_file} {overrides}"
            )
        steps = sum(cell.recipe.steps for cell in cells)
        screen.print(f"{len(cells)} runs, {steps} training steps, into {folder.path}")
        return
    stopped_by = None
    if not results_only:
        with folder.open(loaded, cells, resume=resume or retry_failed) as lock:
            progress = _Progress(screen, cells)
            stopped_by = run(
                cells, folder, lock, jobs=jobs, progress=progress, retry_failed=retry_failed
            )
    try:
        compared = results.write(loaded, cells, folder)
        _show(screen, loaded.name, compared)
    except InputError as error:
        if stopped_by is None:
            raise
        screen.print(str(error))
    if stopped_by is not None:
        screen.print("interrupted; --resume continues")
        raise typer.Exit(128 + stopped_by)
    states = [folder.state(cell) for cell in cells]
    counts = {state.value: states.count(state) for state in State if state in states}
    screen.print(", ".join(f"{n} runs {state}" for state, n in counts.items()))
    for cell, state in zip(cells, states, strict=True):
        if state is State.FAILED:
            screen.print(f"{cell.name} failed; see {folder.beside(cell, '.log')}")
    screen.print(f"wrote runs.csv, comparisons.csv and differences.svg in {folder.path}")
    if State.FAILED in states:
        raise typer.Exit(1)


class _Progress:
    """A line for each run that begins and that ends, with the time left at the pace so far."""

    def __init__(self, screen: Screen, cells: Sequence[Cell]) -> None:
        self.screen, self.began = screen, time.monotonic()
        self.steps_over, self.steps = 0, sum(cell.recipe.steps for cell in cells)

    def __call__(self, cell: Cell, state: State, seconds: float) -> None:
        from ktae_lab.study.folder import State

        if not seconds:
            self.screen.progress.print(f"started {cell.name}", soft_wrap=True)
            return
        line = f"{state.value} {cell.name} in {seconds / 60:.1f} min"
        if state is State.FINISHED:
            self.steps_over += cell.recipe.steps
            pace = (time.monotonic() - self.began) / self.steps_over
            left = pace * (self.steps - self.steps_over) / 3600
            line += f"; at this pace at most {left:.1f} h are left"
        self.screen.progress.print(line, soft_wrap=True)


def _show(screen: Screen, name: str, compared: Sequence[Compared]) -> None:
    """Print the comparisons; those of one kind are one family of Holm's correction."""
    from ktae_lab.csv_files import as_row

    rows = [as_row(name, comparison) for comparison in compared]
    for announced, kind in (("yes", "announced"), ("no", "exploratory")):
        family = [row for row in rows if row["announced"] == announced]
        lines = []
        for row in family:
            on_task = f" ({row['task']})" if row["task"] else ""
            what = f"{row['treatment']} - {row['baseline']}, {row['outcome']}{on_task}"
            interval = f"{row['low']} to {row['high']}" if row["low"] else "not enough"
            pairs = f"{row['pairs']} of {row['planned']}"
            lines.append((what, pairs, row["mean"], interval, row["holm"], row["shown"]))
        if lines:
            heads = ("pairs", "mean", "95 % interval", "p (Holm)", "shown")
            screen.table(f"{kind}: p corrected for {len(family)} comparisons", heads, lines)
    for row in rows:
        if row["note"]:
            screen.print(f"{row['treatment']} - {row['baseline']}, {row['outcome']}: {row['note']}")
    screen.end(rows)
