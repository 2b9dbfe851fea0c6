"""`ktae train`: a recipe in, a run folder out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ktae.cli.printing import AsJson, Screen, note
from ktae.errors import InputError

if TYPE_CHECKING:
    from ktae.experiments.recipe import Recipe
    from ktae.experiments.run_folder import RunFolder

SHOWN = {
    "reward": "reward",
    "length": "completions/mean_length",
    "entropy": "entropy",
    "|credit|": "credit/mean_abs",
}
"""The metrics of a step that stand behind the bar."""


def train(
    recipe: Annotated[
        Path, typer.Argument(metavar="RECIPE", help="A YAML file, such as those in recipes/.")
    ],
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Recipe keys to override, such as seed=1 credit.h3=0 credit=null.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="The run folder [default: runs/NAME-seedSEED]."
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
        Literal["trl", "verl"], typer.Option(help="TRL on this machine, or verl on Ray.")
    ] = "trl",
    as_json: AsJson = False,
) -> None:
    """Train a recipe through TRL, or through verl on Ray."""
    from ktae.estimators import resolved
    from ktae.experiments import recipe as recipes
    from ktae.experiments.run_folder import RunFolder

    checked = recipes.load(recipe, keys or ())
    if checked.credit is not None:  # whoever names a recipe to train names its estimator's code
        checked = checked.model_copy(update={"credit": resolved(checked.credit)})
    folder = RunFolder(output or Path("runs") / f"{checked.name}-seed{checked.seed}")
    if as_json and dry_run:
        raise InputError("--dry-run prints a recipe or a command, and no numbers; leave out --json")
    if as_json and engine == "verl":
        raise InputError("--json is not supported with verl, which writes its own output to stdout")
    if engine == "trl":
        _train_with_trl(Screen(as_json), checked, folder, resume, dry_run)
        return
    from ktae.trainers import check_version

    check_version("verl")  # before Ray starts
    from ktae.experiments.verl import run

    if dry_run:
        typer.echo(run.dry_run(checked, folder))
        return
    if status := run.run(checked, folder, resume=resume):
        raise typer.Exit(status)
    Screen().print(f"run folder: {folder.path}")


def _train_with_trl(
    screen: Screen, recipe: Recipe, folder: RunFolder, resume: bool, dry: bool
) -> None:
    from ktae.cli.progress import Bars

    # Under torchrun or accelerate launch, the first process speaks for all.
    is_first = int(os.environ.get("RANK", "0")) == 0
    for console in (screen.console, screen.progress):
        console.quiet = console.quiet or not is_first
    try:
        with screen.progress.status("loading TRL"):
            from ktae.experiments.trl.run import dry_run, run
    except ModuleNotFoundError as error:
        raise InputError(
            f"training needs {error.name}, which is not installed; pip install 'ktae[trl,eval]'"
        ) from None
    if dry:
        typer.echo(dry_run(recipe, folder))
        return
    # The trainer prints lines of its own; with --json they must not mix with the numbers.
    with screen.others_aside(), Bars(screen.progress, lines=20) as bars:

        def on_step(line: dict[str, Any]) -> None:
            shown = [
                f"{name} {line[key]:.3g}"
                for name, key in SHOWN.items()
                if line.get(key) is not None
            ]
            bars.show("training", line["step"], recipe.steps, "  ".join(shown))

        stopped_by = run(recipe, folder, resume=resume, on_step=on_step, note=note)
    if stopped_by:  # by a signal: a shell expects its number in the status
        note(f"stopped; everything is in {folder.path}. Add --resume to continue.")
        raise typer.Exit(128 + stopped_by)
    summary = json.loads(folder.summary.read_text(encoding="utf-8"))
    before, after = summary["before"], summary["after"]
    screen.table(
        f"{summary['recipe']}, seed {summary['seed']}, held-out problems",
        ("before", "after", "change"),
        [
            (key.replace("_", " "), f"{x:.3f}", f"{after[key]:.3f}", f"{after[key] - x:+z.3f}")
            for key, x in before.items()
        ],
    )
    if summary["credit_seconds_per_step"] is not None:
        step, credit = summary["seconds_per_step"], summary["credit_seconds_per_step"]
        screen.print(
            f"a step took {step:.2f} s, of which the estimator {credit * 1000:.1f} ms "
            f"({credit / step:.2%})"
        )
    screen.print(f"run folder: {folder.path}")
    screen.next("ktae", "report", folder.path)
    if is_first:
        screen.end(summary | {"output": folder.path})
