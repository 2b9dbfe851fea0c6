"""How the command line `ktae` is made, and how it ends."""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import NoReturn

import typer

from ktae.errors import InputError
from ktae.files.text import printable

STATUSES = """\
Exit status: 0 done; 1 something that was checked or run is wrong; 2 bad input; 130 ended by \
Ctrl-C; 143 ended by SIGTERM.
"""

TELEMETRY = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
"""What the engines would tell their makers is told only where the user has set these otherwise."""


def application(name: str, help: str, version: str) -> typer.Typer:
    """An empty command line with `--version`, to which commands are added."""
    app = typer.Typer(
        name=name,
        help=help,
        epilog=STATUSES,
        no_args_is_help=True,
        rich_markup_mode="markdown",  # in the default one, "[default: ...]" would be markup
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def show_version(wanted: bool) -> None:
        if wanted:
            typer.echo(f"{name} {version}")
            raise typer.Exit

    @app.callback()
    def _options(
        version: bool = typer.Option(
            False, "--version", callback=show_version, is_eager=True, help="Print the version."
        ),
    ) -> None: ...

    return app


def run(app: typer.Typer, name: str) -> NoReturn:
    """Run the command line and end the process; bad input is one line on stderr and status 2.

    SIGTERM ends it as an exception does, so that nothing half-written and no process is left.
    """
    os.environ.update(TELEMETRY | os.environ)
    # As an exception, so that every `finally` on the way out is run.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What an encoding lacks, and file names that are no text, are no reason to end.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        # Typer says what is wrong with the usage, answers Ctrl-C with 130, and ends the process.
        app(prog_name=name)  # not "python -m ktae", which no shell could complete
    except InputError as error:  # it may quote a file
        typer.echo(f"{name}: " + "\n".join(map(printable, str(error).split("\n"))), err=True)
        sys.exit(2)
    sys.exit(0)
