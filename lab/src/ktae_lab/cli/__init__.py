"""The command line of the laboratory: one file a command; heavy imports happen inside them."""

from __future__ import annotations

from ktae.cli.command import application, run
from ktae_lab import __version__
from ktae_lab.cli import align, study, tables, temperatures

app = application(
    "ktae-lab", "The laboratory of ktae: studies over seeds, and what they gave.", __version__
)
app.command()(study.study)
app.command()(temperatures.temperatures)
app.command()(align.align)
app.command()(tables.tables)


def main() -> None:
    """Run the command line and end the process."""
    run(app, "ktae-lab")
