"""SmolLM2-135M-Instruct before and after training: the tables of docs/real-model.md."""

import json

import numpy as np

from ktae_lab.csv_files import read_csv
from ktae_lab.tables.page import BENCHMARKS, Number, Table, markdown, newest

TOGETHER = 5
"""Training steps in a row of the table."""


def steps(run: str) -> str:
    """A run's metrics, each row the mean of a few steps."""
    rows = [
        row for row in read_csv(BENCHMARKS / "real_model_steps.csv", ("run",)) if row["run"] == run
    ]
    if not rows:
        raise KeyError(run)
    table = []
    for start in range(0, len(rows), TOGETHER):
        block = rows[start : start + TOGETHER]
        table.append(
            [
                f"{block[0]['step']} to {block[-1]['step']}",
                f"{_mean(block, 'reward'):.2f}",
                f"{_mean(block, 'length'):.1f}",
                f"{_mean(block, 'cut_off'):.0%}",
                f"{_mean(block, 'entropy'):.2f}",
                f"{np.median([float(row['seconds']) for row in block]):.0f}",
            ]
        )
    return markdown(
        ["steps", "right", "tokens", "cut off", "entropy, nats", "seconds a step"], table
    )


def evaluations() -> str:
    """Accuracy before and after, greedy and sampled."""
    rows = newest("real_model_evals", "evaluation")
    return markdown(
        ["model", "decoding", "accuracy", "pass@8", "tokens", "cut off"],
        [
            [
                name.replace("-", ", ").partition(",")[0],
                "greedy"
                if float(row["temperature"]) == 0
                else f"T = {float(row['temperature']):g}",
                _interval(row, 3),
                _pass_at(row, "8"),
                f"{float(row['length']):.1f}",
                f"{float(row['cut_off']):.0%}",
            ]
            for (name,), row in rows.items()
        ],
    )


def _interval(row: dict[str, str], digits: int) -> str:
    value, low, high = (f"{float(row[name]):.{digits}f}" for name in ("accuracy", "low", "high"))
    return f"{value} ({low} to {high})"


def _pass_at(row: dict[str, str], k: str) -> str:
    found = json.loads(row["pass_at_k"] or "null") or {}
    return f"{found[k]['value']:.3f}" if k in found else ""


def _mean(rows: list[dict[str, str]], column: str) -> float:
    return float(np.mean([float(row[column]) for row in rows]))


TABLES: dict[str, Table] = {
    "real-model-steps": steps,
    "real-model-evaluations": evaluations,
}
NUMBERS: dict[str, Number] = {}
