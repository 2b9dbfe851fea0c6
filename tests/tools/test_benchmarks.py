"""The benchmarks run, on small batches. Nothing here is about time."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from extras import require

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
