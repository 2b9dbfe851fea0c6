"""The command line: one file a command; heavy imports happen inside the commands."""

from __future__ import annotations

from collections.abc import Callable

from ktae._version import __version__
from ktae.cli import (
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
    CHECK: {"doctor": doctor.doctor},
}
for panel, commands in PANELS.items():
    for name, command in commands.items():
        app.command(name, cls=Command, rich_help_panel=panel)(command)
app.add_typer(data.app, name="data", rich_help_panel=TRAIN)
app.add_typer(demo.app, name="demo", rich_help_panel=TRAIN)


def main() -> None:
    """Run the command line; see `ktae.cli.command.run`."""
    run(app, "ktae")
