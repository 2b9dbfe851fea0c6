"""`ktae report` and `ktae show` as a user runs them."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from saved_outputs import write_lines

pytest.importorskip("jinja2")

import ktae
from ktae.rollouts import record
from ktae.validity.advice import RECOMMENDED

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
    *findings, wrote, following = out.splitlines()
    assert findings
    assert wrote.startswith("3 rollouts in ") and "wrote report.html" in wrote
    assert following == "next: ktae show r.jsonl"
    assert "no tokenizer, so texts are cut at words" in err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "<title>ktae report: r.jsonl</title>" in page
    assert "in place of" not in wrote
    assert "in place of the one that was there" in run("report", "r.jsonl").out
    # Without a correct and an incorrect rollout of one prompt there is no credit to look at.
    (tmp_path / "r.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    assert "next:" not in run("report", "r.jsonl").out


def test_json_has_the_findings_and_the_estimator(run):
    told = json.loads(run("report", "r.jsonl", "--json").out)
    assert told["findings"][0]["key"] == "accuracy"
    assert told["estimator"] == RECOMMENDED


def test_rows_with_a_reference_and_no_reward_are_graded(run, tmp_path):
    pytest.importorskip("math_verify")
    rows = [{"group": "g", "answer": "4", "response": f"the answer is {i}"} for i in (4, 5)]
    write_lines(tmp_path / "a.jsonl", rows)
    told = json.loads(run("report", "a.jsonl", "--json").out)
    assert {x["key"]: x["count"] for x in told["page_notes"]}["graded"] == 2


@pytest.mark.parametrize(("kind", "begins"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_a_group_as_a_picture(run, tmp_path, kind, begins):
    pytest.importorskip("matplotlib")
    status, out, _ = run("show", "r.jsonl", "-o", f"g.{kind}")
    assert (status, out) == (0, f"wrote g.{kind}\n")
    assert (tmp_path / f"g.{kind}").read_bytes().startswith(begins)
    status, _, err = run("show", "r.jsonl", "-o", "g.txt")
    assert status == 2 and ".html, .tex, .png" in err


def test_text_of_a_picture_stays_text(run, tmp_path):
    """Words in SVG, TrueType fonts in PDF, and a document that LaTeX sets."""
    pytest.importorskip("matplotlib")
    for kind in ("svg", "pdf", "tex"):
        assert run("show", "r.jsonl", "-e", "paper", "-o", f"g.{kind}").status == 0
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "r.jsonl", "--output", "r.jsonl"], "would overwrite r.jsonl"),
        (["report", "r.jsonl", "--output", "r.txt"], "expected a name that ends in .html"),
        (["show", "r.jsonl", "--group", "nope"], "no group 'nope'; the first groups are 'g'"),
        (["show", "s.jsonl", "--step", "3"], "--step is 3; the steps are 1, 2"),
        (["report", "r.jsonl", "--watch", "--json"], "leave out --json"),
    ],
)
def test_bad_input_is_one_message_and_status_2(run, tmp_path, arguments, message):
    steps = [row | {"step": step} for row in ROWS for step in (1, 2)]
    write_lines(tmp_path / "s.jsonl", steps)
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    *before, last = err.strip().splitlines()
    assert message in last
    assert all(line.startswith("ktae: no tokenizer") for line in before)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"group": 1}\n', "line 4: no field 'response'"),
        ('{"group": "g", "resp', "line 4: broken JSON"),  # half written
    ],
)
def test_rows_that_cannot_be_used_are_left_out_and_named(run, tmp_path, line, message):
    with (tmp_path / "r.jsonl").open("a") as file:
        file.write(line)
    for command in ("report", "show", "permutation-test"):
        status, _, err = run(command, "r.jsonl", "--field", "reward=reward")
        assert status == 0 and f"not be used: 1 (r.jsonl, {message}" in err
    status, _, err = run("score", "r.jsonl")
    assert status == 2 and err.startswith(f"ktae: r.jsonl, {message}")


@pytest.mark.parametrize("content", ["", "\n", '{"group": "g", "resp'])
def test_a_file_of_a_folder_that_holds_no_row_yet_is_left_alone(run, tmp_path, content):
    (tmp_path / "d").mkdir()
    (tmp_path / "r.jsonl").rename(tmp_path / "d" / "1.jsonl")
    (tmp_path / "d" / "2.jsonl").write_text(content)
    status, out, err = run("report", "d")
    assert status == 0 and "\n3 rollouts" in out
    assert "2.jsonl" in err and "left out" not in err
    assert run("score", "d")[0] == run("report", "d/2.jsonl")[0] == 2
    (tmp_path / "d" / "1.jsonl").write_text(content)
    assert run("report", "d")[0] == 2


def test_token_ids_without_text_are_numbers(run, tmp_path):
    rows = [{"group": "g", "token_ids": [7, i], "reward": i} for i in (0, 1)]
    write_lines(tmp_path / "ids.jsonl", rows)
    assert run("show", "ids.jsonl", "-e", "paper").out.splitlines()[-2:] == [
        "+0.0000  ⟨7⟩",
        "-0.5000  ⟨0⟩",
    ]


def test_a_group_may_be_named_by_its_prompt(run, tmp_path):
    """Without a label of its own it has a hash for one."""
    rows = [{"prompt": p, "response": f"it is {r}", "reward": r}
            for p in ("what is 0+1?", "what is 1+1?", "1?") for r in (0, 1)]  # fmt: skip
    write_lines(tmp_path / "p.jsonl", rows)
    for wanted, prompt in (("what is 1+1?", "what is 1+1?"), ("what is 0", "what is 0+1?")):
        assert prompt in run("show", "p.jsonl", "--group", wanted).out.splitlines()
    several = run("show", "p.jsonl", "--group", "what")
    assert several.status == 2 and "begins the prompts of 2 groups" in several.err
    none = run("show", "p.jsonl", "--group", "why")
    assert none.status == 2 and "('what is 0+1?')" in none.err


def test_a_prompt_finds_its_own_group_where_labels_come_again_at_each_step(run, tmp_path):
    rows = [
        {"group": "0", "step": s, "prompt": p, "response": f"it is {r}", "reward": r}
        for s, p in ((1, "first?"), (2, "second?"))
        for r in (0, 1)
    ]
    write_lines(tmp_path / "s.jsonl", rows)
    shown = json.loads(run("show", "s.jsonl", "--group", "second?", "--json").out)
    assert (shown["prompt"], shown["step"]) == ("second?", 2)
    assert run("show", "s.jsonl", "--group", "first?", "--step", 2).status == 2


def test_show(run):
    status, out, _ = run("show", "r.jsonl", "-e", "paper")
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "Group g"
    assert "correct, response 1: reward 1, 3 words" in lines
    places = [lines.index(line) for line in ("+0.5000  so", "+0.0000  ␣", "-0.5000  hmm")]
    assert places == sorted(places)


@pytest.mark.parametrize("name", ["trigrams", "tempo"])
def test_show_shows_the_credit_that_training_gets(run, tmp_path, name):
    """In a group with a repeated token, where units and single tokens differ."""
    texts = ["a b c d", "a b d c b", "a d c b", "d b a c a"]
    rows = [{"group": "k", "response": x, "reward": i % 2} for i, x in enumerate(texts)]
    write_lines(tmp_path / "k.jsonl", rows)
    result = run("show", "k.jsonl", "--estimator", name, "--json")
    found = json.loads(result.out)
    assert found["estimator"] == name and not result.err.count("single tokens")
    words = {text: i for i, text in enumerate([" ", "a", "b", "c", "d"])}
    ids = [[words[token] for token in one["tokens"]] for one in found["rollouts"]]
    ids_bt, mask_bt = record.pad(ids)
    verdicts = [float(one["verdict"] == "correct") for one in found["rollouts"]]
    expected = ktae.token_credit(ids_bt, mask_bt, verdicts, [0] * 4, name)
    assert np.abs(expected).max() > 0.1
    for one, expected_t, mask in zip(found["rollouts"], expected, mask_bt, strict=True):
        np.testing.assert_allclose(one["credit"], expected_t[mask], atol=1e-6)


def test_show_opens_the_group_of_most_evidence(run, tmp_path):
    """Not the first mixed one, in which one of eight is correct."""
    rows = [{"group": "first", "response": f"x {i}", "reward": int(i == 0)} for i in range(8)]
    rows += [
        {"group": "best", "response": f"{'so' if i < 4 else 'hm'} {i}", "reward": int(i < 4)}
        for i in range(8)
    ]
    write_lines(tmp_path / "e.jsonl", rows)
    assert json.loads(run("show", "e.jsonl", "--json").out)["group"] == "best"


def test_what_no_dump_holds_is_refused(run):
    result = run("show", "r.jsonl", "--estimator", "entropy-weights")
    assert result.status == 2
    assert "entropy-weights needs the entropy of each token" in result.err


def test_show_lets_no_escape_through(run):
    status, out, _ = run("show", "r.jsonl", "--group", "h")
    assert status == 0
    assert "⟨1B⟩" in out and "\x1b" not in out
    assert "nothing to compare" in out
