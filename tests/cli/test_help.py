"""`--help` says all that its texts say, and can be read in 80 columns."""

import re

import pytest
import typer.main
from typer.testing import CliRunner

from ktae.cli import app

TOP = typer.main.get_command(app).commands
COMMANDS = {
    (name, *below): command
    for name, outer in TOP.items()
    for below, command in (
        [((x,), inner) for x, inner in outer.commands.items()]
        if hasattr(outer, "commands")
        else [((), outer)]
    )
}
each_command = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


def shown(*words):
    result = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    return result.output


def test_the_first_screen_has_every_command():
    """The help of `validate` sends to one, and a page to the one that makes data."""
    listed = re.findall(r"^│ ([a-z]\S+) ", shown(), re.MULTILINE)
    assert {*listed} == TOP.keys() and not any(command.hidden for command in TOP.values())


@each_command
def test_help_is_whole_and_80_columns_wide(words):
    """No bracket or star of a text is taken for markup."""
    text, command = shown(*words), COMMANDS[words]
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
    options = [x for x in COMMANDS[words].params if x.param_type_name == "option"]
    for option in options:
        assert all(ALIKE[letter] in option.opts for letter in option.opts if letter[1] != "-")
    has_numbers = words != ("skill",)
    assert ("--json" in {name for option in options for name in option.opts}) == has_numbers
