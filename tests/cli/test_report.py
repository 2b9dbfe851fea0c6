"""`ktae report` and `ktae show` as a user runs them."""

import json
import re
import shutil
import subprocess

import pytest
from saved_outputs import write_lines

pytest.importorskip("jinja2")


ROWS = [
    {"group": "g", "response": "so 4", "reward": 1},
    {"group": "g", "response": "hmm 5", "reward": 0},
    {"group": "h", "response": "é \x1b[31m", "reward": 0},
]


@pytest.fixture
def run(command, tmp_path):
    write_lines(tmp_path / "r.jsonl", ROWS)
    return command


def test_report(run, tmp_path):
    status, out, err = run("report", "r.jsonl")
    assert status == 0
    *findings, wrote = out.splitlines()
    assert findings
    assert wrote.startswith("3 rollouts in ") and "wrote report.html" in wrote
    assert "no tokenizer, so texts are cut at words" in err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "<title>ktae report: r.jsonl</title>" in page
    assert "in place of" not in wrote
    assert "in place of the one that was there" in run("report", "r.jsonl").out


def test_text_of_a_picture_stays_text(run, tmp_path):
    """Words in SVG, TrueType fonts in PDF, and a document that LaTeX sets."""
    pytest.importorskip("matplotlib")
    for kind in ("svg", "pdf", "tex", "png"):
        status, out, _ = run("show", "r.jsonl", "-e", "paper", "-o", f"g.{kind}")
        assert (status, out) == (0, f"wrote g.{kind}\n")
    status, _, err = run("show", "r.jsonl", "-o", "g.txt")
    assert status == 2 and ".html, .tex, .png" in err
    assert (tmp_path / "g.png").read_bytes().startswith(b"\x89PNG")
    assert ">hmm<" in (tmp_path / "g.svg").read_text(encoding="utf-8").replace("> ", ">")
    pdf = (tmp_path / "g.pdf").read_bytes()
    assert b"/Type3" not in pdf and b"/CIDFontType2" in pdf
    assert r"\colorbox[HTML]{FFA14D}{\strut hmm}" in (tmp_path / "g.tex").read_text()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_any_text_compiles_with_pdflatex(run, tmp_path):
    signs = "# $ % & _ { } ~ ^ \\\\ < > é ⟨1⟩ 漢 `` '' -- [x] \t|"
    rows = [row | {"response": f"{signs} {i}"} for i, row in enumerate(ROWS[:2])]
    write_lines(tmp_path / "t.jsonl", rows)
    assert run("show", "t.jsonl", "-e", "paper", "-o", "t.tex").status == 0
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stdout[-2000:]
    assert (tmp_path / "t.pdf").is_file()


def test_a_group_as_a_page_is_no_markup_of_a_model(run, tmp_path):
    rows = [row | {"response": f"<b>{i}</b> $x$"} for i, row in enumerate(ROWS[:2])]
    write_lines(tmp_path / "b.jsonl", rows)
    assert run("show", "b.jsonl", "-e", "paper", "-o", "g.html")[0] == 0
    page = (tmp_path / "g.html").read_text(encoding="utf-8")
    assert "<b>" not in page and "$x$" in re.sub("<[^>]*>", "", page)
    assert page.count('<span style="background:#') == 2 + 2  # of the legend


def test_token_ids_without_text_are_numbers(run, tmp_path):
    rows = [{"group": "g", "token_ids": [7, i], "reward": i} for i in (0, 1)]
    write_lines(tmp_path / "ids.jsonl", rows)
    lines = run("show", "ids.jsonl", "-e", "paper").out.splitlines()
    assert lines[-2:] == ["+0.0000  ⟨7⟩", "-0.5000  ⟨0⟩"]


def test_show(run):
    status, out, _ = run("show", "r.jsonl", "-e", "paper")
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "Group g"
    assert "correct, response 1: reward 1, 3 pieces" in lines
    places = [lines.index(line) for line in ("+0.5000  so", "+0.0000  ␣", "-0.5000  hmm")]
    assert places == sorted(places)


def test_show_opens_the_group_of_most_evidence(run, tmp_path):
    """Not the first mixed one, in which one of eight is correct."""
    rows = [{"group": "first", "response": f"x {i}", "reward": int(i == 0)} for i in range(8)]
    rows += [
        {"group": "best", "response": f"{'so' if i < 4 else 'hm'} {i}", "reward": int(i < 4)}
        for i in range(8)
    ]
    write_lines(tmp_path / "e.jsonl", rows)
    assert json.loads(run("show", "e.jsonl", "--json").out)["group"] == "best"


def test_show_lets_no_escape_through(run):
    status, out, _ = run("show", "r.jsonl", "--group", "h")
    assert status == 0
    assert "⟨1B⟩" in out and "\x1b" not in out
    assert "nothing to compare" in out
