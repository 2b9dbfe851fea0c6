"""The command line of the laboratory: one file a command; heavy imports happen inside them."""

from __future__ import annotations

import sys

import typer

from ktae.errors import InputError
from ktae.files.text import printable
from ktae_lab import __version__
from ktae_lab.cli import align, study, tables, temperatures

app = typer.Typer(
    name="ktae-lab",
    help="The laboratory of ktae: studies over seeds, and what they gave.",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # in the default one, "[default: ...]" would be markup
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("study")(study.study)
app.command("temperatures")(temperatures.temperatures)
app.command("align")(align.align)
app.command("tables")(tables.tables)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ktae-lab {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """The laboratory of ktae: studies over seeds, and what they gave."""


def main() -> None:
    """Run the command line; bad input is one line on stderr and exit status 2."""
    try:
        app()
    except InputError as error:
        lines = [printable(line) for line in str(error).split("\n")]  # it may quote a file
        typer.echo("ktae-lab: " + "\n".join(lines), err=True)
        sys.exit(2)
