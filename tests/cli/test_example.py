"""The rollouts that come with ktae: read by every command, and enough for its tables."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import ktae
from ktae.rollouts import EXAMPLE

pytest.importorskip("tokenizers", reason="needs the extra 'report'")


def test_commands_read_the_example(command, tmp_path):
    assert sum(file.stat().st_size for file in EXAMPLE.iterdir()) < 300_000
    assert "VERDICT" in command("validate", "--example").out
    scored = command("score", "--example", "-o", "scores.parquet")
    assert "␣=" in scored.out, "tokens, and not words"
    assert pq.read_table("scores.parquet").num_rows == 1536
    assert "85 + 87" in command("show", "--example", "--step", "10", "--group", "6").out
    assert command("report", "--example", "--no-regrade").status == 0
    assert Path("report.html").stat().st_size > 100_000


@pytest.mark.parametrize("inputs", [[], ["a.jsonl", "--example"]])
def test_the_example_or_an_input(command, inputs):
    result = command("score", *inputs)
    assert (result.status, result.out) == (2, "") and "INPUT" in result.err


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError):
        ktae.reed  # noqa: B018
