"""The command line: one file a command; heavy imports happen inside the commands."""

from __future__ import annotations

from collections.abc import Callable

import typer

from ktae.cli import (
    bench,
    compare,
    curves,
    data,
    doctor,
    permutation_test,
    report,
    score,
    show,
    skill,
    train,
    validate,
)
from ktae.cli import eval as evaluate
from ktae.cli.command import app, main

__all__ = ["app", "main"]

# In the order in which a newcomer meets them.
PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Look at rollouts": (report.report, show.show, score.score, validate.validate),
    "Train and evaluate": (train.train, evaluate.eval_, compare.compare, curves.curves),
    "Check": (bench.bench, doctor.doctor, permutation_test.permutation_test, skill.skill),
}
for panel, commands in PANELS.items():
    for command in commands:
        name = command.__name__.strip("_").replace("_", "-")
        app.command(name, rich_help_panel=panel)(command)
for_data = typer.Typer(no_args_is_help=True, help="Make training data for the engines.")
for_data.callback()(lambda: None)  # so that `prepare` stays a command of its own
for_data.command()(data.prepare)
app.add_typer(for_data, name="data", rich_help_panel="Train and evaluate")
