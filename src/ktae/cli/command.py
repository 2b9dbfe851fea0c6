"""How the command line begins, and how it ends."""

from __future__ import annotations

import io
import os
import signal
import sys
from typing import Annotated, NoReturn

import typer

from ktae._version import __version__
from ktae.errors import InputError, one_line
from ktae.files.inputs import Opened
from ktae.files.text import on_one_line

TELEMETRY = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
}
"""What the engines would tell their makers is told only where the user has set these otherwise."""
app = typer.Typer(
    help="Token-level credit for group-based RL of language models (GRPO, DAPO).\n\n"
    "`ktae report --example` &nbsp; what went wrong in a run, as one HTML page\n\n"
    "`ktae compare A.jsonl B.jsonl` &nbsp; is the second checkpoint better?\n\n"
    "`ktae train recipes/demo/grpo-ktae.yaml` &nbsp; train a small model on this CPU",
    epilog="Exit status: 0 done; 1 something that was checked or run is wrong; 2 bad input; "
    "130 ended by Ctrl-C; 143 ended by SIGTERM.",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # in the default one, "[default: ...]" would be markup
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"ktae {__version__}")
        raise typer.Exit


def main() -> NoReturn:
    """Run the command line and end the process: with a line on stderr and status 2 for bad input,
    and with status 1 for any other error, whose traceback `KTAE_DEBUG=1` shows.

    SIGTERM ends it as an exception does, so that nothing half-written and no process is left.
    """
    os.environ.update(TELEMETRY | os.environ)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # `finally` is run
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What an encoding lacks, and file names that are no text, are no reason to end.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            # Typer answers wrong usage and Ctrl-C, and ends the process.
            app(prog_name="ktae")  # not "python -m ktae", which no shell could complete
        finally:
            sys.stdout.flush()  # a full disk is an error like others
    except InputError as error:
        # What goes on below the first line is indented: it cannot pass for a line of ours.
        message, status = "\n  ".join(map(on_one_line, str(error).split("\n"))), 2
    except Exception as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes stdout once more at its end
        if os.environ.get("KTAE_DEBUG") not in (None, "", "0"):
            raise
        file = getattr(error, "filename", None) or Opened.last
        where = f" (last file opened: {file!s:.300})" if file else ""
        text = f"{type(error).__name__}: {one_line(error)}{where}; KTAE_DEBUG=1 shows the traceback"
        message, status = on_one_line(text), 1
    print(f"ktae: {message}", file=sys.stderr)
    sys.exit(status)
