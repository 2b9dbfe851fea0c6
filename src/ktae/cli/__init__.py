"""The command line: one file a command; heavy imports happen inside the commands."""

from __future__ import annotations

from ktae._version import __version__
from ktae.cli import (
    compare,
    curves,
    data,
    doctor,
    permutation_test,
    report,
    score,
    show,
    train,
    validate,
)
from ktae.cli import eval as evaluate
from ktae.cli.command import application, run

app = application(
    "ktae",
    "Token credit for group-based RL of language models (GRPO, DAPO): training, reports, "
    "evaluation.",
    __version__,
)
# In the order in which a newcomer meets them.
app.command(rich_help_panel="Look at rollouts")(show.show)
app.command(rich_help_panel="Look at rollouts")(report.report)
app.command(rich_help_panel="Look at rollouts")(score.score)
app.command(rich_help_panel="Look at rollouts")(validate.validate)
app.command("permutation-test", hidden=True)(permutation_test.permutation_test)
app.command(rich_help_panel="Train and evaluate")(train.train)
app.command("eval", rich_help_panel="Train and evaluate")(evaluate.eval_)
app.command(rich_help_panel="Train and evaluate")(compare.compare)
app.command(rich_help_panel="Train and evaluate")(curves.curves)
app.command(rich_help_panel="Check")(doctor.doctor)
app.add_typer(data.app, name="data", hidden=True)


def main() -> None:
    """Run the command line and end the process."""
    run(app, "ktae")
