"""The benchmarks behind docs/how-it-works.md run, on small batches. Nothing here is about time."""

import csv
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from ktae.rollouts.tokens import load_tokenizer, tokenize

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


def rows_of(script, tmp_path, *arguments):
    table = tmp_path / "rows.csv"
    done = subprocess.run(
        [sys.executable, BENCHMARKS / script, *arguments, "--csv", table],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    with table.open(newline="") as file:
        return done.stdout, list(csv.DictReader(file))


@pytest.mark.skipif(importlib.util.find_spec("verl") is None, reason="needs the extra 'verl'")
def test_verl_s_own_advantages(tmp_path):
    sizes = ("--prompts", "2", "--times", "2", "--shards", "2", "--repeats", "1")
    _, rows = rows_of("verl_advantages.py", tmp_path, *sizes)
    assert [row["adv_estimator"] for row in rows] == ["grpo", "ktae"]
    assert {(row["prompts"], row["rollouts"]) for row in rows} == {("4", "64")}


def test_commands_on_a_random_dump(tmp_path):
    sizes = ("--rollouts", "32", "--dumps", tmp_path, "--only", "pyarrow", "score", "report")
    _, rows = rows_of("scale.py", tmp_path, *sizes)
    assert [row["command"] for row in rows] == ["pyarrow", "score", "report"]
    dump = (tmp_path / "rollouts-32.jsonl").read_bytes()
    tokenizer = load_tokenizer(str(tmp_path / "tokenizer"))
    for row in map(json.loads, dump.splitlines()):
        assert tokenize(tokenizer, [row["response"]])[0].tolist() == row["token_ids"]
