"""Commands as a user runs them."""

import sys
from typing import NamedTuple

import pytest

from ktae import cli


class Result(NamedTuple):
    """What a command left."""

    status: int
    out: str
    err: str


@pytest.fixture
def command(tmp_path, monkeypatch, capfd):
    """Run `ktae ...` in an empty folder; an exception that it lets through is a failure."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["ktae", *map(str, arguments)])
        capfd.readouterr()  # what fixtures have printed
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return Result(int(exit_.value.code or 0), *capfd.readouterr())

    return run
