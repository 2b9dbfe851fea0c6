"""What the pages name is there: files, Python names, commands and their options, links."""

import importlib
import re
from pathlib import Path
from typing import Any

import build_site
import pages
import pytest
import yaml
from typer.main import get_command

from ktae.cli import app
from ktae_lab.cli import app as lab_app

ROOT = pages.DOCS.parent
OUTSIDE_THE_SITE = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "lab/README.md")
IN_THE_SITE = [
    path.relative_to(ROOT).as_posix()
    for folder in (pages.DOCS, ROOT / "lab" / "pages")  # the menu has it by the link docs/evidence
    for path in sorted(folder.glob("*.md"))
]
SOURCES = {
    name: (ROOT / name).read_text(encoding="utf-8") for name in (*IN_THE_SITE, *OUTSIDE_THE_SITE)
}
each_page = pytest.mark.parametrize("name", SOURCES)

FILE = re.compile(r"\b(?:src|tests|benchmarks|recipes|lab(?!/studies)|docs)/[\w./*-]+")
TO_BE_MADE = re.compile(r'^```\w+ title="([^"]+)"', re.MULTILINE)
PYTHON = re.compile(r"\bktae(?:_lab)?(?:\.[A-Za-z_]\w*)+(?!\.?\w)")
CODE = re.compile(r"^```sh\n(.*?)^```$|`(ktae(?:-lab)? [^`]*)`", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(
    r"(?:^|-m )(ktae(?:-lab)?) ([a-z-]+(?: [a-z]+(?![\w.:/-]))?)[^#\n]*", re.MULTILINE
)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


@each_page
def test_files_exist(name: str) -> None:
    folders = (ROOT, pages.DOCS, (ROOT / name).parent)
    for found in set(FILE.findall(SOURCES[name])) - set(TO_BE_MADE.findall(SOURCES[name])):
        path = re.sub(r"(?<![A-Z])(NAME|COMMAND)\b", "*", found.rstrip("."))
        assert any(any(folder.glob(path)) for folder in folders), f"{name} names {found}"


@each_page
def test_python_names_exist(name: str) -> None:
    """`ktae.preset`; the same form ends the names of some recipes, and in a pyproject it names a
    group of entry points."""
    from ktae.demo import GROUP

    made = {path[len("src/") : -len(".py")] for path in TO_BE_MADE.findall(SOURCES[name])}
    for found in set(PYTHON.findall(SOURCES[name])) - {"ktae.yaml", GROUP}:
        if found.replace(".", "/") in made:
            continue
        assert _exists(found), f"{name} names {found}"


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
    programs = {"ktae": get_command(app).commands, "ktae-lab": get_command(lab_app).commands}
    code = "\n".join(block or span for block, span in CODE.findall(SOURCES[name]))
    for found in COMMAND.finditer(code.replace("\\\n", " ")):
        words = found[2].split()
        command = programs[found[1]].get(words[0])
        assert command, f"{name} names {found[0]!r}"
        if words[1:] and hasattr(command, "commands"):
            assert words[1] in command.commands, f"{name} names {found[0]!r}"
            command = command.commands[words[1]]
        options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        assert set(OPTION.findall(found[0])) <= options, f"{name} names {found[0]!r}"


def test_the_menu_names_every_page_and_links_to_files_lead_somewhere() -> None:
    """The builder checks links between pages, and their anchors; not these."""
    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert build_site.menu_differences(pages.DOCS, menu) == []
    assert build_site.missing_files(pages.DOCS) == []


def test_a_page_outside_the_menu_and_a_picture_that_is_missing_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("[b](b.md) ![c](c.png) [d](https://d/e) `[f](g)`")
    assert build_site.menu_differences(tmp_path, [{"A": [{"B": "b.md"}]}]) == [
        "a.md: not in the menu of mkdocs.yml",
        "b.md: in the menu of mkdocs.yml, and no page",
    ]
    (tmp_path / "b.md").write_text("")
    assert build_site.missing_files(tmp_path) == ["a.md: a link to c.png, which is not there"]


def test_links_lead_to_the_files_of_a_checkout_and_of_the_site(tmp_path: Path) -> None:
    """A page of the laboratory has another place in the site."""
    docs, lab = tmp_path / "docs", tmp_path / "lab" / "pages"
    docs.mkdir()
    lab.mkdir(parents=True)
    (docs / "evidence").symlink_to("../lab/pages")
    (docs / "a.md").write_text("[b](../lab/pages/b.md#c) `[b](../lab/pages/b.md)` [d](https://d)")
    (lab / "b.md").write_text("[a](../../docs/a.md) [b](b.md)")
    assert build_site.missing_files(docs) == []
    build_site.copy_of(docs, tmp_path / "site")
    assert build_site.missing_files(tmp_path / "site") == []
    a, b = ((tmp_path / "site" / name).read_text("utf-8") for name in ("a.md", "evidence/b.md"))
    assert a == "[b](evidence/b.md#c) `[b](../lab/pages/b.md)` [d](https://d)"
    assert b == "[a](../a.md) [b](b.md)"
    (docs / "a.md").write_text("[b](evidence/b.md)")
    assert build_site.missing_files(docs) == [
        "a.md: a link to evidence/b.md, which goes by a link of the file system"
    ]


def test_links_of_the_copy_that_the_site_is_built_from(tmp_path: Path) -> None:
    build_site.copy_of(pages.DOCS, tmp_path / "site")
    assert build_site.missing_files(tmp_path / "site") == []


@each_page
def test_local_links_and_their_anchors(name: str) -> None:
    """Each is read on a code host, too, which follows no links of the file system."""
    text = build_site.CODE.sub("", SOURCES[name])
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
        path = (ROOT / name).parent / target if target else ROOT / name
        assert path.exists(), f"{name} links to {target}"
        if anchor and path.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in map(_anchor, headings), f"{name} links to {target}#{anchor}"


def _anchor(heading: str) -> str:
    """As the repository's page makes it of a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize(
    "package", ["ktae", "ktae.demo", "ktae.grading", "ktae.report", "ktae.trainers.trl"]
)
def test_every_public_name_is_in_the_reference(package: str) -> None:
    module = importlib.import_module(package)
    public = set(getattr(module, "__all__", ())) - {"__version__"}
    text = SOURCES["docs/reference.md"]
    named = re.findall(r"^::: (ktae[\w.]+)", text, re.MULTILINE)
    shown = {name.rpartition(".")[2] for name in named}
    for members in re.findall(r"members: \[(.*)\]", text):
        shown |= set(members.split(", "))
    assert public - {"backends"} <= shown
