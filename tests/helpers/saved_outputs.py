"""Saved outputs, and what commands print of them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa


def write_lines(path: Path, rows: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_rows(path: Path, *rows: Any) -> Path:
    return write_lines(path, rows)


def cells(text: str, label: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.strip().startswith(label)]
    return line.strip().removeprefix(label).split()


def rows(rights: list[int], reward: int | None = None) -> list[dict[str, Any]]:
    return [
        {
            "benchmark": "own",
            "group": f"own/{i}",
            "response": rf"\boxed{{{i + 1 - right}}}",
            "answer": str(i),
        }
        | ({} if reward is None else {"reward": reward})
        for i, right in enumerate(rights)
    ]


OUTCOMES = {"correct": 1.0, "incorrect": 0.0, "unanswered": 0.0, "undecided": None}
BY_CORRECT = {1: "correct", 0: "incorrect", None: "undecided"}


def graded(benchmarks: dict[str, list[list[Any]]], **more: Any) -> pa.Table:
    """Graded outputs of benchmarks, with a list of outcomes for each problem: 1, 0, None or an
    outcome's name. `more` are columns: a value for all rows, or a list."""
    from ktae.experiments.outputs import SCHEMA

    table = [
        {
            "benchmark": name,
            "answers": ["1"],
            "outcome": BY_CORRECT.get(outcome, outcome),
            "correct": OUTCOMES[BY_CORRECT.get(outcome, outcome)],
            "grader": "ktae",
            **dict.fromkeys(
                ("group", "label", "problem"), str(i) if name == "all" else f"{name}/{i}"
            ),
        }
        for name, problems in benchmarks.items()
        for i, outcomes in enumerate(problems)
        for outcome in outcomes
    ]
    for name, values in more.items():
        values = values if isinstance(values, list) else [values] * len(table)
        table = [row | {name: value} for row, value in zip(table, values, strict=True)]
    return pa.Table.from_pylist(table, schema=SCHEMA)
