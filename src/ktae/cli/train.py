"""`ktae train`: a recipe in, a run folder out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktae.cli.options import RecipeKeys, RecipeSettings, one_of
from ktae.cli.printing import AsJson, Screen
from ktae.cli.reading import note
from ktae.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from ktae.recipe import Recipe
    from ktae.runs import RunFolder

ENGINES = ("trl", "verl")


def train(
    recipe: Annotated[
        Path,
        typer.Argument(
            metavar="RECIPE", help="The recipe: a YAML file, such as those in recipes/."
        ),
    ],
    keys: RecipeKeys = None,
    settings: RecipeSettings = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Write the run to this folder [default: runs/NAME-seedSEED].",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in the folder.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check and print the whole recipe, or verl's command; train nothing."
        ),
    ] = False,
    engine: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            autocompletion=one_of(ENGINES),
            help="Train with trl (on this machine) or verl (on Ray, a cluster).",
        ),
    ] = "trl",
    as_json: AsJson = False,
) -> None:
    """Train a recipe through TRL, or through verl on Ray."""
    from ktae import recipe as recipes
    from ktae.runs import RunFolder

    if engine not in ENGINES:
        raise InputError(f"--engine is {engine!r}; expected {' or '.join(ENGINES)}")
    checked = recipes.load(recipe, [*(keys or ()), *(settings or ())])
    folder = RunFolder(output or Path("runs") / f"{checked.name}-seed{checked.seed}")
    if as_json and dry_run:
        raise InputError("--dry-run prints a recipe or a command, and no numbers; leave out --json")
    if as_json and engine == "verl":
        raise InputError("--json is for --engine trl; verl prints what it likes on stdout")
    if engine == "verl":
        _train_with_verl(checked, folder, resume, dry_run)
        return
    _train(Screen(as_json), checked, folder, resume, dry_run)


def _train_with_verl(recipe: Recipe, folder: RunFolder, resume: bool, dry_run: bool) -> None:
    from ktae.trainers.verl import run, versions

    versions.require()
    if dry_run:
        typer.echo(run.dry_run(recipe, folder))
        return
    if status := run.run(recipe, folder, resume=resume):
        raise typer.Exit(status)
    typer.echo(f"run folder: {folder.path}")


def _train(screen: Screen, recipe: Recipe, folder: RunFolder, resume: bool, dry: bool) -> None:
    from ktae.cli.progress import Bars

    # Under torchrun or accelerate launch, the first process speaks for all.
    is_first = int(os.environ.get("RANK", "0")) == 0
    for console in (screen.console, screen.progress):
        console.quiet = console.quiet or not is_first
    try:
        with screen.progress.status("loading TRL"):
            from ktae.trainers.trl.run import dry_run, run
    except ModuleNotFoundError as error:
        raise InputError(
            f"training needs {error.name}, which is not installed; pip install 'ktae[trl,eval]'"
        ) from None
    if dry:
        typer.echo(dry_run(recipe, folder))
        return
    with screen.others_aside(), Bars(screen.progress, lines=20) as bars:

        def on_step(line: dict[str, Any]) -> None:
            bars.show("training", line["step"], recipe.steps, _shown(line))

        stopped_by = run(recipe, folder, resume=resume, on_step=on_step, note=note)
    if stopped_by:
        screen.progress.print(
            f"stopped; everything is in {folder.path}. Add --resume to continue.", soft_wrap=True
        )
        raise typer.Exit(128 + stopped_by)
    summary = json.loads(folder.summary.read_text(encoding="utf-8"))
    _print_summary(screen.console, summary, folder)
    if is_first:
        screen.end(summary | {"output": folder.path})


def _shown(line: dict[str, Any]) -> str:
    """What of a step's metrics stands behind the bar."""
    names = {
        "reward": "reward",
        "length": "completions/mean_length",
        "entropy": "entropy",
        "|credit|": "credit/mean_abs",
    }
    return "  ".join(
        f"{name} {line[key]:.3g}" for name, key in names.items() if line.get(key) is not None
    )


def _print_summary(console: Console, summary: dict[str, Any], folder: RunFolder) -> None:
    from rich.table import Table

    table = Table(title=f"{summary['recipe']}, seed {summary['seed']}, held-out problems")
    for column in ("", "before", "after", "change"):
        table.add_column(column, justify="left" if not column else "right")
    for key, before in summary["before"].items():
        after = summary["after"][key]
        table.add_row(
            key.replace("_", " "), f"{before:.3f}", f"{after:.3f}", f"{after - before:+.3f}"
        )
    console.print(table)
    if summary["credit_seconds_per_step"] is not None:
        step, credit = summary["seconds_per_step"], summary["credit_seconds_per_step"]
        console.print(
            f"a step took {step:.2f} s, of which the estimator {credit * 1000:.1f} ms "
            f"({credit / step:.2%})",
            soft_wrap=True,
        )
    console.print(f"run folder: {folder.path}", soft_wrap=True)
