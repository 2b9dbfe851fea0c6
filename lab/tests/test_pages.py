"""The laboratory's pages: the commands in them exist, and no link leads nowhere."""

import build_site
import pages
import pytest
from typer.main import get_command

from ktae.cli import app
from ktae_lab.cli import app as lab_app

PROGRAMS = {"ktae": get_command(app).commands, "ktae-lab": get_command(lab_app).commands}
EVERY = [*(pages.ROOT / "lab").rglob("*.md"), *pages.DOCS.glob("*.md"), pages.ROOT / "README.md"]


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_commands_and_their_options_exist(path):
    pages.check_commands(path, PROGRAMS)


def test_links_lead_to_files():
    assert build_site.missing_files(pages.ROOT / "lab") == []
