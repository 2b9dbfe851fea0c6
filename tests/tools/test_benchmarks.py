"""The benchmarks run, on small batches. Nothing here is about time."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from extras import require

from ktae.rollouts.tokens import load_tokenizer, tokenize

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run(script, *arguments):
    command = [sys.executable, BENCHMARKS / script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]


def rows(table):
    return list(csv.DictReader(table.read_text("utf-8").splitlines()))


def test_a_ratio_of_times_that_has_left_its_band_is_named(monkeypatch):
    """Of made-up times; the committed ones are of one thread."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import estimator

    known = estimator.ratios(estimator.RESULTS)
    made_up = [{"name": name, "ratio": f"{ratio}"} for name, ratio in known.items()]
    assert not estimator.out_of_band(made_up, known)
    made_up[1]["ratio"] = f"{2 * known[made_up[1]['name']]}"
    (line,) = estimator.out_of_band(made_up, known)
    assert line.startswith(made_up[1]["name"])
    assert known["calibrated"] <= 1.5 and known["verl grpo"] > 1


@pytest.mark.nightly
def test_verl_s_own_advantages(tmp_path):
    require("verl")
    table = tmp_path / "rows.csv"
    run("verl_advantages.py", "--prompts", "2", "--repeats", "1", "--csv", table)
    assert [row["adv_estimator"] for row in rows(table)] == ["grpo", "ktae"]
    assert {(row["prompts"], row["rollouts"]) for row in rows(table)} == {("2", "32")}


@pytest.mark.nightly
def test_commands_on_a_random_dump(tmp_path):
    table, names = tmp_path / "rows.csv", ["pyarrow", "score", "report"]
    run("scale.py", "--rollouts", "32", "--dumps", tmp_path, "--csv", table, "--only", *names)
    assert [row["command"] for row in rows(table)] == names
    dump = (tmp_path / "rollouts-32.jsonl").read_bytes()
    tokenizer = load_tokenizer(str(tmp_path / "tokenizer"))
    for row in map(json.loads, dump.splitlines()):
        assert tokenize(tokenizer, [row["response"]])[0].tolist() == row["token_ids"]


@pytest.mark.nightly
def test_every_part_of_what_is_planned_for_a_gpu(tmp_path):
    require("trl")
    run("gpu/run.py", "--small", "--output", tmp_path)
    for row in rows(tmp_path / "gradients.csv"):
        assert float(row["relative_error"]) < (1e-6 if row["dtype"] == "float32" else 0.05)
    assert float(rows(tmp_path / "speed.csv")[0]["largest_difference"]) < 1e-6
    credit = [float(row["mean_abs_credit"]) for row in rows(tmp_path / "training.csv")]
    assert [x > 0 for x in credit] == 3 * [True] + 3 * [False]
