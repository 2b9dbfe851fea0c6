"""The command that is planned for a GPU runs in small on a CPU."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from extras import require

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.nightly
def test_every_part_writes_its_csv(tmp_path):
    require("trl")
    command = [sys.executable, ROOT / "benchmarks/gpu/run.py", "--small", "--output", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = {
        path.stem: list(csv.DictReader(path.read_text("utf-8").splitlines()))
        for path in tmp_path.glob("*.csv")
    }
    for row in rows["gradients"]:
        assert float(row["relative_error"]) < (1e-6 if row["dtype"] == "float32" else 0.05)
    assert float(rows["speed"][0]["largest_difference"]) < 1e-6
    with_credit = [float(row["mean_abs_credit"]) > 0 for row in rows["training"]]
    assert with_credit == 3 * [True] + 3 * [False]
    assert (tmp_path / "curves.png").stat().st_size > 10_000
