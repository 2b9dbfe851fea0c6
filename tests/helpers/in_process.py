"""`ktae` as a user runs it, but in this process, which may have loaded torch and TRL already."""

import sys
from unittest import mock

import pytest

from ktae import cli


def ktae(*arguments):
    """Its exit status; an exception that it lets through is a failure."""
    argv = ["ktae", *map(str, arguments)]
    with mock.patch.object(sys, "argv", argv), pytest.raises(SystemExit) as exit_:
        cli.main()
    return int(exit_.value.code or 0)
