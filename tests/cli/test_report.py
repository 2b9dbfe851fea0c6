"""`ktae report` and `ktae show` as a user runs them."""

import json

import pytest

pytest.importorskip("jinja2")

ROWS = [
    {"group": "g", "response": "so 4", "reward": 1},
    {"group": "g", "response": "hmm 5", "reward": 0},
    {"group": "h", "response": "é \x1b[31m", "reward": 0},
]


@pytest.fixture
def run(command, tmp_path):
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return command


def test_report(run, tmp_path):
    status, out, err = run("report", "r.jsonl")
    assert status == 0
    assert out.startswith("3 rollouts in ") and "wrote report.html" in out
    assert "no --tokenizer" in err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "<title>ktae report: r.jsonl</title>" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "none.jsonl"], "none.jsonl does not exist"),
        (["report", "r.jsonl", "--output", "r.jsonl"], "would overwrite r.jsonl"),
        (["report", "r.jsonl", "--output", "no/r.html"], "folder no does not exist"),
        (["report", "r.jsonl", "--threshold", "nan"], "expected a finite number"),
        (["report", "r.jsonl", "--preset", "nope"], "no preset 'nope'"),
        (["report", "r.jsonl", "-s", "h9=1"], "no KTAE setting 'h9'"),
        (["report", "r.jsonl", "--tokenizer", "./none"], "none"),
        (["report", "."], "r.jsonl"),
        (["show", "r.jsonl", "--group", "nope"], "no group 'nope'; the first groups are 'g', 'h'"),
        (["show", "r.jsonl", "--step", "3"], "no mixed group at step 3"),
    ],
)
def test_bad_input_is_one_message_and_status_2(run, tmp_path, arguments, message):
    if arguments == ["report", "."]:
        (tmp_path / "r.jsonl").write_text("{broken\n")
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "report.html").exists()


def test_rows_that_cannot_be_used_are_named(run, tmp_path):
    with (tmp_path / "r.jsonl").open("a") as file:
        file.write('{"group": 1}\n')
    status, _, err = run("report", "r.jsonl")
    assert status == 0
    assert "left out: r.jsonl, line 4: no field 'response'" in err


def test_show(run):
    status, out, _ = run("show", "r.jsonl")
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "Group g"
    assert "correct, rollout 1: reward 1, 3 words" in lines
    assert lines.index("so 4") < lines.index("hmm 5")


def test_show_colours_for_and_against(run, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    _, out, _ = run("show", "r.jsonl", "--group", "g")
    assert "\x1b[37;48;2;28;108;200mso" in out  # one-sided tokens have a full term
    assert "\x1b[37;48;2;200;95;0mhmm" in out


def test_show_lets_no_escape_through(run):
    status, out, _ = run("show", "r.jsonl", "--group", "h")
    assert status == 0
    assert "⟨1B⟩[31m" in out and "\x1b" not in out
    assert "nothing to compare" in out
