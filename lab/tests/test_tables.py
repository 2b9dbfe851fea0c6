"""Pages, README and the CSV of comparisons say what the results give."""

import hashlib

import pandas as pd
import pytest
from typer.testing import CliRunner

from ktae.errors import InputError
from ktae_lab import figures, svg, tables
from ktae_lab.cli import app
from ktae_lab.study import contrasts


def test_pages_and_comparisons_are_up_to_date():
    done = CliRunner().invoke(app, ["tables", "--check"])
    assert done.exit_code == 0, done.output


def test_a_number_is_the_mean_of_paired_differences():
    runs = pd.read_csv(tables.RESULTS / "decisive/validated.csv")
    sums = runs[runs["task"] == "sums"].pivot(index="seed", columns="method", values="accuracy")
    mean = (sums["trigrams"] - sums["grpo"]).mean()
    text = tables.difference("decisive", "trigrams", "grpo", "accuracy", "sums")
    assert len(sums) == 40
    assert text.startswith(f"{mean:+.3f} (")


def test_holm_over_all_studies_is_over_every_announced_test():
    table = pd.read_csv(tables.COMPARISONS)
    announced = table[table["announced"] == "yes"]
    assert len(announced) == 153
    least = announced["p"].min()
    first = announced.loc[announced["p"].idxmin()]
    assert first["holm_over_all_studies"] == pytest.approx(153 * least, rel=1e-2)
    others = table[~table["study"].isin(tables.STUDIES)]
    assert set(others["commit"]) == {"32564d0"} and set(others["announced"]) == {"yes"}
    assert table[table["study"].isin(tables.STUDIES)]["commit"].isna().all()


def test_rows_whose_data_lie_at_an_old_commit_do_not_change():
    """They cannot be made anew here; Holm's correction over all studies can, and changes."""
    table = pd.read_csv(tables.COMPARISONS, dtype=str, keep_default_na=False)
    kept = table[table["commit"] != ""].drop(columns="holm_over_all_studies")
    assert len(kept) == 116
    digest = hashlib.sha256(kept.to_csv(index=False, lineterminator="\n").encode()).hexdigest()
    assert digest[:16] == "184b4cc83da70853"


def test_markers_are_filled_and_the_text_around_them_stays(monkeypatch):
    monkeypatch.setattr(tables, "MAKERS", {"sum": lambda *words: "+".join(words)})
    text = "a <!-- sum: 1 2 -->old<!-- end --> b\n\n<!-- table: sum 3 -->\n\nx\n\n<!-- end -->\n"
    filled = tables.filled(text, "page")
    assert (
        filled
        == "a <!-- sum: 1 2 -->1+2<!-- end --> b\n\n<!-- table: sum 3 -->\n\n3\n\n<!-- end -->\n"
    )
    assert tables.filled(filled, "page") == filled


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a <!-- mean: x --> b", "page: no `<!-- end -->` follows"),
        ("a <!-- mene: x -->1<!-- end -->", "page: cannot fill `mene:['x']`: KeyError"),
        ("a <!-- cold: -->1<!-- end -->", "page: cannot fill `cold:[]`: TypeError"),
    ],
)
def test_what_cannot_be_filled(text, message):
    with pytest.raises(InputError) as caught:
        tables.filled(text, "page")
    assert message in str(caught.value)


def test_a_study_s_row_has_a_digit_more_than_pages():
    compared = contrasts.Compared(
        contrasts.Comparison("a", "b", "length", "t"), True, "", 3, pd.Series([1.0, 2.0, 2.0])
    )
    row = tables.as_row("s", compared)
    assert (row["mean"], row["low"], row["pairs"], row["planned"]) == ("+1.67", "", 3, 3)


def test_the_same_figure_is_the_same_file(tmp_path):
    mark = figures.Mark("x", figures.Interval(0.1, 0.0, 0.2))
    for name in ("a", "b"):
        figures.forest({"left": {"one": [mark]}, "right": {}}, "title", tmp_path / f"{name}.svg")
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert "title" in text and svg.FONT in text
