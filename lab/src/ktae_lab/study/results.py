"""What a study writes: its runs and its comparisons as CSV, and one figure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ktae import recipe as recipes
from ktae.errors import InputError
from ktae_lab import figures
from ktae_lab.csv_files import as_row, read_table, write_table
from ktae_lab.study.cells import KEYS, Cell, recipe_digests
from ktae_lab.study.contrasts import Compared, compare
from ktae_lab.study.folder import State, StudyFolder
from ktae_lab.study.matrix import Matrix, Outcome

CURVES = {
    "accuracy": ("rewards/correct/mean", "credit/correct"),
    "length": ("completions/mean_length",),
    "entropy": ("entropy",),
    "credit_abs": ("credit/mean_abs",),
}
"""Short names of curves, and the keys of `metrics.jsonl` that may hold them, the first one first.
`accuracy` is of all rollouts of the step, those that dynamic sampling replaced included."""

VALIDATED = ("temperature", "accuracy", "accuracy_at_1", "greedy_accuracy")
"""Columns of `validated.csv` that outcomes may name, as `validated.accuracy`."""


def write(matrix: Matrix, cells: Sequence[Cell], folder: StudyFolder) -> list[Compared]:
    """Read all runs, and write what `StudyFolder` names; returns the comparisons.

    Raises:
        InputError: a run cannot be read or was made with another recipe, or the results there are
            of more finished runs.
    """
    folder.require_started(cells)
    runs = collect(matrix, cells, folder)
    if folder.runs_csv.exists():  # in a clone results are committed, and runs are not
        states = (read_table(folder.runs_csv)["state"], runs["state"])
        before, now = ((column == State.FINISHED.value).sum() for column in states)
        if now < before:
            raise InputError(
                f"{folder.runs_csv} is of {before} finished runs, and {folder.runs} holds {now}: "
                "results were left as they are. Run the others, or give another --output"
            )
    compared = compare(matrix, runs, folder.announcement(), recipe_digests(cells))
    write_table(folder.runs_csv, runs)
    rows = [as_row(matrix.name, comparison) for comparison in compared]
    write_table(folder.comparisons_csv, pd.DataFrame(rows))
    figures.differences(matrix.name, compared, folder.figure)
    return compared


def collect(matrix: Matrix, cells: Sequence[Cell], folder: StudyFolder) -> pd.DataFrame:
    """One row a run, whatever became of it.

    Raises:
        InputError: a run's summary or metrics cannot be read.
    """
    validated: dict[tuple[str, ...], dict[str, float]] = {}
    if folder.validated_csv.exists():
        for row in read_table(folder.validated_csv).to_dict("records"):
            run_key = tuple(str(row[name]) for name in KEYS)
            validated[run_key] = {f"validated.{name}": row[name] for name in VALIDATED}
    rows = []
    for cell in cells:
        state, run, record = folder.state(cell), folder.run_folder(cell), folder.record(cell)
        summary: dict[str, Any] = {}
        lines: list[dict[str, Any]] = []
        if state is State.FINISHED:
            try:
                summary = recipes.dotted(json.loads(run.summary.read_text(encoding="utf-8")))
                lines = run.read_metrics()
            except (OSError, ValueError) as error:
                raise InputError(f"cannot read the run in {run.path}: {error}") from None
            summary |= validated.get(cell.key, {})
        key: dict[str, Any] = dict(zip(KEYS, cell.key, strict=True)) | {"seed": cell.seed}
        error_lines = (record.get("error") or "").strip().splitlines()
        rows.append(
            key
            | {"state": state.value, "error": error_lines[-1][:200] if error_lines else ""}
            | {f"outcome.{n}": measure(o, summary, lines) for n, o in matrix.all_outcomes.items()}
            | {name: value for name, value in summary.items() if name not in ("recipe", "seed")}
            | {"process_seconds": record.get("seconds"), "commit": record.get("commit")}
            | record.get("machine", {})
        )
    return pd.DataFrame(rows)


def curve(lines: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    """(steps,) a curve by its short name or key; NaN at steps without it."""
    keys = CURVES.get(name, (name,))
    values = [
        next((line[key] for key in keys if line.get(key) is not None), np.nan) for line in lines
    ]
    return np.array(values, dtype=np.float64)


def measure(
    outcome: Outcome, summary: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]
) -> float | None:
    """An outcome of a finished run; None where the run does not have it, or not all of it."""
    if outcome.summary is not None:
        value = summary.get(outcome.summary)
        return float(value) if isinstance(value, int | float) else None
    assert outcome.curve is not None
    values = curve(lines, outcome.curve)
    if outcome.last is not None and len(values) < outcome.last:
        return None
    values = values[-outcome.last :] if outcome.last else values
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None
