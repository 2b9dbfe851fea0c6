"""How the command line `ktae` is made, and how it ends."""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import NoReturn

import typer

from ktae.errors import InputError, one_line
from ktae.files.inputs import Opened
from ktae.files.text import on_one_line

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
    """Run the command line and end the process: with a line on stderr and status 2 for bad input,
    and with status 1 for any other error, whose traceback `KTAE_DEBUG=1` shows.

    SIGTERM ends it as an exception does, so that nothing half-written and no process is left.
    """
    os.environ.update(TELEMETRY | os.environ)
    # As an exception, so that every `finally` on the way out is run.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What an encoding lacks, and file names that are no text, are no reason to end.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            # Typer answers wrong usage and Ctrl-C, and ends the process.
            app(prog_name=name)  # not "python -m ktae", which no shell could complete
        finally:
            sys.stdout.flush()  # a full disk is an error like others
    except InputError as error:
        # What goes on below the first line is indented: it cannot pass for a line of ours.
        message, status = "\n  ".join(map(on_one_line, str(error).split("\n"))), 2
    except Exception as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes stdout once more at its end
        if os.environ.get("KTAE_DEBUG") not in (None, "", "0"):
            raise
        message, status = unforeseen(error), 1
    print(f"{name}: {message}", file=sys.stderr)
    sys.exit(status)


def unforeseen(error: Exception) -> str:
    """One line about an error that is not about the input, with the file that may be its cause."""
    file = getattr(error, "filename", None) or Opened.last
    where = f" (last file opened: {file!s:.300})" if file else ""
    text = f"{type(error).__name__}: {one_line(error)}{where}; KTAE_DEBUG=1 shows the traceback"
    return on_one_line(text)
