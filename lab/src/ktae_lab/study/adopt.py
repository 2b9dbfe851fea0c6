"""Take over finished runs from a study's results: those of another machine, or of a clone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ktae import recipe as recipes
from ktae.errors import InputError
from ktae.files.atomic import atomic_folder
from ktae.runs import RunFolder, write_json
from ktae_lab.csv_files import write_csv
from ktae_lab.study.announced import Announced
from ktae_lab.study.cells import KEYS, Cell, key_of
from ktae_lab.study.collect import measure
from ktae_lab.study.folder import State, StudyFolder
from ktae_lab.study.matrix import Matrix
from ktae_lab.study.stored import (
    FAILURES,
    OF_THE_RECORD,
    OUTCOME,
    number,
    read_lines,
    read_rows,
    read_trained_by,
    record_of,
    value,
)

NOT_OF_A_MACHINE = ("commit", "runs", "dates")


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
    """Those of the matrix, but for `n_unmeasured`."""
    n_finished: int
    """With those that the matrix has not."""
    n_unmeasured: int
    """Those of the matrix that still have to be measured at their best temperature. It takes their
    models, which are not here: they have to be trained again."""
    validated: list[dict[str, str]]
    """Rows of `validated.csv`."""


def read(matrix: Matrix, cells: Sequence[Cell], results: StudyFolder) -> Elsewhere:
    """Those of the cells that have finished there, as `runs.csv` and `curves.csv.gz` have them.

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
    finished = {
        key: row for key, row in read_rows(results).items() if row["state"] == State.FINISHED.value
    }
    lines = read_lines(results)
    trained_by = read_trained_by(results)
    there = [cell for cell in cells if cell.key in finished]
    if not there:
        raise InputError(
            f"no run of the matrix is among the {len(finished)} finished in {results.path}"
        )
    validated = results.validated_rows()
    measured = {key_of(row) for row in validated}
    needs_model = bool(validated) or matrix.compares_validated
    runs = []
    for cell in there:
        if not needs_model or cell.key in measured:
            row = finished[cell.key]
            run = Finished(cell, _record(row, trained_by), _summary(row), lines[cell.key])
            _require_whole(run, row, matrix, results)
            runs.append(run)
    return Elsewhere(announced, runs, len(finished), len(there) - len(runs), validated)


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
        there = number(row.get(OUTCOME + name, ""), results.runs_csv)
        again = measure(outcome, recipes.dotted(run.summary), run.lines)
        if there is not None and (again is None or not math.isclose(there, again, rel_tol=1e-5)):
            raise InputError(
                f"{cell.name} has {name} = {there} in {results.runs_csv}, and "
                f"{'nothing' if again is None else again} by what is in {results.curves_csv}"
            )


def take_over(elsewhere: Elsewhere, folder: StudyFolder) -> int:
    """Make the folders of those runs that have not started here; returns their number.

    They have no checkpoint, rollouts or model. Their rows of `validated.csv` come along. The lock
    of `folder` is held.
    """
    n = 0
    for cell, record, summary, lines in elsewhere.runs:
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
    rows = folder.validated_rows()
    known = {key_of(row) for row in rows}
    adopted = {run.cell.key for run in elsewhere.runs if folder.record(run.cell).get("adopted")}
    if new := [row for row in elsewhere.validated if key_of(row) in adopted - known]:
        write_csv(folder.validated_csv, [*rows, *new])
    return n


def _summary(row: Mapping[str, str]) -> dict[str, Any]:
    """All columns but the outcomes and the study's own: dots in their names are objects in it."""
    summary: dict[str, Any] = {}
    for name, text in row.items():
        if name not in (*KEYS, *OF_THE_RECORD, FAILURES) and not name.startswith(OUTCOME):
            *parents, last = name.split(".")
            place = summary
            for parent in parents:
                place = place.setdefault(parent, {})
            place[last] = value(text)
    return summary


def _record(row: Mapping[str, str], trained_by: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The run's record: its machine is what the entries of `trained_by` with its commit say."""
    own = record_of(row)
    kinds = [one for one in trained_by if one.get("commit") == own["commit"]]
    keys = dict.fromkeys(key for one in kinds for key in one if key not in NOT_OF_A_MACHINE)
    machine: dict[str, Any] = {
        key: " or ".join(dict.fromkeys(str(one[key]) for one in kinds if key in one))
        for key in keys
    }
    dates = sorted(date for one in kinds for date in one.get("dates", ()))
    known = {"dates": [dates[0], dates[-1]]} if dates else {}
    return own | {"adopted": True, "machine": machine | known}
