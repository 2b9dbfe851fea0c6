"""Options that are wrong, would have no effect, or would write over an input: one line."""

from pathlib import Path

import pytest
from saved_outputs import write_lines

ROWS = [{"group": "g", "response": f"so {i % 3}", "reward": i % 2, "answer": "1"} for i in range(4)]


@pytest.fixture
def rows(command):
    """Four rollouts in `in/r.jsonl`, below the folder where commands run."""
    return write_lines(Path("in/r.jsonl"), ROWS)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("scor", "'scor'"),
        ("score --nope x", "ktae score -h"),
        ("show x.jsonl --step one", "--step"),
        ("show x.jsonl", "ktae: x.jsonl "),
        ("show in/r.jsonl --estimator entropy-weights", "ktae: --estimator entropy-weights "),
        ("score", "INPUT"),
        ("score in/r.jsonl --example", "INPUT"),
        ("eval", "--regrade"),
        ("eval m --benchmarks aime", "aime24"),
        ("eval m --samples 4", "--temperature"),
        ("eval --regrade in/r.jsonl --grader g", "'g'"),
        ("eval --regrade in/r.jsonl --benchmarks amc", "r.jsonl"),
        ("eval --regrade in/r.jsonl --samples 2", "ktae: --samples "),
        ("eval no/such/model --partial", "ktae: --partial "),
        ("eval m --recipe r.yaml --data d", "ktae: --data "),
        ("eval m --set a=1", "ktae: --set "),
    ],
)
def test_a_wrong_option_is_named(command, rows, words, named):
    """By typer, or in one line of ours."""
    result = command(*words.split())
    assert (result.status, result.out) == (2, "") and named in result.err
    assert not result.err.startswith("ktae: ") or result.err.count("\n") == 1


@pytest.mark.parametrize("path", ["in", "in/r.parquet"])
@pytest.mark.parametrize("output", ["in/../in/r.parquet", "link.parquet"])
def test_an_input_is_not_overwritten(path, output, command, rows):
    """Whether it is named or the folder that holds it."""
    assert command("score", rows, "-o", "in/r.parquet").status == 0
    rows.unlink()
    content = Path("in/r.parquet").read_bytes()
    Path("link.parquet").symlink_to("in/r.parquet")
    result = command("score", path, "-o", output)
    assert (result.status, result.out) == (2, "")
    assert Path("in/r.parquet").read_bytes() == content
