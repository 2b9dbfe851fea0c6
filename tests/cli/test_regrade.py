"""`ktae eval --regrade`: saved outputs are graded again."""

import json
from pathlib import Path

import pytest
from saved_outputs import cells, rows, write_lines

pytest.importorskip("math_verify")


def test_an_undecided_sample_takes_no_column_away(command, tmp_path):
    """Eight samples to each of two problems; one of `b` is undecided."""
    wrong, right = ({"response": rf"\boxed{{{x}}}", "answer": "1"} for x in (0, 1))
    broken = {"answer": ["1", r"\frac{"]}  # a response that is not 1 cannot be decided
    content = [
        {"benchmark": name, "group": i}
        | (right if i and (name, j) != ("b", 0) else wrong)
        | (broken if (name, i) == ("b", 1) else {})
        for name in "ab"
        for i in range(2)
        for j in range(8)
    ]
    file = write_lines(tmp_path / "a.jsonl", content)
    result = command("eval", "--regrade", file, "--workers", 1, "--output", "out")
    assert (result.status, result.err) == (0, "")
    (a, b) = (cells(result.out, f"{name} ") for name in "ab")
    assert a[:2] == b[:2] == ["2", "50.0"]
    assert a[5:9] == ["50.0"] * 3 + ["-"] and b[7:9] == ["0.0", "(1)"]
    found = json.loads(Path("out/summary.json").read_text())["benchmarks"]["b"]
    assert (found["samples"], found["pass_at"]["8"]["problems"]) == (8, 1)


def test_several_models_are_taken_as_one_when_asked_alone(command, tmp_path):
    content = [
        {"group": "g", "response": rf"\boxed{{{answer}}}", "answer": "1", "model": model}
        for model, answer in (("a", 1), ("a", 1), ("b", 1), ("b", 2))
    ]
    file = write_lines(tmp_path / "r.jsonl", content)
    pooling = ("--pool-models", "--output", "pooled", "--json")
    pooled = command("eval", "--regrade", file, "--workers", 1, *pooling)
    assert pooled.err == ""
    content = json.loads(pooled.out)
    assert content["mean"]["value"] == 0.75 and content.pop("output") == "pooled"
    assert content == json.loads(Path("pooled/summary.json").read_text())
    for asked in (("compare", file, file), ("eval", "--regrade", file)):
        refused = command(*asked, "--workers", 1)
        assert (refused.status, refused.out) == (2, "")
        assert "(a, b)" in refused.err


def test_many_unanswered_are_said_with_the_option_that_helps(command, tmp_path):
    """Above a fifth, by whatever grader, and in `ktae compare` as well."""
    said = [{"group": f"own/{i}", "response": f"I get {i}", "answer": f"{i}"} for i in range(2)]
    some, none = rows([1] * 10)[2:], said[:1]
    many = write_lines(tmp_path / "many.jsonl", said + some)
    few = write_lines(tmp_path / "few.jsonl", none + some[:-1] + rows([1] * 11)[9:])
    assert "WARNING" not in command("eval", "--regrade", few).out
    one_more = write_lines(tmp_path / "more.jsonl", said + some[:-1])
    assert "WARNING" not in command("eval", "--regrade", many).out  # exactly a fifth
    result = command("eval", "--regrade", one_more)
    assert "WARNING" in result.out and "--grader ktae-last" in result.out
    last = command("eval", "--regrade", one_more, "--grader", "ktae-last")
    assert "WARNING" not in last.out and cells(last.out, "own")[1] == "100.0"
    other = write_lines(tmp_path / "other.jsonl", said + some[:-1])
    both = command("compare", one_more, other)
    assert both.out.count("WARNING") == 2
    assert str(one_more) in both.out and "--grader ktae-last" in both.out
