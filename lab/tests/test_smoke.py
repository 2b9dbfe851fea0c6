"""`ktae-lab study` as a user runs it: the smoke matrix, on a base model made in less time."""

import json
import shutil
import signal
import subprocess
import sys
import time

from short_base import short_base
from small import LAB

from ktae_lab.csv_files import read_csv


def study(path, output, *more):
    arguments = ["study", path, "--output", output, "--jobs", "2", *more]
    return [sys.executable, "-m", "ktae_lab", *map(str, arguments)]


def test_smoke_matrix_interrupted_and_resumed(request, tmp_path, monkeypatch):
    from ktae.demo import SUMS
    from ktae.demo.pretrain import base_model_folder

    base = short_base(request.config)  # before the cache's place is another
    # In the place of the embedded base model, whose own pretraining takes a minute or more.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(base, base_model_folder(SUMS, seed=0))
    matrix, output = LAB / "matrices/smoke.yaml", tmp_path / "study"

    process = subprocess.Popen(
        study(matrix, output), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 250
    while not list(output.glob("runs/*/*/metrics.jsonl")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=250)
    assert process.returncode == 130, err
    assert b"--resume continues" in out

    done = subprocess.run(
        study(matrix, output, "--resume"), capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert "4 runs planned: 4 finished" in done.stdout
    assert "2 of 2" in done.stdout
    assert "not enough" in done.stdout

    rows = read_csv(output / "runs.csv")
    assert [row["state"] for row in rows] == ["finished"] * 4
    for row in rows:
        for outcome in (
            "sampled_accuracy",
            "greedy_accuracy",
            "length",
            "entropy",
            "mean_accuracy",
        ):
            assert row[f"outcome.{outcome}"] != "", outcome
    curves = read_csv(output / "curves.csv.gz")
    assert len(curves) == 4 * 4
    assert all(row["accuracy"] and row["length"] and row["entropy"] for row in curves)
    results = json.loads((output / "results.json").read_text())
    assert results["runs"]["finished"] == results["runs"]["planned"] == 4
    trained_by = json.loads((output / "trained_by.json").read_text())
    assert sum(one["runs"] for one in trained_by) == 4
    assert sorted(path.name for path in (output / "figures").iterdir()) == [
        "bars-smoke.svg", "curves-smoke.svg", "differences.svg",
    ]  # fmt: skip
