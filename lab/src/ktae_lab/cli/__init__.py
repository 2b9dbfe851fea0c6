"""The command line of the laboratory: one file a command; heavy imports happen inside them."""

from __future__ import annotations

from ktae.cli.command import Command, application, run
from ktae_lab import __version__
from ktae_lab.cli import align, study, tables, temperatures

app = application(
    "ktae-lab", "The laboratory of ktae: studies over seeds, and what they gave.", __version__
)
app.command("study", cls=Command)(study.study)
app.command("temperatures", cls=Command)(temperatures.temperatures)
app.command("align", cls=Command)(align.align)
app.command("tables", cls=Command)(tables.tables)


def main() -> None:
    """Run the command line; see `ktae.cli.command.run`."""
    run(app, "ktae-lab")
