"""`ktae compare` as a user runs it."""

import json

import pytest
from saved_outputs import cells, rows, write_lines

pytest.importorskip("math_verify")


def test_different_graders_are_not_compared(command, tmp_path):
    """Whether both sides' verdicts are stored, or those of one are still to be made."""
    file = write_lines(tmp_path / "a.jsonl", rows([1, 0, 1], reward=1))
    for grader in ("ktae", "ktae-boxed"):
        arguments = ("--grader", grader, "--workers", 1, "--output", grader)
        assert command("eval", "--regrade", file, *arguments).status == 0
        assert command("compare", grader, grader).status == 0
    refused = command("compare", "ktae-boxed", "ktae")
    assert refused.status == 2
    assert "--regrade" in refused.err
    assert command("compare", "ktae-boxed", file).status == 2
    assert command("compare", "ktae", file, "--workers", 1).status == 0
    again = ("--regrade", "ktae-boxed", "--grader", "ktae", "--workers", 1, "--output", "again")
    assert command("eval", *again).status == 0
    assert command("compare", "again", "ktae").status == 0


def test_files_without_a_benchmark_are_compared(command, tmp_path):
    """Their names are two; so are those of the folders where they were graded."""
    for name, rights in (("old", [0] * 20), ("new", [1] * 20)):
        content = [row | {"benchmark": None, "group": str(i)} for i, row in enumerate(rows(rights))]
        file = write_lines(tmp_path / f"{name}.jsonl", content)
        assert command("eval", "--regrade", file, "--output", name, "--workers", 1).status == 0
    for paths in (("old.jsonl", "new.jsonl"), ("old", "new.jsonl"), ("old", "new")):
        (row, *_) = json.loads(command("compare", *paths, "--json").out)["comparisons"]
        assert (row["a"], row["b"], row["up"], row["shown"]) == ("old", "new", 20, True)


def test_compare(command, tmp_path):
    a = write_lines(tmp_path / "old.jsonl", rows([0] * 12 + [1] * 8))
    b = write_lines(tmp_path / "new.jsonl", rows([1] * 20))
    result = command("compare", a, b, "--workers", 1)
    assert (result.status, result.err) == (0, "")
    assert cells(result.out, "own ")[:5] == ["20", "40.0", "100.0", "+60.0", "+40.0"]
    found = json.loads(command("compare", a, b, "--workers", 1, "--json").out)
    (row,) = found["comparisons"]
    assert (row["name"], row["difference"]["value"], row["shown"]) == ("own", 0.6, True)
    same = json.loads(command("compare", a, a, "--json").out)
    assert not same["comparisons"][0]["shown"]


def test_seeds_in_one_folder_and_several_models(command, tmp_path):
    """A folder of evaluations is one model's, with a sample of each problem from each seed.

    Its name may have dots.
    """
    for name in ("a/0", "a/1", "b2.5/0", "b2.5/1"):
        graded = rows([int(name != "a/0")] * 9)
        content = [row | {"model": name, "token_ids": [1, 2]} for row in graded]
        file = write_lines(tmp_path / "rows.jsonl", content)
        assert command("eval", "--regrade", file, "--output", tmp_path / name).status == 0
    refused = command("compare", "a", "b2.5")
    assert (refused.status, "--pool-models" in refused.err) == (2, True)
    result = command("compare", "a", "b2.5", "a/1", "--pool-models", "--json")
    assert result.status == 0
    accuracy, length, *_ = json.loads(result.out)["comparisons"]
    assert (accuracy["a"], accuracy["b"], accuracy["up"]) == ("a", "b2.5", 9)
    assert (length["measure"], length["mean_a"]) == ("length", 2)
