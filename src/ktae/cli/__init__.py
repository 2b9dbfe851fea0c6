"""The command line: one file a command; heavy imports happen inside the commands."""

from __future__ import annotations

import contextlib
import errno
import importlib.abc
import os
import signal
import sys
from importlib.machinery import ModuleSpec
from typing import NoReturn

import typer

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
    train,
    validate,
)
from ktae.cli import eval as evaluate
from ktae.cli.options import again_with
from ktae.errors import InputError
from ktae.files.text import printable

app = typer.Typer(
    name="ktae",
    help="Token credit for group-based RL of language models (GRPO, DAPO): training, reports, "
    "evaluation.",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # in the default one, "[default: ...]" would be markup
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# In the order in which a newcomer meets them.
LOOK, TRAIN, CHECK = "Look at rollouts", "Train and evaluate", "Check and measure"
app.command("show", rich_help_panel=LOOK)(report.show)
app.command("report", rich_help_panel=LOOK)(report.report)
app.command("score", rich_help_panel=LOOK)(score.score)
app.command("validate", rich_help_panel=LOOK)(validate.validate)
app.command("permutation-test", rich_help_panel=LOOK)(permutation_test.permutation_test)
app.command("train", rich_help_panel=TRAIN)(train.train)
app.command("eval", rich_help_panel=TRAIN)(evaluate.eval_)
app.command("compare", rich_help_panel=TRAIN)(compare.compare)
app.add_typer(data.app, name="data", rich_help_panel=TRAIN)
app.add_typer(demo.app, name="demo", rich_help_panel=TRAIN)
app.command("doctor", rich_help_panel=CHECK)(doctor.doctor)
app.command("bench", rich_help_panel=CHECK)(bench.bench)


WITHOUT_PANDAS = ("show", "report", "score", "validate", "permutation-test")
"""Commands in whose process pandas, if it is installed, cannot be imported. None of them uses it;
but pyarrow imports it wherever it is given a list, which takes half a second."""


class _NoPandas(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name == "pandas" else None

    def create_module(self, spec: ModuleSpec) -> NoReturn:
        raise ModuleNotFoundError(f"{spec.name} is left out here", name=spec.name)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ktae {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Token credit for group-based RL of language models: training, reports, evaluation."""


def main() -> None:
    """Run the command line; bad input is one line on stderr and exit status 2.

    SIGTERM ends it as an exception does, so that nothing half-written and no process is left; the
    exit status is 143.
    """
    signal.signal(signal.SIGTERM, _exit)
    if sys.argv[1:2] and sys.argv[1] in WITHOUT_PANDAS:
        sys.meta_path.insert(0, _NoPandas())
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except InputError as error:
        lines = [printable(line) for line in _message(error).split("\n")]  # it may quote a file
        _end("\n".join(lines), 2)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _end(f"cannot write {error.filename or 'what is printed'}: {error.strerror}", 1)


def _end(message: str, status: int) -> NoReturn:
    with contextlib.suppress(OSError):
        typer.echo(f"ktae: {message}", err=True)
    if status == 1:  # what could not be printed would be tried again at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


def _exit(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


def _message(error: InputError) -> str:
    """What is wrong; for rows in no known form also the command line that would read them."""
    found, options = getattr(error, "found", None), getattr(error, "options", None)
    if not options:
        return str(error)
    is_template = getattr(error, "is_template", False)
    how = "name its fields in the place of the dots" if is_template else "this would read it"
    return f"{found}; {how}: {again_with(options)}"
