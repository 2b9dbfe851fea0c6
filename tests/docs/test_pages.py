"""The commands and options in the pages' code exist; the site's menu and links are checked."""

from pathlib import Path

import build_site
import pages
import pytest
from typer.main import get_command

from ktae.cli import app

PAGES = [path for path in pages.ROOT.glob("*.md") if path.name != "CHANGELOG.md"]


@pytest.mark.parametrize("path", [*PAGES, *pages.DOCS.glob("*.md")], ids=lambda path: path.name)
def test_commands_and_their_options_exist(path: Path) -> None:
    pages.check_commands(path, {"ktae": get_command(app).commands})


def test_a_page_outside_the_menu_and_a_picture_that_is_missing_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("[b](b.md) ![c](c.png) [d](https://d/e) `[f](g)`")
    assert build_site.menu_differences(tmp_path, [{"A": [{"B": "b.md"}]}]) == [
        "a.md: not in the menu of mkdocs.yml",
        "b.md: in the menu of mkdocs.yml, and no page",
    ]
    (tmp_path / "b.md").write_text("")
    assert build_site.missing_files(tmp_path) == ["a.md: a link to c.png, which is not there"]


def test_links_out_of_the_documentation_are_words(tmp_path: Path) -> None:
    docs, site = tmp_path / "docs", tmp_path / "site"
    docs.mkdir()
    (docs / "a.md").write_text("[b](../b.md#c) `[b](../b.md)` [d](https://d) [a](a.md#x)")
    (tmp_path / "b.md").write_text("")
    assert build_site.missing_files(docs) == []
    build_site.copy_of(docs, site)
    text = (site / "a.md").read_text("utf-8")
    assert text == "b `[b](../b.md)` [d](https://d) [a](a.md#x)"
