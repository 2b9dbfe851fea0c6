"""Take over finished runs from a study's results: those of another machine, or of a clone."""

from __future__ import annotations

import contextlib
import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ktae import recipe as recipes
from ktae.atomic import atomic_folder
from ktae.errors import InputError, reason
from ktae.runs import RunFolder, write_json
from ktae.study.announced import Announced
from ktae.study.cells import KEYS, Cell, key_of
from ktae.study.collect import CURVES, measure
from ktae.study.folder import State, StudyFolder
from ktae.study.matrix import Matrix

NOT_OF_A_MACHINE = ("commit", "runs", "dates")
OF_THE_RECORD = ("state", "error", "attempts", "process_seconds", "commit", "recipe_digest")
FAILURES = "failures_before"
"""Of the record too; a column that results written before it was recorded do not have."""


class Finished(NamedTuple):
    """A run as results have it."""

    cell: Cell
    record: dict[str, Any]
    """See `StudyFolder.record`."""
    summary: dict[str, Any]
    lines: list[dict[str, Any]]
    """Of `metrics.jsonl`."""


class Elsewhere(NamedTuple):
    """A study as its results have it."""

    announced: Announced
    runs: list[Finished]
    """Those of the matrix."""
    n_finished: int
    """With those that the matrix has not."""


def read(matrix: Matrix, cells: Sequence[Cell], results: StudyFolder) -> Elsewhere:
    """Those of the cells that have finished there, as `runs.csv` and `curves.csv` have them.

    The numbers have the seven digits written there.

    Raises:
        InputError: a file cannot be read, or lacks a column or a step; it is another study, or
            none of its runs is of the matrix; a run was trained with another recipe than the matrix
            says (or by a version of ktae whose recipes have other keys); or a run has an outcome
            that cannot be had from its curves.
    """
    announced = results.announcement()
    if announced.matrix is not None and announced.matrix.name != matrix.name:
        raise InputError(
            f"{results.path} is of the study {announced.matrix.name!r}; expected {matrix.name!r}"
        )
    rows = [
        row
        for row in _read(results.runs_csv, (*KEYS, *OF_THE_RECORD))
        if row["state"] == State.FINISHED.value
    ]
    by_key = {key_of(row): row for row in rows}
    if len(by_key) < len(rows):
        raise InputError(f"{results.runs_csv} has a run twice")
    lines = _lines(results.curves_csv)
    trained_by = _trained_by(results)
    runs = []
    for cell in cells:
        if (row := by_key.get(cell.key)) is not None:
            run = Finished(cell, _record(row, trained_by), _summary(row), lines[cell.key])
            _require_whole(run, row, matrix, results)
            runs.append(run)
    if not runs:
        raise InputError(
            f"no run of the matrix is among the {len(rows)} finished in {results.path}"
        )
    return Elsewhere(announced, runs, len(rows))


def _require_whole(
    run: Finished, row: Mapping[str, str], matrix: Matrix, results: StudyFolder
) -> None:
    """Raise an InputError unless the run is the matrix's, with all steps and outcomes."""
    cell = run.cell
    if row["recipe_digest"] != cell.digest:
        raise InputError(
            f"{cell.name} in {results.runs_csv} was trained with another recipe than the matrix "
            "says, or by a version of ktae whose recipes have other keys "
            f"(digest {row['recipe_digest']}, here {cell.digest})"
        )
    steps = [line["step"] for line in run.lines]
    if steps != list(range(1, cell.recipe.steps + 1)):
        raise InputError(
            f"{results.curves_csv} has {len(steps)} steps of {cell.name}; "
            f"expected 1 to {cell.recipe.steps}, in order"
        )
    for name, outcome in matrix.all_outcomes.items():
        there = _number(row.get(f"outcome.{name}", ""), results.runs_csv)
        again = measure(outcome, recipes.dotted(run.summary), run.lines)
        if there is not None and (again is None or not math.isclose(there, again, rel_tol=1e-5)):
            raise InputError(
                f"{cell.name} has {name} = {there} in {results.runs_csv}, and "
                f"{'nothing' if again is None else again} by what is in {results.curves_csv}"
            )


def take_over(runs: Iterable[Finished], folder: StudyFolder) -> int:
    """Make the folders of those runs that have not started here; returns their number.

    They have no checkpoint, rollouts or model. The lock of `folder` is held.
    """
    n = 0
    for cell, record, summary, lines in runs:
        if folder.state(cell) is State.NEW:
            path = folder.run_folder(cell).path
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_folder(path) as temporary:
                run = RunFolder(temporary)
                run.create(recipes.dump(cell.recipe))
                for line in lines:
                    run.append_metrics(line)
                write_json(run.summary, summary)
            folder.add_to_record(cell, **record)
            n += 1
    return n


def _read(path: Path, columns: Iterable[str]) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = set(columns) - set(reader.fieldnames or ())
            rows = list(reader)
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {reason(error)}") from None
    if missing:
        raise InputError(f"{path} has no column {', '.join(sorted(missing))}")
    if any(None in row or None in row.values() for row in rows):
        raise InputError(f"{path} has rows of other lengths than its first line")
    return rows


def _lines(path: Path) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    """The lines of `metrics.jsonl` for each run, under the first key that a curve may have."""
    lines: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in _read(path, (*KEYS, "step")):
        values = {CURVES[name][0]: _number(row[name], path) for name in CURVES if row.get(name)}
        lines[key_of(row)].append({"step": _value(row["step"])} | values)
    return lines


def _number(text: str, path: Path) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise InputError(f"{path} has {text!r} where a number is expected") from None


def _summary(row: Mapping[str, str]) -> dict[str, Any]:
    """All columns but the outcomes and the study's own: dots in their names are objects in it."""
    summary: dict[str, Any] = {}
    for name, text in row.items():
        if name not in (*KEYS, *OF_THE_RECORD, FAILURES) and not name.startswith("outcome."):
            *parents, last = name.split(".")
            place = summary
            for parent in parents:
                place = place.setdefault(parent, {})
            place[last] = _value(text)
    return summary


def _trained_by(results: StudyFolder) -> list[dict[str, Any]]:
    try:
        found = json.loads(results.results.read_text(encoding="utf-8"))["trained_by"]
        return [dict(one) for one in found]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"cannot tell from {results.results} what trained the runs: {reason(error)}"
        ) from None


def _record(row: Mapping[str, str], trained_by: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Of its processes; of the machine what the entries of `trained_by` with its commit say."""
    commit = row["commit"] or None
    kinds = [one for one in trained_by if one.get("commit") == commit]
    keys = dict.fromkeys(key for one in kinds for key in one if key not in NOT_OF_A_MACHINE)
    machine: dict[str, Any] = {
        key: " or ".join(dict.fromkeys(str(one[key]) for one in kinds if key in one))
        for key in keys
    }
    dates = sorted(date for one in kinds for date in one.get("dates", ()))
    failures = row.get(FAILURES, "")
    return {
        "adopted": True,
        "attempts": _value(row["attempts"]),
        "seconds": _value(row["process_seconds"]),
        "commit": commit,
        "machine": machine | ({"dates": [dates[0], dates[-1]]} if dates else {}),
    } | ({"failures": _value(failures)} if failures else {})


def _value(text: str) -> Any:
    """A number, a truth value or nothing where it reads as one; else the text itself."""
    if text in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[text]
    for kind in (int, float):
        with contextlib.suppress(ValueError):  # it is none of this kind
            return kind(text)
    return text
