"""`--help` says all that its texts say, and can be read in 80 columns."""

import re

import pytest
import typer.main
from typer.testing import CliRunner

from ktae.cli import app


def commands():
    """Each command by its words."""

    def below(command, words):
        for name, child in sorted(getattr(command, "commands", {}).items()):
            yield from below(child, (*words, name))
        if words and not hasattr(command, "commands"):
            yield words, command

    return dict(below(typer.main.get_command(app), ()))


each_command = pytest.mark.parametrize("words", commands(), ids=" ".join)


def shown(*words):
    result = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    return result.output


def test_the_first_screen():
    """Ten commands; the help of `validate` names another, and a page the one that makes data."""
    listed = re.findall(r"^│ ([a-z-]+) ", shown(), re.MULTILINE)
    names = [name for name in listed if not name.startswith("--")]
    assert names == [
        *("show", "report", "score", "validate"),
        *("train", "eval", "compare", "curves"),
        "bench",
        "doctor",
    ]
    assert {words[0] for words in commands()} == {*names, "permutation-test", "data"}


@each_command
def test_help_is_whole_and_80_columns_wide(words):
    """No bracket or star of a text is taken for markup."""
    text, command = shown(*words), commands()[words]
    assert max(map(len, text.splitlines())) <= 80
    texts = [command.help.splitlines()[0]]
    texts += filter(None, (getattr(parameter, "help", None) for parameter in command.params))
    for expected in texts:
        assert re.sub(r"[\s│]", "", expected) in re.sub(r"[\s│]", "", text)
    assert text.count("╭─ Rarely needed") <= 1


ALIKE = {"-o": "--output", "-e": "--estimator", "-s": "--set", "-f": "--field", "-n": "-n"}
"""What a letter stands for, in every command that has it."""


@each_command
def test_options_are_alike(words):
    """A letter has one meaning, and whatever prints numbers has --json."""
    options = [x for x in commands()[words].params if x.param_type_name == "option"]
    for option in options:
        assert all(ALIKE[letter] in option.opts for letter in option.opts if letter[1] != "-")
    assert "--json" in {name for option in options for name in option.opts}
