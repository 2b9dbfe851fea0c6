"""`ktae train`: a recipe in, a run folder out."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from ktae.cli.printing import Screen, note
from ktae.errors import InputError

if TYPE_CHECKING:
    from ktae.experiments.recipe import Recipe
    from ktae.experiments.run_folder import RunFolder

SHOWN = {  # the metrics of a step that stand behind the bar
    "reward": "reward",
    "length": "completions/mean_length",
    "entropy": "entropy",
    "|credit|": "credit/mean_abs",
}


def run(
    recipe: Path,
    keys: list[str] | None = None,
    output: Path | None = None,
    resume: bool = False,
    dry_run: bool = False,
    engine: Literal["trl", "verl"] = "trl",
    as_json: bool = False,
) -> None:
    """Train a recipe through TRL, or through verl on Ray."""
    from ktae.estimators import resolved
    from ktae.experiments import recipe as recipes
    from ktae.experiments.run_folder import RunFolder

    checked = recipes.load(recipe, keys or ())
    if checked.credit is not None:  # whoever names a recipe to train names its estimator's code
        checked = checked.model_copy(update={"credit": resolved(checked.credit)})
    folder = RunFolder(output or Path("runs") / f"{checked.name}-seed{checked.seed}")
    if as_json and (dry_run or engine == "verl"):
        raise InputError("--json is for numbers; --dry-run and verl print text of their own")
    if engine == "trl":
        return _with_trl(Screen(as_json), checked, folder, resume, dry_run)
    from ktae.trainers import check_version

    check_version("verl")  # before Ray starts
    from ktae.experiments.verl import run as verl

    if dry_run:
        return typer.echo(verl.dry_run(checked, folder))
    if status := verl.run(checked, folder, resume=resume):
        raise typer.Exit(status)
    Screen().print(f"run folder: {folder.path}")


def _with_trl(screen: Screen, recipe: Recipe, folder: RunFolder, resume: bool, dry: bool) -> None:
    from ktae.cli.progress import Bars

    # Under torchrun or accelerate launch, the first process speaks for all.
    is_first = int(os.environ.get("RANK", "0")) == 0
    for console in (screen.console, screen.progress):
        console.quiet = console.quiet or not is_first
    try:
        with screen.progress.status("loading TRL"):
            from ktae.experiments.trl import run as trl
    except ModuleNotFoundError as error:
        raise InputError(
            f"training needs {error.name}, which is not installed; pip install 'ktae[trl,eval]'"
        ) from None
    if dry:
        return typer.echo(trl.dry_run(recipe, folder))
    # The trainer prints lines of its own; with --json they must not mix with the numbers.
    with contextlib.redirect_stdout(screen.progress.file), Bars(screen.progress) as bars:

        def on_step(line: dict[str, Any]) -> None:
            known = {name: line[key] for name, key in SHOWN.items() if line.get(key) is not None}
            text = "  ".join(f"{name} {value:.3g}" for name, value in known.items())
            bars.show("training", line["step"], recipe.steps, text)

        stopped_by = trl.run(recipe, folder, resume=resume, on_step=on_step, note=note)
    if stopped_by:  # by a signal: a shell expects its number in the status
        note(f"stopped; everything is in {folder.path}. Add --resume to continue.")
        raise typer.Exit(128 + stopped_by)
    summary = json.loads(folder.summary.read_text(encoding="utf-8"))
    before, after = summary["before"], summary["after"]
    heading = f"{summary['recipe']}, seed {summary['seed']}, held-out problems"
    rows = [
        (key.replace("_", " "), f"{x:.3f}", f"{after[key]:.3f}", f"{after[key] - x:+z.3f}")
        for key, x in before.items()
    ]
    screen.table(heading, ("before", "after", "change"), rows)
    screen.print(f"run folder: {folder.path}", f"next: ktae report {shlex.quote(str(folder.path))}")
    if is_first:
        screen.end(summary | {"output": folder.path})
