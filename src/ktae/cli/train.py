"""`ktae train`: a recipe in, a run folder out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktae.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from ktae.recipe import Recipe
    from ktae.runs import RunFolder


def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe (YAML); see recipes/.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE", help="Replace keys, such as seed=1 credit.h3=0 credit=null."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The run folder [default: runs/NAME-seedSEED]."),
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
        str, typer.Option(help="trl (this machine) or verl (Ray, a cluster).")
    ] = "trl",
) -> None:
    """Train a recipe through TRL, or through verl on Ray."""
    from ktae import recipe as recipes
    from ktae.runs import RunFolder

    if engine not in ("trl", "verl"):
        raise InputError(f"--engine is {engine!r}; expected trl or verl")

    checked = recipes.load(recipe, overrides or ())
    folder = RunFolder(output or Path("runs") / f"{checked.name}-seed{checked.seed}")
    if engine == "verl":
        _train_with_verl(checked, folder, resume, dry_run)
        return
    _train(checked, folder, resume, dry_run)


def _train_with_verl(recipe: Recipe, folder: RunFolder, resume: bool, dry_run: bool) -> None:
    from ktae.trainers.verl import run, versions

    versions.require()
    if dry_run:
        typer.echo(run.dry_run(recipe, folder))
        return
    if status := run.run(recipe, folder, resume=resume):
        raise typer.Exit(status)
    typer.echo(f"run folder: {folder.path}")


def _train(recipe: Recipe, folder: RunFolder, resume: bool, dry: bool) -> None:
    from rich.console import Console

    from ktae.cli.progress import Bars

    # Under torchrun or accelerate launch, the first process speaks for all.
    console = Console(quiet=int(os.environ.get("RANK", "0")) > 0)
    try:
        with console.status("loading TRL"):
            from ktae.trainers.trl.run import dry_run, run
    except ModuleNotFoundError as error:
        raise InputError(
            f"training needs {error.name}, which is not installed; pip install 'ktae[trl,eval]'"
        ) from None
    if dry:
        typer.echo(dry_run(recipe, folder))
        return
    with Bars(console, lines=20) as bars:

        def on_step(line: dict[str, Any]) -> None:
            bars.show("training", line["step"], recipe.steps, _shown(line))

        def note(text: str) -> None:
            typer.echo(f"ktae: {text}", err=True)

        stopped_by = run(recipe, folder, resume=resume, on_step=on_step, note=note)
    if stopped_by:
        console.print(
            f"stopped; everything is in {folder.path}. Add --resume to continue.",
            highlight=False,
        )
        raise typer.Exit(128 + stopped_by)
    _print_summary(console, folder)


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


def _print_summary(console: Console, folder: RunFolder) -> None:
    from rich.table import Table

    summary = json.loads(folder.summary.read_text(encoding="utf-8"))
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
            highlight=False,
        )
    console.print(f"run folder: {folder.path}", highlight=False)
