"""The pages, and the files that are made of the results."""

import pytest
from small import LAB
from typer.testing import CliRunner

from ktae_lab.cli import app
from ktae_lab.tables import page, pages


def invoke(*options):
    return CliRunner().invoke(app, ["tables", *options])


@pytest.mark.slow
def test_pages_and_comparisons_are_what_the_results_give():
    done = invoke("--check")
    assert done.exit_code == 0, done.output


def test_the_figures_that_pages_show_are_there():
    for study, names in pages.FIGURES.items():
        for name in names:
            assert list((LAB / "results" / study / "figures").glob(f"{name}-*.svg")), (study, name)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A laboratory with one page, whose table and difference say what the test wants."""
    lab = tmp_path / "lab"
    (lab / "pages").mkdir(parents=True)
    (tmp_path / "README.md").write_text("<!-- table: of r -->\n<!-- end -->\n")
    monkeypatch.setattr(page, "LAB", lab)
    monkeypatch.setattr(pages, "README", tmp_path / "README.md")
    monkeypatch.setattr(pages, "PAGES", lab / "pages")
    monkeypatch.setattr(pages, "COMPARISONS", lab / "comparisons.csv")
    monkeypatch.setattr(pages, "TABLES", {"of": lambda *words: f"| {' '.join(words)} |"})
    monkeypatch.setattr(pages.comparisons, "difference", lambda *words: "+".join(words))
    monkeypatch.setattr(pages.comparisons, "every", lambda: [{"a": "1"}])
    return lab


def test_what_is_made_is_replaced_and_the_text_stays(small):
    path = small / "pages" / "one.md"
    path.write_text(
        "a\n<!-- table: of b c -->\nold\n<!-- end -->\n"
        "d <!-- difference: e f -->old<!-- end --> g\n"
    )
    before = invoke("--check")
    assert before.exit_code == 1 and "README.md, lab/pages/one.md, lab/comp" in before.output
    written = invoke("--write").output.splitlines()
    assert written == ["wrote README.md", "wrote lab/pages/one.md", "wrote lab/comparisons.csv"]
    assert path.read_text() == (
        "a\n<!-- table: of b c -->\n\n| b c |\n\n<!-- end -->\n"
        "d <!-- difference: e f -->e+f<!-- end --> g\n"
    )
    assert (small / "comparisons.csv").read_text() == "a\n1\n"
    assert invoke("--write", "--check").exit_code == 0 and invoke("--write").output == ""


def test_an_unknown_table_is_an_error():
    with pytest.raises(KeyError, match="nothing"):
        page.filled("<!-- table: nothing -->\n<!-- end -->", {}, "".join)


def test_what_cannot_be_done_is_said(small, monkeypatch):
    assert "nothing to do" in str(invoke().exception)
    monkeypatch.setattr(pages, "PAGES", small / "none")
    assert "run this from a checkout" in str(invoke("--check").exception)
