"""`ktae` as a user runs it: in this process, which may have loaded torch and TRL, or in another."""

import subprocess
import sys
from unittest import mock

import pytest

from ktae import cli

COMMAND = [sys.executable, "-m", "ktae"]


def ktae(*arguments):
    """Its exit status; an exception that it lets through is a failure."""
    argv = ["ktae", *map(str, arguments)]
    with mock.patch.object(sys, "argv", argv), pytest.raises(SystemExit) as exit_:
        cli.main()
    return int(exit_.value.code or 0)


def in_another(*arguments, **settings):
    """What the process came to, within a minute and without a traceback."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | settings
    done = subprocess.run([*COMMAND, *map(str, arguments)], timeout=60, text=True, **pipes)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    return done
