"""`--help` says all that its texts say: no bracket or star of theirs is taken for markup."""

import re

import pytest
import typer.main
from typer.testing import CliRunner

from ktae.cli import app
from ktae.estimators import KINDS, PRESETS


def commands():
    """Each command's words, and its texts."""

    def below(command, words):
        for name, child in sorted(getattr(command, "commands", {}).items()):
            yield from below(child, (*words, name))
        if words and not hasattr(command, "commands"):
            yield words, [command.help.splitlines()[0], *filter(None, map(help_of, command.params))]

    return dict(below(typer.main.get_command(app), ()))


def help_of(parameter):
    return getattr(parameter, "help", None)


def without_layout(text):
    return re.sub(r"[\s│]", "", text)


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_help_is_whole(words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "220")
    shown = CliRunner().invoke(app, [*words, "--help"])
    assert shown.exit_code == 0
    for text in commands()[words]:
        assert without_layout(text) in without_layout(shown.output)


def test_every_estimator_is_named():
    report = typer.main.get_command(app).commands["report"]
    text = next(help_of(option) for option in report.params if "--estimator" in option.opts)
    names = text.partition(" [")[0].split(", ")
    assert names == list(PRESETS | KINDS)
