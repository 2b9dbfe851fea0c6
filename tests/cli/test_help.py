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


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_arguments_are_in_capitals(words):
    command = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    for argument in command.params:
        if argument.param_type_name == "argument":
            assert argument.metavar and argument.metavar.isupper(), argument.name


def test_an_option_without_its_value_points_to_its_command(command):
    assert command("show", "r.jsonl", "--group").err.endswith("(ktae show --help)\n")
    assert "Missing argument 'B'" in command("compare", "a.jsonl").err


def test_every_estimator_is_named():
    report = typer.main.get_command(app).commands["report"]
    text = next(help_of(option) for option in report.params if "--estimator" in option.opts)
    assert all(name in text for name in PRESETS | KINDS)


ALIKE = {
    "-o": "--output",
    "-e": "--estimator",
    "-s": "--set",
    "-f": "--field",
    "-n": "-n",
}
"""What a letter stands for, in every command that has it."""


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_options_are_alike(words):
    """A letter has one meaning, a flag shows no type, and what prints numbers has --json."""
    command = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    options = [one for one in command.params if one.param_type_name == "option"]
    for option in options:
        assert all(ALIKE[letter] in option.opts for letter in option.opts if letter[1] != "-")
    assert "--json" in {name for one in options for name in one.opts}
    assert "<bool>" not in CliRunner().invoke(app, [*words, "--help"]).output


@pytest.mark.parametrize(
    ("arguments", "today"),
    [
        (["null", "r.jsonl"], "ktae permutation-test"),
        (["study"], "ktae-lab study"),
        (["show", "r.jsonl", "--preset", "paper"], "--estimator"),
        (["score", "r.jsonl", "--out=s.parquet"], "--output"),
        (["bench", "--csv", "b.csv"], "--output"),
        (["validate", "r.jsonl", "--json", "found.json"], "-o found.json"),
    ],
)
def test_former_names_are_answered_with_the_names_of_today(command, arguments, today, tmp_path):
    (tmp_path / "r.jsonl").touch()
    result = command(*arguments)
    assert (result.status, result.out) == (2, "")
    assert today in result.err


def test_an_input_after_json_that_is_not_there_is_named(command):
    result = command("validate", "--json", "found.json")
    assert (result.status, result.out) == (2, "")
    assert "found.json does not exist" in result.err
