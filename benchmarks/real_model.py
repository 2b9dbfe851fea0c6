"""A run of SmolLM2-135M-Instruct and its evaluations, as the CSV files that the pages show.

    ktae train recipes/smollm2/grpo-calibrated.yaml
    ktae eval HuggingFaceTB/SmolLM2-135M-Instruct --recipe recipes/smollm2/grpo.yaml \
        --output evals/before
    ...
    python benchmarks/real_model.py runs/smollm2-grpo-calibrated-seed0 evals/*

Writes results/real_model_steps.csv (one row a training step) and results/real_model_evals.csv (one
row an evaluation), beside what other runs left there.
"""

from __future__ import annotations

import csv
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
METRICS = {
    "reward": "reward",
    "length": "completions/mean_length",
    "cut_off": "completions/clipped_ratio",
    "entropy": "entropy",
    "mean_abs_credit": "credit/mean_abs",
    "credit_seconds": "credit/seconds",
    "seconds": "seconds",
}


def steps_of(run: Path) -> list[dict[str, Any]]:
    """One row for each training step of a run."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [
        {"run": run.name, "step": line["step"]}
        | {name: _rounded(line.get(key)) for name, key in METRICS.items()}
        for line in lines
    ]


def row_of(evaluation: Path) -> dict[str, Any]:
    """The row of one evaluation's folder."""
    content = json.loads((evaluation / "results.json").read_text())
    (found,) = content["benchmarks"].values()
    settings = content["settings"]
    return {
        "evaluation": evaluation.name,
        "problems": found["problems"],
        "samples": settings["samples"],
        "temperature": settings["temperature"],
        "accuracy": _rounded(found["accuracy"]["value"]),
        "low": _rounded(found["accuracy"]["low"]),
        "high": _rounded(found["accuracy"]["high"]),
        "pass_at_k": json.dumps(found.get("pass_at")),
        "length": _rounded(found["length"]),
        "cut_off": _rounded(found["truncated"]),
        "unanswered": _rounded(found["unanswered"]),
        "machine": f"{platform.machine()}, torch {version('torch')}, trl {version('trl')}",
    }


def write(file: Path, rows: list[dict[str, Any]], key: str) -> None:
    """Write rows, beside those of other runs that the file holds."""
    kept = []
    if file.exists():
        with file.open(newline="", encoding="utf-8") as old:
            new = {row[key] for row in rows}
            kept = [row for row in csv.DictReader(old) if row[key] not in new]
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows([*kept, *rows])


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


def main(folders: list[str]) -> None:
    """Sort the folders into runs and evaluations, and write what they hold."""
    paths = [Path(folder) for folder in folders]
    steps = [row for path in paths if (path / "metrics.jsonl").exists() for row in steps_of(path)]
    evaluations = [row_of(path) for path in paths if (path / "results.json").exists()]
    if steps:
        write(RESULTS / "real_model_steps.csv", steps, "run")
    if evaluations:
        write(RESULTS / "real_model_evals.csv", evaluations, "evaluation")


if __name__ == "__main__":
    main(sys.argv[1:])
