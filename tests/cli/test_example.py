"""The rollouts that come with ktae: read by every command, and enough for its tables."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ktae.rollouts import EXAMPLE

pytest.importorskip("tokenizers", reason="needs the extra 'report'")


def test_commands_read_the_example(command, tmp_path):
    assert sum(file.stat().st_size for file in EXAMPLE.iterdir()) < 300_000
    assert "VERDICT" in command("validate", "--example").out
    assert command("skill").out.startswith("---\nname: ktae\n")
    scored = command("score", "--example", "-o", "scores.parquet")
    assert "␣-" in scored.out, "tokens, and not words"
    assert pq.read_table("scores.parquet").num_rows == 1024
    shown = command("show", "--example", "--step", "9", "--group", "problem 35")
    assert "10 boxes with 8 cards" in shown.out
    assert command("report", "--example", "--no-regrade").status == 0
    assert Path("report.html").stat().st_size > 100_000


def test_the_responses_of_a_finding_are_where_it_says(command):
    """They are paid, and show has them at that place of the group."""
    report = json.loads(command("report", "--example", "--json").out)
    finding = next(x for x in report["findings"] if x["key"] == "incorrect-here")
    assert finding["count"] == 65 and len(finding["responses"]) == 50
    for at in finding["responses"][:3]:
        where = ["--group", at["group"], "--step", str(at["step"])]
        group = json.loads(command("show", "--example", *where, "--json").out)
        number = {x["rollout"]: x for x in group["rollouts"]}
        assert number[at["rollout"]]["reward"] == 1
        assert at["tokens"][1] <= len(number[at["rollout"]]["tokens"])
