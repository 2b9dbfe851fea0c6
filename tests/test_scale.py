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


def test_the_simulated_cluster(tmp_path):
    sizes = ("--groups", "12", "--shards", "2", "5", "--gpus", "8", "1024", "--cores", "64")
    printed, rows = rows_of("cluster.py", tmp_path, *sizes)
    assert "2 shards of whole groups: bit for bit the same" in printed
    assert "5 shards of whole groups: bit for bit the same" in printed
    assert [(row["scaling"], row["gpus"]) for row in rows] == [
        *(("weak", "8"), ("weak", "1024"), ("strong", "8"), ("strong", "1024"))
    ]
    paper, largest = rows[0], rows[1]
    assert paper["prompts"] == "1024" and largest["prompts"] == str(1024 * 128)
    assert {row["driver_cores"] for row in rows} == {"64"}
    # KTAE moves the responses, 8 bytes a token; plain GRPO moves 28
    ratio = float(largest["moved_gb_ktae"]) / float(largest["moved_gb_verl"])
    assert ratio == pytest.approx(8 / 28, rel=1e-3)
    moved = 8 * float(largest["tokens"]) / 1e9
    assert float(largest["moved_gb_ktae"]) == pytest.approx(moved, rel=0.01)
    work = float(largest["core_seconds"]) / 64 + float(largest["moved_gb_ktae"]) / 10
    assert float(largest["driver_s"]) == pytest.approx(work, rel=0.01)


@pytest.mark.skipif(importlib.util.find_spec("verl") is None, reason="needs the extra 'verl'")
def test_verl_s_own_advantages(tmp_path):
    sizes = ("--prompts", "2", "--times", "2", "--shards", "2", "--repeats", "1")
    _, rows = rows_of("verl_advantages.py", tmp_path, *sizes)
    assert [row["adv_estimator"] for row in rows] == ["grpo", "ktae"]
    assert {(row["prompts"], row["rollouts"]) for row in rows} == {("4", "64")}
    assert {row["share_of_7b_step"] for row in rows} == {""}, "a share of another step than this"


def test_commands_on_a_random_dump(tmp_path):
    sizes = ("--rollouts", "32", "--dumps", tmp_path, "--only", "pyarrow", "score", "report")
    _, rows = rows_of("scale.py", tmp_path, *sizes)
    assert [(row["command"], row["rollouts"]) for row in rows] == [
        ("pyarrow", "32"), ("score", "32"), ("report", "32")
    ]  # fmt: skip
    assert [bool(row["page_mb"]) for row in rows] == [False, False, True]
    assert all(float(row["cpu_s"]) > 0 and float(row["peak_mb"]) > 0 for row in rows)
    dump = (tmp_path / "rollouts-32.jsonl").read_bytes()
    again = [sys.executable, BENCHMARKS / "random_dump.py", tmp_path, "--rollouts", "32"]
    subprocess.run(again, check=True, capture_output=True)
    assert (tmp_path / "rollouts-32.jsonl").read_bytes() == dump
    tokenizer = load_tokenizer(str(tmp_path / "tokenizer"))
    for row in map(json.loads, dump.splitlines()):
        assert tokenize(tokenizer, [row["response"]])[0].tolist() == row["token_ids"]
