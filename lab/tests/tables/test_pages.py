"""The pages, and the files that are made of the results."""

from types import ModuleType

import pytest
from small import LAB
from typer.testing import CliRunner

from ktae.errors import InputError
from ktae_lab.cli import app
from ktae_lab.tables import benchmarks, page, pages


def invoke(*options):
    return CliRunner().invoke(app, ["tables", *options])


def test_pages_and_comparisons_are_what_the_results_give():
    done = invoke("--check")
    assert done.exit_code == 0, done.output


def test_the_figures_that_pages_show_are_there():
    for study, names in pages.FIGURES.items():
        for name in names:
            assert list((LAB / "results" / study / "figures").glob(f"{name}-*.svg")), (study, name)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A laboratory with two pages, whose table and number say what the test wants."""
    lab = tmp_path / "lab"
    (lab / "pages").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "two.md").write_text("h <!-- sum: i j -->old<!-- end -->\n")
    (tmp_path / "README.md").write_text("<!-- table: of r -->\n<!-- end -->\n")
    monkeypatch.setattr(page, "LAB", lab)
    monkeypatch.setattr(pages, "README", tmp_path / "README.md")
    monkeypatch.setattr(pages, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(pages, "PAGES", lab / "pages")
    monkeypatch.setattr(pages, "COMPARISONS", lab / "comparisons.csv")
    monkeypatch.setattr(pages, "TABLES", {"of": lambda *words: f"| {' '.join(words)} |"})
    monkeypatch.setattr(pages, "NUMBERS", {"sum": lambda *words: "+".join(words)})
    monkeypatch.setattr(pages.comparisons, "every", lambda: [{"a": "1"}])
    return lab


def test_what_is_made_is_replaced_and_the_text_stays(small):
    path = small / "pages" / "one.md"
    path.write_text(
        "a\n<!-- table: of b c -->\nold\n<!-- end -->\nd <!-- sum: e f -->old<!-- end --> g\n"
    )
    before = invoke("--check")
    assert (
        before.exit_code == 1
        and "README.md, docs/two.md, lab/pages/one.md, lab/comp" in before.output
    )
    written = invoke("--write").output.splitlines()
    files = ["README.md", "docs/two.md", "lab/pages/one.md", "lab/comparisons.csv"]
    assert written == [f"wrote {file}" for file in files]
    assert path.read_text() == (
        "a\n<!-- table: of b c -->\n\n| b c |\n\n<!-- end -->\n"
        "d <!-- sum: e f -->e+f<!-- end --> g\n"
    )
    assert (small.parent / "docs" / "two.md").read_text() == "h <!-- sum: i j -->i+j<!-- end -->\n"
    assert (small / "comparisons.csv").read_text() == "a\n1\n"
    assert invoke("--write", "--check").exit_code == 0 and invoke("--write").output == ""


def test_an_error_names_the_page_and_the_marker(small):
    (small / "pages" / "one.md").write_text("d <!-- product: e f -->old<!-- end -->\n")
    error = str(invoke("--check").exception)
    assert "lab/pages/one.md, `<!-- product: e f -->`: no number has the name 'product'" in error


@pytest.fixture
def grading(tmp_path, monkeypatch):
    """A benchmark's CSV with one file's agreement."""
    path = tmp_path / "grading.csv"
    path.write_text("file,grader,agree\none,ktae,0.5\none,ktae,0.75\nbroken,ktae,\n")
    monkeypatch.setattr(page, "BENCHMARKS", tmp_path)
    return path


def fill(text):
    return page.filled(text, "docs/p.md", {"agreement": benchmarks.agreement}, benchmarks.NUMBERS)


def test_the_last_row_of_a_key_counts(grading):
    assert fill("in <!-- agrees: one -->?<!-- end -->") == (
        "in <!-- agrees: one -->75.0 %<!-- end -->"
    )


@pytest.mark.parametrize(
    ("text", "at", "problem"),
    [
        (
            "<!-- table: none x -->\n<!-- end -->",
            ", `<!-- table: none x -->`",
            "no table has the name 'none'; there are agreement",
        ),
        ("<!-- table: -->\n<!-- end -->", ", `<!-- table: -->`", "the name of a table is missing"),
        ("a <!-- agrees: two -->?<!-- end -->", ", `<!-- agrees: two -->`", "no ('two', 'ktae')"),
        ("a <!-- agrees: broken -->?<!-- end -->", ", `<!-- agrees: broken -->`", "float"),
        ("a <!-- agrees: -->?<!-- end -->", ", `<!-- agrees: -->`", "a required argument: 'file'"),
        ("a <!-- agrees: one 2 -->?<!-- end -->", ", `<!-- agrees: one 2 -->`", "too many"),
        ("a <!-- agrees: one -->75 %\n", ": no `<!-- end -->`", "follows `<!-- agrees: one -->`"),
        (
            "<!-- table: agreement -->\ntext <!-- agrees: one -->75.0 %<!-- end -->",
            ": no `<!-- end -->`",
            "follows `<!-- table: agreement -->`",
        ),
        (
            "a\n  <!-- agrees: one -->75.0 %<!-- end -->",
            ": `<!-- agrees: one -->`",
            "begins a line",
        ),
    ],
)
def test_a_marker_that_cannot_be_filled_is_an_error(grading, text, at, problem):
    with pytest.raises(InputError) as found:
        fill(text)
    assert str(found.value).startswith(f"docs/p.md{at}") and problem in str(found.value)


def test_a_missing_csv_is_an_error_at_its_marker(grading):
    grading.unlink()
    with pytest.raises(
        InputError, match=r"^docs/p\.md, `<!-- agrees: one -->`: cannot read .*grad"
    ):
        fill("a <!-- agrees: one -->?<!-- end -->")


def test_two_modules_cannot_share_a_name():
    one, two, other = ModuleType("one"), ModuleType("two"), ModuleType("other")
    one.TABLES = two.TABLES = {"same": str}
    other.TABLES, two.NUMBERS = {"another": repr}, {"same": str}
    assert page.by_name("TABLES", [one, other]) == {"same": str, "another": repr}
    assert page.by_name("NUMBERS", [one, two]) == {"same": str}
    with pytest.raises(ValueError, match="TABLES of one and of two both have 'same'"):
        page.by_name("TABLES", [one, other, two])


def test_what_cannot_be_done_is_said(small, monkeypatch):
    assert "nothing to do" in str(invoke().exception)
    monkeypatch.setattr(pages, "PAGES", small / "none")
    assert "run this from a checkout" in str(invoke("--check").exception)
