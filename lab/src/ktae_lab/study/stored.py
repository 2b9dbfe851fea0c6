"""A study as its results have it, without its runs: what a clone holds, and another machine sends.

Reading them needs no recipe: they are there for longer than a version's recipes have the same keys.
"""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ktae.errors import InputError, reason
from ktae_lab.csv_files import read_csv
from ktae_lab.study.cells import KEYS, key_of, places
from ktae_lab.study.collect import CURVES, Run
from ktae_lab.study.folder import State, StudyFolder
from ktae_lab.study.matrix import Matrix

OF_THE_RECORD = ("state", "error", "attempts", "process_seconds", "commit", "recipe_digest")
FAILURES = "failures_before"
"""Of the record too; a column that results written before it was recorded do not have."""
OUTCOME = "outcome."
"""How the names of the outcomes' columns begin."""


def read_runs(matrix: Matrix, folder: StudyFolder, *, with_curves: bool = False) -> list[Run]:
    """All runs of the matrix, in its order; with the numbers' seven digits.

    Args:
        matrix: the study's.
        folder: with its `runs.csv`, and `curves.csv.gz` where the curves are asked for.
        with_curves: else the runs have no lines.

    Raises:
        InputError: a file cannot be read, or lacks a column.
    """
    rows = read_rows(folder)
    lines = read_lines(folder) if with_curves else {}
    found = []
    for place in places(matrix):
        row = rows.get(place.key)
        if row is None:
            nothing = dict.fromkeys(matrix.all_outcomes)
            found.append(Run(place, State.NEW, {}, {}, [], nothing, ""))
            continue
        outcomes = {
            name: number(row.get(OUTCOME + name, ""), folder.runs_csv)
            for name in matrix.all_outcomes
        }
        found.append(
            Run(
                place, State(row["state"]), record_of(row), {}, lines.get(place.key, []),
                outcomes, row["recipe_digest"],
            )
        )  # fmt: skip
    return found


def read_rows(folder: StudyFolder) -> dict[tuple[str, ...], dict[str, str]]:
    """The rows of `runs.csv`, by `KEYS`.

    Raises:
        InputError: it cannot be read, lacks a column, or has a run twice.
    """
    rows = read_csv(folder.runs_csv, (*KEYS, *OF_THE_RECORD))
    by_key = {key_of(row): row for row in rows}
    if len(by_key) < len(rows):
        raise InputError(f"{folder.runs_csv} has a run twice")
    return by_key


def read_lines(folder: StudyFolder) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    """The lines of `metrics.jsonl` for each run, under the first key that a curve may have."""
    path = folder.curves_csv
    lines: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in read_csv(path, (*KEYS, "step")):
        values = {CURVES[name][0]: number(row[name], path) for name in CURVES if row.get(name)}
        lines[key_of(row)].append({"step": value(row["step"])} | values)
    return lines


def read_trained_by(folder: StudyFolder) -> list[dict[str, Any]]:
    """The kinds of processes that trained: commit, machine, versions, number of runs, dates.

    Raises:
        InputError: `trained_by.json` cannot be read.
    """
    try:
        return [dict(one) for one in json.loads(folder.trained_by.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"cannot tell from {folder.trained_by} what trained the runs: {reason(error)}"
        ) from None


def record_of(row: Mapping[str, str]) -> dict[str, Any]:
    """What a row of `runs.csv` tells of the run's processes; see `StudyFolder.record`."""
    failures = row.get(FAILURES, "")
    return {
        "attempts": value(row["attempts"]),
        "seconds": value(row["process_seconds"]),
        "commit": row["commit"] or None,
        "error": row["error"] or None,
    } | ({"failures": value(failures)} if failures else {})


def number(text: str, path: Path) -> float | None:
    """A cell that has to hold a number, or nothing.

    Raises:
        InputError: it holds something else.
    """
    try:
        return float(text) if text else None
    except ValueError:
        raise InputError(f"{path} has {text!r} where a number is expected") from None


def value(text: str) -> Any:
    """A number, a truth value or nothing where it reads as one; else the text itself."""
    if text in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[text]
    for kind in (int, float):
        with contextlib.suppress(ValueError):  # it is none of this kind
            return kind(text)
    return text
