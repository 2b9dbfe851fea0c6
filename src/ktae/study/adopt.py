"""Take over finished runs from a study's results: those of another machine, or of a clone."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ktae import recipe as recipes
from ktae.atomic import atomic_folder
from ktae.errors import InputError, one_line
from ktae.runs import RunFolder, write_json
from ktae.study.announced import Announced
from ktae.study.cells import Cell
from ktae.study.collect import CURVES
from ktae.study.folder import State, StudyFolder

Key = tuple[str, str, str, str]
KEYS = ("task", "method", "seed", "base_model")
OF_THE_RECORD = ("state", "error", "attempts", "process_seconds", "commit", "recipe_digest")


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


def read(cells: Sequence[Cell], results: StudyFolder) -> Elsewhere:
    """Those of the cells that have finished there, as `runs.csv` and `curves.csv` have them.

    That is all that a study compares, to the seven digits written there.

    Raises:
        InputError: a file cannot be read, or lacks a column or a step; or a run was trained with
            another recipe than the matrix says (or a version of ktae whose recipes have other
            keys).
    """
    try:
        announced = results.announcement()
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {results.announced}: {_why(error)}") from None
    rows = {_key(row): row for row in _read(results.runs_csv, (*KEYS, *OF_THE_RECORD))}
    lines = _lines(results.curves_csv)
    trained_by = _trained_by(results)
    runs = []
    for cell in cells:
        key = (cell.task, cell.method, str(cell.seed), cell.base)
        row = rows.get(key)
        if row is None or row["state"] != State.FINISHED.value:
            continue
        if row["recipe_digest"] != cell.digest:
            raise InputError(
                f"{cell.name} in {results.runs_csv} was trained with another recipe than the "
                f"matrix says (digest {row['recipe_digest']}, here {cell.digest})"
            )
        if len(lines[key]) != cell.recipe.steps:
            raise InputError(
                f"{results.curves_csv} has {len(lines[key])} steps of {cell.name}; "
                f"expected {cell.recipe.steps}"
            )
        runs.append(Finished(cell, _record(row, trained_by), _summary(row), lines[key]))
    return Elsewhere(announced, runs)


def take_over(runs: Iterable[Finished], folder: StudyFolder) -> int:
    """Make the folders of those runs that have not started here; returns their number.

    They have no checkpoint, rollouts or model. The lock of `folder` is held.
    """
    n = 0
    for cell, record, summary, lines in runs:
        if folder.state(cell) is State.NEW:
            path = folder.run_folder(cell).path
            path.parent.mkdir(parents=True, exist_ok=True)
            folder.add_to_record(cell, **record)
            with atomic_folder(path) as temporary:
                run = RunFolder(temporary)
                run.create(recipes.dump(cell.recipe))
                for line in lines:
                    run.append_metrics(line)
                write_json(run.summary, summary)
            n += 1
    return n


def _key(row: Mapping[str, str]) -> Key:
    task, method, seed, base = (row[name] for name in KEYS)
    return task, method, seed, base


def _read(path: Path, columns: Iterable[str]) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = set(columns) - set(reader.fieldnames or ())
            rows = list(reader)
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"cannot read {path}: {_why(error)}") from None
    if missing:
        raise InputError(f"{path} has no column {', '.join(sorted(missing))}")
    if any(None in row or None in row.values() for row in rows):
        raise InputError(f"{path} has rows of other lengths than its first line")
    return rows


def _lines(path: Path) -> dict[Key, list[dict[str, Any]]]:
    """The lines of `metrics.jsonl` for each run, under the first key that a curve may have."""
    lines: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    for row in _read(path, (*KEYS, "step")):
        values = {CURVES[name][0]: _value(row[name]) for name in CURVES if row.get(name)}
        lines[_key(row)].append({"step": _value(row["step"])} | values)
    return lines


def _summary(row: Mapping[str, str]) -> dict[str, Any]:
    """All columns but the outcomes and the study's own: dots in their names are objects in it."""
    summary: dict[str, Any] = {}
    for name, text in row.items():
        if name not in (*KEYS, *OF_THE_RECORD) and not name.startswith("outcome."):
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
            f"cannot tell from {results.results} what trained the runs: {_why(error)}"
        ) from None


def _record(row: Mapping[str, str], trained_by: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Of its processes; of the machine what all entries of `trained_by` with its commit share."""
    commit = row["commit"] or None
    kinds = [one for one in trained_by if one.get("commit") == commit]
    first, *others = kinds or [{}]
    left_out = {"commit", "runs", "dates"}
    machine = {
        key: value
        for key, value in first.items()
        if key not in left_out and all(one.get(key) == value for one in others)
    }
    dates = sorted(date for one in kinds for date in one.get("dates", ()))
    return {
        "adopted": True,
        "attempts": _value(row["attempts"]),
        "seconds": _value(row["process_seconds"]),
        "commit": commit,
        "machine": machine | ({"dates": [dates[0], dates[-1]]} if dates else {}),
    }


def _value(text: str) -> Any:
    """A number, a truth value or nothing where it reads as one; else the text itself."""
    if text in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or one_line(error)
