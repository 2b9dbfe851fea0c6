"""What `--help` says of every command."""

import pytest
import typer.main

from ktae.cli import app


def commands(command, name="ktae"):
    yield name, command
    for child in getattr(command, "commands", {}).values():
        yield from commands(child, f"{name} {child.name}")


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_of_it_is_taken_for_markup(name):
    """rich drops what stands in brackets, such as the defaults that Typer cannot know."""
    for parameter in COMMANDS[name].params:
        assert "[" not in (getattr(parameter, "help", None) or "")
