"""The tables of docs/results.md are those of the committed results."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("results_tables", ROOT / "docs/results_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_numbers_of_the_files(tables):
    page = tables.PAGE.read_text(encoding="utf-8")
    assert len(re.findall(r"^\| ---", page, flags=re.MULTILINE)) >= 3
    assert tables.filled(page) == page, "run python docs/results_tables.py"


def test_the_figures_are_the_studys(tables):
    page = tables.PAGE.read_text(encoding="utf-8")
    for name, source in tables.FIGURES.items():
        assert f"(images/{name})" in page
        assert (tables.IMAGES / name).read_bytes() == source.read_bytes(), name


def test_a_table_is_replaced_and_the_text_stays(tables):
    page = "a\n<!-- table: paper-step-time -->\nold\n<!-- end -->\nb\n"
    filled = tables.filled(page)
    assert filled.startswith("a\n") and filled.endswith("\nb\n") and "old" not in filled
    assert "| 1.5B | GRPO | 278 s | 372 s | 94 s (34%) |" in filled


def test_the_error_of_an_average_by_hand(tables):
    rows = [{"accuracy": "50", "problems": "100"}] * 2 + [{"accuracy": "20", "problems": "16"}] * 2
    # Two models on two benchmarks: standard errors of 5 and 10 points each.
    assert tables._standard_error(rows, 2) == pytest.approx((2 * 25 + 2 * 100) ** 0.5 / 2)


def test_differences_at_a_temperature_are_paired(tables, tmp_path, monkeypatch):
    """`a` has one seed that `b` lacks, and `b` is better by .1 and .2 in the others."""
    accuracies = {("a", 1): 0.1, ("a", 2): 0.3, ("a", 3): 0.5, ("b", 1): 0.2, ("b", 3): 0.7}
    (tmp_path / "small").mkdir()
    rows = ["task,method,seed,base_model,temperature,accuracy"]
    rows += [f"t,{method},{seed},,0.5,{x}" for (method, seed), x in accuracies.items()]
    (tmp_path / "small" / "temperatures.csv").write_text("\n".join(rows), encoding="utf-8")
    monkeypatch.setattr(tables, "STUDIES", tmp_path)
    head, _, a, b = tables.temperatures("small", "t", "accuracy", "a").splitlines()
    assert head == "| method | pairs | T = 0.5 |"
    assert a == "| `a` | 3 | 0.300 |"
    assert b.startswith("| `b` | 2 | +0.150 (")


def test_an_unknown_table_is_an_error(tables):
    with pytest.raises(KeyError, match="nothing"):
        tables.filled("<!-- table: nothing -->\n<!-- end -->")
