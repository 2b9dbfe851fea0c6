"""Commands as a user runs them."""

import os
from typing import NamedTuple

import in_process
import pytest


class Result(NamedTuple):
    """What a command left."""

    status: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def one_grader(monkeypatch):
    """A worker takes a second to start, and these tests grade a few responses each."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})


@pytest.fixture
def command(tmp_path, monkeypatch, capfd):
    """Run `ktae ...` in an empty folder; an exception that it lets through is a failure."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capfd.readouterr()  # what fixtures have printed
        return Result(in_process.ktae(*arguments), *capfd.readouterr())

    return run
