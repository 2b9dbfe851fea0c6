"""What a study writes: rows as CSV, statistics as JSON, figures."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ktae.runs import write_json
from ktae_lab.csv_files import write_csv
from ktae_lab.study import figures
from ktae_lab.study.cells import Cell, recipe_digests
from ktae_lab.study.collect import Run, collect, curve_rows, last_line, run_rows
from ktae_lab.study.contrasts import Compared, as_json, compare
from ktae_lab.study.folder import State, StudyFolder
from ktae_lab.study.matrix import Matrix
from ktae_lab.study.provenance import commit, machine


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
    """Read all runs, and write `runs.csv`, `curves.csv.gz`, `trained_by.json`, `results.json` and
    `figures/`.

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
    compared = compare(matrix, runs, announced, recipe_digests(cells))
    write_csv(folder.runs_csv, run_rows(runs))
    write_csv(folder.curves_csv, curve_rows(runs, matrix.all_outcomes))
    write_json(folder.trained_by, _trained_by(runs))
    write_json(folder.results, _content(matrix, runs, compared))
    pictures = figures.draw(matrix, runs, compared, folder.figures)
    folder.remove_figures_but(pictures)
    return Results(runs, compared, pictures)


def count(runs: Sequence[Run]) -> dict[str, int]:
    """How many runs there are, what became of them, and how many did not get there at once."""
    counts = Counter(run.state for run in runs)
    return {
        "planned": len(runs),
        **{state.value: counts[state] for state in State},
        "failed before, run again": sum((run.failures_before or 0) > 0 for run in runs),
        "interrupted, resumed": sum(run.was_interrupted for run in runs),
        "begun again, why not recorded": sum(run.failures_before is None for run in runs),
    }


def _content(matrix: Matrix, runs: Sequence[Run], compared: Sequence[Compared]) -> dict[str, Any]:
    """What can be made again of the other files, and of the code and machine that made it."""
    return {
        "study": matrix.name,
        "runs": count(runs),
        "failures": [
            # The last line alone: the others, in the run's record, name places on this machine.
            {"run": run.cell.name, "error": last_line(run.record)}
            for run in runs
            if run.state is State.FAILED
        ],
        "comparisons": [as_json(one) for one in compared],
        "summarised_by": {"commit": commit(), **machine()},
        "matrix": matrix.model_dump(mode="json"),
    }


def _trained_by(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Commits and machines of the processes that trained, one entry for each kind."""
    return _distinct(
        {"commit": run.record.get("commit"), **run.record.get("machine", {})}
        for run in runs
        if run.state is State.FINISHED
    )


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
