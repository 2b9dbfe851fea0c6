"""The documentation's pages, their code blocks, and the commands in these."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"^```sh\n(.*?)^```$|`(ktae [^`]*)`", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(?:^|-m )(ktae) ([a-z-]+(?: [a-z]+(?![\w.:/-]))?)[^#\n]*", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def blocks(page: str, language: str) -> list[str]:
    """The contents of a page's code blocks in a language, in order."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return [content for found, content in FENCE.findall(text) if found == language]


def check_commands(path: Path, programs: Mapping[str, Any]) -> None:
    """Assert that what a page's code calls, of these programs, exists with its options."""
    code = "\n".join(
        block or span for block, span in CODE.findall(path.read_text(encoding="utf-8"))
    )
    for match in COMMAND.finditer(code.replace("\\\n", " ")):
        if match[1] not in programs:
            continue
        words = match[2].split()
        command = programs[match[1]].get(words[0])
        assert command, f"{path.name} names {match[0]!r}"
        if words[1:] and hasattr(command, "commands"):
            assert words[1] in command.commands, f"{path.name} names {match[0]!r}"
            command = command.commands[words[1]]
        options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        assert set(OPTION.findall(match[0])) <= options, f"{path.name} names {match[0]!r}"
