"""The tables of docs/align.md are those of the committed measurements."""

import json
import re

SCRIPT = "align_tables"


def test_the_page_has_the_numbers_of_the_files(tables):
    page = tables.PAGE.read_text(encoding="utf-8")
    assert len(re.findall(r"^\| ---", page, flags=re.MULTILINE)) >= 2
    assert tables.filled(page, tables.TABLES) == page, "run python docs/align_tables.py"


def test_every_estimator_stands_there_alone_and_as_trained(tables):
    report = json.loads((tables.ALIGN / "sums-base0.json").read_text(encoding="utf-8"))
    table = tables.cosines("sums-base0")
    for name in report["estimators"]:
        assert f"| `{name}`, alone |" in table and f"| `{name}`, as trained |" in table
    assert "| the reference's own halves | 0.855 |  | 0.768 |  |" in table


def test_multiples_of_grpo_by_hand(tables, tmp_path, monkeypatch):
    row = {"metric": "raw", "mixture": "alone"}
    rows = [row | {"estimator": "grpo", "cosine": 0.2}, row | {"estimator": "paper", "cosine": 0.5}]
    (tmp_path / "one.json").write_text(json.dumps({"rows": rows}), encoding="utf-8")
    text = "estimator,nearest_here,mixture,cosine,grpo\nKTAE,paper,alone,.3,.1\n"
    (tmp_path / "feasibility.csv").write_text(text, encoding="utf-8")
    monkeypatch.setattr(tables, "ALIGN", tmp_path)
    last = tables.feasibility("one").splitlines()[-1]
    assert last == "| KTAE | alone | 0.300 | 0.100 | 3.00 | `paper` | 0.500 | 0.200 | 2.50 |"


def test_the_figure_says_how_good_the_reference_is(tables):
    """It is drawn from the same file; its text is in the SVG's comments."""
    figure = (tables.IMAGES / f"{tables.FIGURE}.svg").read_text(encoding="utf-8")
    assert f"(images/{tables.FIGURE}.svg)" in tables.PAGE.read_text(encoding="utf-8")
    for text in ("the reference's own halves: 0.86", "own halves: 0.77", "over batches alone"):
        assert text in figure.replace("&#39;", "'")
