"""The command line: one file a command; heavy imports happen inside the commands."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import NoReturn

from ktae._version import __version__
from ktae.cli import (
    bench,
    compare,
    data,
    demo,
    doctor,
    permutation_test,
    report,
    score,
    show,
    train,
    validate,
)
from ktae.cli import eval as evaluate
from ktae.cli.command import Command, application, run

app = application(
    "ktae",
    "Token credit for group-based RL of language models (GRPO, DAPO): training, reports, "
    "evaluation.",
    __version__,
)
# In the order in which a newcomer meets them.
LOOK, TRAIN, CHECK = "Look at rollouts", "Train and evaluate", "Check and measure"
PANELS: dict[str, dict[str, Callable[..., None]]] = {
    LOOK: {
        "show": show.show,
        "report": report.report,
        "score": score.score,
        "validate": validate.validate,
        "permutation-test": permutation_test.permutation_test,
    },
    TRAIN: {"train": train.train, "eval": evaluate.eval_, "compare": compare.compare},
    CHECK: {"doctor": doctor.doctor, "bench": bench.bench},
}
for panel, commands in PANELS.items():
    for name, command in commands.items():
        app.command(name, cls=Command, rich_help_panel=panel)(command)
app.add_typer(data.app, name="data", rich_help_panel=TRAIN)
app.add_typer(demo.app, name="demo", rich_help_panel=TRAIN)


WITHOUT_PANDAS = ("show", "report", "score", "validate", "permutation-test")
"""Commands in whose process pandas, if it is installed, cannot be imported. None of them uses it;
but pyarrow imports it wherever it is given a list, which takes half a second."""


class _NoPandas(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name == "pandas" else None

    def create_module(self, spec: ModuleSpec) -> NoReturn:
        raise ModuleNotFoundError(f"{spec.name} is left out here", name=spec.name)


def main() -> None:
    """Run the command line; see `ktae.cli.command.run`."""
    if sys.argv[1:2] and sys.argv[1] in WITHOUT_PANDAS:
        sys.meta_path.insert(0, _NoPandas())
    run(app, "ktae")
