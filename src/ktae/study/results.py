"""What a study writes: rows as CSV, statistics as JSON, figures."""

from __future__ import annotations

import csv
import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ktae.atomic import atomic_write
from ktae.runs import write_json
from ktae.study import figures
from ktae.study.announced import Announced
from ktae.study.cells import Cell
from ktae.study.collect import Run, collect, curve_rows, last_line, run_rows
from ktae.study.contrasts import Compared, as_json, compare
from ktae.study.folder import State, StudyFolder
from ktae.study.matrix import Matrix
from ktae.study.provenance import commit, machine


@dataclasses.dataclass(frozen=True)
class Results:
    """What was found, and where it was written."""

    runs: list[Run]
    compared: list[Compared]
    pictures: list[Path]

    def count(self, state: State) -> int:
        """Runs in that state."""
        return sum(run.state is state for run in self.runs)


def write(
    matrix: Matrix, cells: Sequence[Cell], folder: StudyFolder, *, overwrite: bool = False
) -> Results:
    """Read all runs, and write `runs.csv`, `curves.csv`, `results.json` and `figures/`.

    Raises:
        InputError: a run cannot be read, a file cannot be written, matplotlib is not installed;
            there is no study, or a run in it was made with another recipe, such as one that was
            edited while the study ran; or the results there are of more finished runs, and
            `overwrite` is off.
    """
    figures.require_libraries()  # before anything is written
    folder.require_started(cells)
    if not overwrite:
        folder.require_no_loss(cells)
    runs = collect(cells, folder, matrix.all_outcomes)
    announced = folder.announcement()
    compared = compare(matrix, runs, announced)
    write_csv(folder.runs_csv, run_rows(runs))
    write_csv(folder.curves_csv, curve_rows(runs))
    write_json(folder.results, _content(matrix, runs, compared, announced))
    pictures = figures.draw_all(matrix, runs, compared, folder.figures)
    folder.remove_figures_but(pictures)
    return Results(runs, compared, pictures)


def _content(
    matrix: Matrix, runs: Sequence[Run], compared: Sequence[Compared], announced: Announced
) -> dict[str, Any]:
    counts = Counter(run.state for run in runs)
    return {
        "study": matrix.name,
        "runs": {"planned": len(runs)}
        | {state.value: counts[state] for state in State}
        | {
            "failed before, run again": sum((run.failures_before or 0) > 0 for run in runs),
            "interrupted, resumed": sum(run.was_interrupted for run in runs),
            "begun again, why not recorded": sum(run.failures_before is None for run in runs),
        },
        "failures": [
            # The last line alone: the others, in the run's record, name places on this machine.
            {"run": run.cell.name, "error": last_line(run.record)}
            for run in runs
            if run.state is State.FAILED
        ],
        "comparisons": [as_json(one) for one in compared],
        "announced": announced.model_dump(mode="json"),
        # Of the processes that trained; more than one entry: the runs are of several kinds.
        "trained_by": _distinct(
            {"commit": run.record.get("commit"), **run.record.get("machine", {})}
            for run in runs
            if run.state is State.FINISHED
        ),
        "summarised_by": {"commit": commit(), **machine()},
        "matrix": matrix.model_dump(mode="json"),
    }


def _distinct(facts: Any) -> list[dict[str, Any]]:
    """Each kind once, with the number of runs; dates as first and last."""
    runs: Counter[tuple[tuple[str, Any], ...]] = Counter()
    dates: dict[tuple[tuple[str, Any], ...], list[str]] = {}
    for one in facts:
        kind = tuple(sorted((k, v) for k, v in one.items() if k not in ("date", "dates")))
        runs[kind] += 1
        dates.setdefault(kind, []).extend(one.get("dates") or [one.get("date", "")])
    return [
        dict(kind) | {"runs": n, "dates": [min(dates[kind]), max(dates[kind])]}
        for kind, n in runs.items()
    ]


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """One line a row, with the columns of the first; seven digits of a float."""
    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _shown(value) for key, value in row.items()} for row in rows)


def _shown(value: Any) -> Any:
    """Seven digits of a float: beyond, files differ by rounding alone."""
    return f"{value:.7g}" if isinstance(value, float) else value
