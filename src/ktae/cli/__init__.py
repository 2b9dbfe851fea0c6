"""The command line: one file a command; heavy imports happen inside the commands."""

from __future__ import annotations

from importlib import import_module

import typer

from ktae.cli.command import app, main
from ktae.cli.options import declared

__all__ = ["app", "main"]

# In the order in which a newcomer meets them.
PANELS = {
    "Look at rollouts": ("report", "show", "score", "validate"),
    "Train and evaluate": ("train", "eval", "compare", "curves"),
    "Check": ("bench", "doctor", "permutation-test", "skill"),
}
for panel, names in PANELS.items():
    for name in names:
        module = import_module(f"ktae.cli.{name.replace('-', '_')}")
        app.command(name, rich_help_panel=panel)(declared(name, module.run))
for_data = typer.Typer(no_args_is_help=True, help="Make training data for the engines.")
for_data.callback()(lambda: None)  # so that `prepare` stays a command of its own
for_data.command("prepare")(declared("data", import_module("ktae.cli.data").run))
app.add_typer(for_data, name="data", rich_help_panel="Train and evaluate")
