"""`ktae score` as a user runs it: arguments in; exit status, output and files out."""

import json

import pyarrow.parquet as pq
import pytest
from saved_outputs import write_lines
from small_group import GROUP

from ktae.cli.printing import Screen


@pytest.fixture
def run(command):
    def run(*arguments):
        """To `scores.parquet`, unless an output is named."""
        named = {"-o", "--output"} & set(arguments)
        return command("score", *arguments, *([] if named else ["-o", "scores.parquet"]))

    return run


def lines_with(text, *parts):
    return [line for line in text.splitlines() if all(part in line for part in parts)]


def test_tokens_in_a_file_out(run, tmp_path):
    write_lines(tmp_path / "r.jsonl", GROUP)
    result = run("r.jsonl", "-e", "paper")
    assert (result.status, result.err) == (0, "")
    advice, header, *_, last = result.out.splitlines()
    assert "paper" in advice
    assert header == "4 rollouts (0 of unknown correctness), 1 group (1 mixed), 10 tokens"
    assert last == "wrote scores.parquet"
    assert {path.name for path in tmp_path.iterdir()} == {"r.jsonl", "scores.parquet"}


def test_a_group_in_which_no_token_tells_anything(command, tmp_path):
    write_lines(tmp_path / "r.jsonl", [GROUP[0] | {"reward": reward} for reward in (1, 0)])
    result = json.loads(command("score", "r.jsonl", "--json").out)
    assert result["groups"]["mixed"] == 1 and not any(result["strongest"].values())
    assert command("score", "r.jsonl").status == 0


def test_the_strongest_tokens_over_the_file(run, tmp_path):
    rows = GROUP + [row | {"group": "h"} for row in GROUP] + [row | {"group": "i"} for row in GROUP]
    write_lines(tmp_path / "r.jsonl", rows)
    out = run("r.jsonl", "-e", "paper").out
    assert lines_with(out, " 1 ", "+1.50", "+0.500", "6/6", "0/6", " 3 ")
    assert lines_with(out, " 2 ", "-1.50", "-0.500", "0/6", "6/6", " 3 ")
    assert lines_with(out, " 3 ", "0/6", "3/6") and not lines_with(out, " 7 ")
    assert not lines_with(run("r.jsonl", "-e", "paper", "--top", 1).out, " 3 ", "3/6")


def test_estimator_settings_threshold_and_out(run, tmp_path):
    write_lines(tmp_path / "r.jsonl", [row | {"reward": row["reward"] - 5} for row in GROUP])
    section = "{estimator: released, h3: 0, fisher: point, transforms: [{ignoring: [1]}]}"
    options = ("--estimator", section, "--threshold", -4.5)
    result = run("r.jsonl", *options, "--output", "deep.parquet")
    assert result.status == 0
    scored = pq.read_table(tmp_path / "deep.parquet")
    section = json.loads(scored.schema.metadata[b"ktae.credit"])
    assert (section["h2"], section["h3"], section["fisher"]) == (1.0, 0, "point")
    assert section["transforms"][-1] == {"ignoring": {"token_ids": [1]}}
    assert scored["correct"].to_pylist() == [1, 0, 1, 0]
    assert scored["credit"].to_pylist()[0] == [0, 0, 0]


def test_a_file_without_a_mixed_group_gives_zeros(run, tmp_path):
    write_lines(tmp_path / "r.jsonl", [row | {"reward": 0} for row in GROUP])
    result = run("r.jsonl")
    assert result.status == 0
    assert "no group has both correct and incorrect rollouts, so all credit is 0" in result.err
    credit = pq.read_table(tmp_path / "scores.parquet")["credit"].to_pylist()
    assert credit == [[0] * 3, [0] * 2, [0] * 2, [0] * 3]


LINE = json.dumps(GROUP[0]) + "\n"
TEXT = '{"group": "g", "response": "a", "reward": 1}\n'


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        (LINE + TEXT, [], "1 of 2 rollouts have token_ids and no response"),
        (TEXT * 2, ["--tokenizer", "."], "no tokenizer in ."),
        (LINE * 2, ["--output", "scores.csv"], "--output scores.csv: expected a name that ends in"),
    ],
)
def test_bad_input_is_one_line_and_status_2_and_no_file(content, arguments, message, run, tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "r.jsonl").write_text(content)
    result = run("r.jsonl", *arguments)
    assert (result.status, result.out) == (2, "")
    assert result.err.splitlines()[-1].startswith(f"ktae: {message}")
    assert {path.name for path in tmp_path.iterdir()} <= {"r.jsonl"}


def test_hostile_text_is_shown_and_not_obeyed(capsys):
    """Neither by a terminal nor by rich."""
    hostile = ["[red]x[/red]", "\x1b[31m", "[/]", ":smile:", "\r", "\u202e", "\\"]
    shown = ["[red]x[/red]", "⟨1B⟩[31m", "[/]", ":smile:", "⟨D⟩", "⟨202E⟩", "\\"]
    screen = Screen()
    screen.print(*hostile)
    screen.table("heading", hostile, [["name", *hostile]])
    out = capsys.readouterr().out
    assert "\x1b" not in out and "\u202e" not in out
    assert out.splitlines()[: len(shown)] == shown and all(out.count(x) > 1 for x in shown)


def test_texts_need_no_tokenizer(run, command, tmp_path):
    rows = [{"group": "g", "response": f"so it is {i % 2}", "reward": i % 2} for i in range(4)]
    write_lines(tmp_path / "r.jsonl", rows)
    result = run("r.jsonl", "--json")
    assert result.status == 0
    found = json.loads(result.out)
    assert (found["unit"], found["rollouts"], found["groups"]["mixed"]) == ("words", 4, 1)
    assert [token["token"] for token in found["strongest"]["supporting"]] == ["1"]
    assert [token["token"] for token in found["strongest"]["opposing"]] == ["0"]
    scored = pq.read_table(tmp_path / "scores.parquet")
    assert [len(credit) for credit in scored["credit"].to_pylist()] == [7] * 4
    # The numbers of words are this file's alone: who reads it cuts the texts again.
    again = json.loads(command("show", "scores.parquet", "--json").out)
    assert again["unit"] == "words" and again["rollouts"][0]["tokens"][0] == "so"
