"""The command `ktae-lab`, and that the library does not know it."""

import subprocess
import sys

import pytest
import typer.main
from typer.testing import CliRunner

from ktae_lab import __version__
from ktae_lab.cli import app

COMMANDS = ("study", "temperatures", "align", "tables")


def run(*arguments):
    command = [sys.executable, "-m", "ktae_lab", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_version():
    assert run("--version").stdout == f"ktae-lab {__version__}\n"


def test_bad_input_is_one_line_and_status_2():
    done = run("study", "no-such-matrix.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("ktae-lab: ") and "no-such-matrix.yaml" in line


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_help(name):
    command = typer.main.get_command(app).commands[name]
    assert command.help and all(getattr(one, "help", "") for one in command.params), name
    shown = CliRunner().invoke(app, [name, "--help"])
    assert shown.exit_code == 0
