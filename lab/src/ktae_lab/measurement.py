"""Measure the final models of a study once more, into a CSV file of the study's folder."""

import concurrent.futures
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from ktae.demo.model import one_thread
from ktae.errors import InputError, one_line
from ktae.evaluation.run import weights_digest
from ktae.recipe import Recipe
from ktae_lab.csv_files import read_csv, write_csv
from ktae_lab.study import cells as expansion
from ktae_lab.study import matrix as matrices
from ktae_lab.study.cells import KEYS, Cell, key_of
from ktae_lab.study.folder import State, StudyFolder
from ktae_lab.study.provenance import commit, machine

Scores = Mapping[str, float]
"""By column."""


class Measurement(NamedTuple):
    """What is measured of each model."""

    file: str
    """Within the study's folder."""
    size: dict[str, int]
    """Numbers of problems and samples, by column; a file holds rows of one size."""
    columns: tuple[str, ...]
    """Of the scores."""
    scores: Callable[[Any, Any, Recipe, Mapping[str, int]], Iterator[Scores]]
    """Model, tokenizer, recipe and size to the rows of one run. It goes to other processes."""

    @property
    def all_columns(self) -> tuple[str, ...]:
        """All columns of the file."""
        facts = ("model", *self.size, "sampling_seed", "commit", "cpu")
        return (*KEYS, *facts, *self.columns)


def measure_study(
    measurement: Measurement,
    matrix: Path,
    folder: StudyFolder,
    *,
    methods: Sequence[str] | None = None,
    jobs: int = 1,
) -> Iterator[str]:
    """Measure the final model of every finished run; yields lines that say how it goes.

    Rows that are there stay, so that a second call measures the runs that came since; where a run
    was trained again, and its weights are others (`model`), it is measured again. Samples are drawn
    with the run's seed.

    Args:
        measurement: what to measure.
        matrix: the study's file.
        folder: the study's, with its runs.
        methods: these only.
        jobs: processes at a time.

    Raises:
        InputError: there is no such study; the file there is of another size or of runs that the
            matrix does not have; a run could not be measured (the others' measurements are kept).
    """
    cells = expansion.expand(matrices.load(matrix), matrix)
    folder.require_started(cells)
    file = folder.path / measurement.file
    rows = _rows_there(file, cells, measurement)
    asked = expansion.of_methods(cells, methods) if methods is not None else cells
    finished = {
        cell.key: cell
        for cell in asked
        if folder.state(cell) is State.FINISHED and not folder.record(cell).get("adopted")
    }  # without those of another machine, whose models are not here
    models = {key: folder.run_folder(cell).model for key, cell in finished.items()}
    identities = {key: weights_digest(model) for key, model in models.items()}
    rows = [row for row in rows if identities.get(key_of(row), row["model"]) == row["model"]]
    due = finished.keys() - {key_of(row) for row in rows}
    made_by = {"commit": commit() or "", "cpu": machine()["cpu"]}
    places = {cell.key: i for i, cell in enumerate(cells)}
    with _executor(jobs) as pool:
        started = [
            pool.submit(
                _measure, measurement, cell, models[key], {"model": identities[key]} | made_by
            )
            for key, cell in finished.items()
            if key in due
        ]
        failed = 0
        for i, done in enumerate(concurrent.futures.as_completed(started), 1):
            if error := done.exception():  # the others' measurements are kept
                failed += 1
                yield f"failed: {error}"
                continue
            rows += done.result()
            write_csv(file, sorted(rows, key=lambda row: places[key_of(row)]))
            yield f"{i} of {len(due)} runs"
    yield f"{file}: {len(rows)} rows of {len({key_of(row) for row in rows})} runs"
    if failed:
        raise InputError(f"{failed} of {len(due)} runs could not be measured; call again for them")


def _executor(jobs: int) -> concurrent.futures.Executor:
    """So many processes; one alone is this one, which has loaded torch already."""
    if jobs == 1:
        return concurrent.futures.ThreadPoolExecutor(1)
    context = multiprocessing.get_context("spawn")
    return concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context)


def _measure(
    measurement: Measurement, cell: Cell, model: Path, facts: dict[str, str]
) -> list[dict[str, str]]:
    """`facts` are the model's identity, the commit and the CPU."""
    try:
        policy = AutoModelForCausalLM.from_pretrained(model, trust_remote_code=False)
        tokenizer = AutoTokenizer.from_pretrained(
            model, padding_side="left", trust_remote_code=False
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise InputError(f"cannot load {model}: {one_line(error)}") from None
    size = {name: str(n) for name, n in measurement.size.items()}
    run = dict(zip(KEYS, cell.key, strict=True)) | size | facts
    run["sampling_seed"] = str(cell.seed)
    with one_thread():
        rows = [
            run | {name: f"{value:.6g}" for name, value in scores.items()}
            for scores in measurement.scores(policy, tokenizer, cell.recipe, measurement.size)
        ]
    return [{column: row[column] for column in measurement.all_columns} for row in rows]


def _rows_there(file: Path, cells: list[Cell], measurement: Measurement) -> list[dict[str, str]]:
    """What an earlier call wrote.

    Raises:
        InputError: it has other columns, other numbers of problems or samples, or runs that the
            matrix does not have.
    """
    if not file.exists():
        return []
    rows = read_csv(file)
    planned = {cell.key for cell in cells}
    columns = measurement.all_columns
    for row in rows:
        if tuple(row) != columns:
            raise InputError(f"{file} has the columns {', '.join(row)}; expected {columns}")
        for name, number in measurement.size.items():
            if int(row[name]) != number:
                raise InputError(
                    f"{file} has runs with {row[name]} {name}, and --{name} is {number}; "
                    "give the same number, or move the file away"
                )
        if key_of(row) not in planned:
            raise InputError(
                f"{file} has the run {' '.join(key_of(row))}, which the matrix has not"
            )
    return rows
