"""What the pages name is there: files, Python names, commands, and every page in the menu."""

import importlib
import re
from pathlib import Path
from typing import Any

import pages
import pytest
import yaml
from typer.main import get_command

from ktae.cli import app

ROOT = pages.DOCS.parent
PAGES = [
    path.relative_to(pages.DOCS).with_suffix("").as_posix()
    for path in sorted(pages.DOCS.rglob("*.md"))
]
SOURCES = {name: pages.page(name) for name in PAGES} | {
    name: (ROOT / f"{name}.md").read_text(encoding="utf-8") for name in ("README", "CONTRIBUTING")
}
each_page = pytest.mark.parametrize("name", SOURCES)

FILE = re.compile(r"\b(?:src|tests|benchmarks|recipes|lab|docs)/[\w./*-]+")
PYTHON = re.compile(r"\bktae(?:\.[A-Za-z_]\w*)+(?!\.?\w)")
CODE = re.compile(r"^```sh\n(.*?)^```$|`(ktae [^`]*)`", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(?:^|-m )ktae ([a-z-]+(?: [a-z]+(?![\w.:/-]))?)[^#\n]*", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


@each_page
def test_files_exist(name: str) -> None:
    for found in FILE.findall(SOURCES[name]):
        path = re.sub(r"(?<![A-Z])(NAME|COMMAND)\b", "*", found.rstrip("."))
        assert any(ROOT.glob(path)) or any(pages.DOCS.glob(path)), f"{name}.md names {found}"


@each_page
def test_python_names_exist(name: str) -> None:
    """`ktae.preset`; the same form ends the names of some recipes, and in a pyproject it names a
    group of entry points."""
    from ktae.demo import GROUP

    for found in set(PYTHON.findall(SOURCES[name])) - {"ktae.yaml", GROUP}:
        assert _exists(found), f"{name}.md names {found}"


def _exists(name: str) -> bool:
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError as error:
            if not str(error.name).startswith("ktae"):
                return True  # it is there, and its library is not installed here
            continue
        for part in parts[split:]:
            if not hasattr(thing, part):
                return False
            thing = getattr(thing, part)
        return True
    return False


@each_page
def test_commands_and_their_options_exist(name: str) -> None:
    known = get_command(app).commands
    code = "\n".join(block or span for block, span in CODE.findall(SOURCES[name]))
    for found in COMMAND.finditer(code.replace("\\\n", " ")):
        command = known.get(found[1].split()[0])
        assert command, f"{name}.md names {found[0]!r}"
        words = found[1].split()[1:]
        if words and hasattr(command, "commands"):
            assert words[0] in command.commands, f"{name}.md names {found[0]!r}"
            command = command.commands[words[0]]
        options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        assert set(OPTION.findall(found[0])) <= options, f"{name}.md names {found[0]!r}"


def test_mkdocs_checks_links() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    validation = yaml.safe_load(re.search(r"^validation:\n(?: .*\n)+", text, re.MULTILINE)[0])
    assert set(validation["validation"].values()) == {"warn"}
    assert {"omitted_files", "absolute_links", "unrecognized_links", "anchors"} <= set(
        validation["validation"]
    )


@each_page
def test_local_links_of_what_lies_outside_the_site(name: str) -> None:
    """mkdocs checks the site's own; README and CONTRIBUTING are read on the repository's page."""
    if name in PAGES:
        return
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", SOURCES[name]):
        assert (ROOT / Path(target)).exists(), f"{name}.md links to {target}"


@pytest.mark.parametrize(
    "package", ["ktae", "ktae.demo", "ktae.grading", "ktae.report", "ktae.trainers.trl"]
)
def test_every_public_name_is_in_the_reference(package: str) -> None:
    module = importlib.import_module(package)
    public = set(getattr(module, "__all__", ())) - {"__version__"}
    text = SOURCES["reference"]
    named = re.findall(r"^::: (ktae[\w.]+)", text, re.MULTILINE)
    shown = {name.rpartition(".")[2] for name in named}
    for members in re.findall(r"members: \[(.*)\]", text):
        shown |= set(members.split(", "))
    assert public - {"backends"} <= shown
