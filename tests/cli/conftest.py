"""Commands as a user runs them."""

import contextlib
import os
from typing import NamedTuple

import in_process
import pytest

from ktae import grading


class Result(NamedTuple):
    """What a command left."""

    status: int
    out: str
    err: str


@pytest.fixture(scope="module")
def pools():
    """Makes grading pools of one worker each; those of a kind are one, for the whole module."""
    kept = {}
    with contextlib.ExitStack() as stack:

        def pool(_=None, **settings):
            key = tuple(settings.items())
            if key not in kept:
                kept[key] = stack.enter_context(grading.workers.GradingPool(1, **settings))
            return contextlib.nullcontext(kept[key])

        yield pool


@pytest.fixture(autouse=True)
def one_grader(pools, monkeypatch):
    """A worker takes a second to start, and these tests grade a few responses each."""
    monkeypatch.setattr(grading, "GradingPool", pools)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})


@pytest.fixture
def command(tmp_path, monkeypatch, capfd):
    """Run `ktae ...` in an empty folder; an exception that it lets through is a failure."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capfd.readouterr()  # what fixtures have printed
        return Result(in_process.ktae(*arguments), *capfd.readouterr())

    return run
