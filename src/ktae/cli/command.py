"""How a command line is put together and ends; `ktae` and `ktae-lab` share it."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from ktae.cli.reading import again_with
from ktae.errors import InputError
from ktae.files.text import printable

NO_SPACE, NO_READER = 1, 141
"""Exit statuses: the disk is full; nobody reads what is printed (128 + SIGPIPE)."""

UsageError: type[Any] = typer.BadParameter.__mro__[1]
"""Click's: newer versions of Typer have a Click of their own."""

STATUSES = """\
Exit status: 0 done; 1 something that was checked or run is wrong, or a file cannot be written; \
2 bad input; 130 ended by Ctrl-C; 141 nobody read the output; 143 ended by SIGTERM.
"""


class Command(TyperCommand):
    """A command whose flags show no type, and whose former options are answered with their name."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All options and arguments; flags have no type, since they take no value."""
        return _without_types_of_flags(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises:
            InputError: an option has another name now, is given twice where one is taken, or
                `--json` is given a file to write.
        """
        for option, file in itertools.pairwise(args):
            if option == "--json" and file.endswith(".json") and not Path(file).exists():
                self._require_input(args, file)
        self._require_once([x.partition("=")[0] for x in args])
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            error.ctx = error.ctx or ctx  # an option without its value knows no command
            raise

    def _require_once(self, given: list[str]) -> None:
        """Raise an InputError for an option of one value that is there twice: one would be lost."""
        for param in self.params:
            n = sum(given.count(name) for name in param.opts if name.startswith("-"))
            if n > 1 and not param.multiple and not getattr(param, "is_flag", False):
                raise InputError(f"{param.opts[0]} is given {n} times; expected it once")

    def _require_input(self, args: list[str], file: str) -> None:
        """Raise an InputError if a name after `--json` is meant as its file, and is no input."""
        needed = sum(p.param_type_name == "argument" and p.required for p in self.params)
        if sum(Path(x).exists() for x in args) >= needed:
            raise InputError(f"--json prints on stdout; to write {file}, give -o {file}")


class Group(TyperGroup):
    """Commands below one name; former names of commands are answered with the name of today."""

    def get_params(self, ctx: Any) -> list[Any]:
        """As in `Command`."""
        return _without_types_of_flags(super().get_params(ctx))


def _without_types_of_flags(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


def application(name: str, help: str, version: str) -> typer.Typer:
    """An empty command line with `--version`, to which commands are added."""
    app = typer.Typer(
        name=name,
        cls=Group,
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


class Output(io.TextIOWrapper):
    """Standard output, perhaps into a pipe: the process ends with 141 when its reader is gone.

    Typer and Rich would each end it with 1, which means something else here.
    """

    def write(self, text: str, /) -> int:
        """Write text."""
        try:
            return super().write(text)
        except BrokenPipeError:
            _nobody_reads()

    def flush(self) -> None:
        """Hand on what is written."""
        try:
            super().flush()
        except BrokenPipeError:
            _nobody_reads()


def _nobody_reads() -> NoReturn:
    _drop_output()
    sys.exit(NO_READER)


def run(app: typer.Typer, name: str) -> None:
    """Run the command line; bad input and bad usage are one line on stderr and exit status 2.

    SIGTERM ends it as an exception does, so that nothing half-written and no process is left; the
    exit status is 143.
    """
    signal.signal(signal.SIGTERM, _exit)
    for stream in ("stdout", "stderr"):  # closed, as by >&-
        if getattr(sys, stream) is None:
            setattr(sys, stream, open(os.devnull, "w"))  # noqa: SIM115
    if sys.stdout is sys.__stdout__ and isinstance(sys.stdout, io.TextIOWrapper):
        out = sys.stdout
        sys.stdout = Output(
            out.buffer,
            out.encoding,
            # What an encoding lacks, and file names that are no text, are no reason to end.
            "backslashreplace" if out.errors == "strict" else out.errors,
            line_buffering=out.line_buffering,
            write_through=out.write_through,
        )
    try:
        try:
            # The name is not "python -m ktae", which no shell could complete.
            sys.exit(app(prog_name=name, standalone_mode=False))
        finally:
            sys.stdout.flush()
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            sys.exit(2)
        where = error.ctx.command_path if error.ctx is not None else name
        _end(name, f"{_usage(error)} ({where} --help)", 2)
    except InputError as error:
        lines = [printable(line) for line in _message(name, error).split("\n")]  # may quote a file
        _end(name, "\n".join(lines), 2)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _drop_output()
        what = error.filename or "what is printed"
        _end(name, f"cannot write {what}: {error.strerror}", NO_SPACE)


def _end(name: str, message: str, status: int) -> NoReturn:
    with contextlib.suppress(OSError):
        typer.echo(f"{name}: {message}", err=True)
    sys.exit(status)


def _drop_output() -> None:
    """What could not be printed would be tried again at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


def _usage(error: Any) -> str:
    """What is wrong with an argument; of a bad value also the value."""
    message: str = error.format_message().strip()
    found = re.fullmatch(r"Invalid value for '(-[^']*)': (.*)", message, re.DOTALL)
    if not found:
        return message
    option, why = found.groups()
    why = why.removeprefix("Value error, ").replace("Input should be ", "expected ")
    given = [option, *_values_of(getattr(getattr(error, "param", None), "opts", ()))[-1:]]
    return printable(f"{' '.join(given)}: {why}")


def _values_of(names: Sequence[str]) -> list[str]:
    """What the command line gives for an option, `--name value` or `--name=value`."""
    apart = [value for name, value in itertools.pairwise(sys.argv) if name in names]
    joined = [value for name, equals, value in (x.partition("=") for x in sys.argv)
              if equals and name in names]  # fmt: skip
    return apart + joined


def _message(name: str, error: InputError) -> str:
    """What is wrong; for rows in no known form also the command line that would read them."""
    found, options = getattr(error, "found", None), getattr(error, "options", None)
    if not options:
        return str(error)
    is_template = getattr(error, "is_template", False)
    how = "name its fields in the place of the dots" if is_template else "this would read it"
    return f"{found}; {how}: {again_with(options, name)}"
