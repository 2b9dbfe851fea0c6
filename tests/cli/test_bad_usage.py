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
    "words",
    [
        ["eval", "--regrade", "in/r.jsonl", "--samples", 2],
        ["eval", "no/such/model", "--partial"],
        ["eval", "no/such/model", "--field", "a=b"],
        ["eval", "m", "--recipe", "r.yaml", "--data", "d"],
        ["eval", "m", "--set", "a=1"],
    ],
)
def test_what_has_no_effect_is_refused(command, rows, words):
    option = next(word for word in words[::-1] if str(word).startswith("--"))
    result = command(*words)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"ktae: {option} ")


@pytest.mark.parametrize("path", ["in", "in/r.parquet"])
@pytest.mark.parametrize(
    "words",
    [
        ["score", "PATH", "-o", "in/../in/r.parquet"],
        ["score", "PATH", "--output", "link.parquet"],
    ],
    ids=" ".join,
)
def test_an_input_is_not_overwritten(words, path, command, rows):
    """Whether it is named or the folder that holds it."""
    assert command("score", rows, "-o", "in/r.parquet").status == 0
    rows.unlink()
    content = Path("in/r.parquet").read_bytes()
    Path("link.parquet").symlink_to("in/r.parquet")
    result = command(*(path if word == "PATH" else word for word in words))
    assert (result.status, result.out) == (2, "")
    assert Path("in/r.parquet").read_bytes() == content
