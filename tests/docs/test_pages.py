"""The commands and options in the pages' code exist; the site's menu and links are checked."""

import re
from pathlib import Path

import build_site
import pages
import pytest
from typer.main import get_command

from ktae.cli import app
from ktae_lab.cli import app as lab_app

PAGES = [
    path.relative_to(pages.ROOT).as_posix()
    for folder in (".", "docs", "lab", "lab/pages")
    for path in sorted((pages.ROOT / folder).glob("*.md"))
    if path.name not in ("CHANGELOG.md", "notes.md")
]
CODE = re.compile(r"^```sh\n(.*?)^```$|`(ktae(?:-lab)? [^`]*)`", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(
    r"(?:^|-m )(ktae(?:-lab)?) ([a-z-]+(?: [a-z]+(?![\w.:/-]))?)[^#\n]*", re.MULTILINE
)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


@pytest.mark.parametrize("name", PAGES)
def test_commands_and_their_options_exist(name: str) -> None:
    programs = {"ktae": get_command(app).commands, "ktae-lab": get_command(lab_app).commands}
    text = (pages.ROOT / name).read_text(encoding="utf-8")
    code = "\n".join(block or span for block, span in CODE.findall(text))
    for match in COMMAND.finditer(code.replace("\\\n", " ")):
        words = match[2].split()
        command = programs[match[1]].get(words[0])
        assert command, f"{name} names {match[0]!r}"
        if words[1:] and hasattr(command, "commands"):
            assert words[1] in command.commands, f"{name} names {match[0]!r}"
            command = command.commands[words[1]]
        options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        assert set(OPTION.findall(match[0])) <= options, f"{name} names {match[0]!r}"


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
