"""What a study leaves on disk, and how a cell's state is told from it."""

from __future__ import annotations

import contextlib
import enum
import fcntl
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ktae import recipe as recipes
from ktae.errors import InputError, one_line, reason
from ktae.files.atomic import make_folder, remove_unfinished, unfinished
from ktae.runs import RunFolder, write_json
from ktae_lab.csv_files import read_csv
from ktae_lab.study.announced import Announced
from ktae_lab.study.cells import KEYS, Cell, Place, digest, key_of
from ktae_lab.study.matrix import Matrix

FIGURES = ("curves-", "bars-", "differences")
"""How the names of a study's figures begin."""

VALIDATED = ("temperature", "accuracy", "accuracy_at_1", "greedy_accuracy")
"""Columns of `validated.csv` that outcomes may name, as `validated.accuracy`."""


class State(enum.Enum):
    """Of one cell."""

    NEW = "not started"
    FINISHED = "finished"
    UNFINISHED = "unfinished"
    """Started, and neither finished nor failed: stopped, or running in another process."""
    FAILED = "failed"


class StudyFolder:
    """Paths and files of one study.

    `runs/` one run folder a cell, with its log and its record beside it; `announced.json` the
    comparisons as they were before the first run; `validated.csv` accuracy at each model's best
    temperature, where it was measured; `runs.csv`, `curves.csv.gz` and
    `trained_by.json` what came out; `results.json` and `figures/` what is made of these.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / "runs"
        self.announced = path / "announced.json"
        self.runs_csv = path / "runs.csv"
        self.curves_csv = path / "curves.csv.gz"
        self.trained_by = path / "trained_by.json"
        self.validated_csv = path / "validated.csv"
        self.results = path / "results.json"
        self.figures = path / "figures"

    def open(
        self,
        matrix: Matrix,
        cells: Sequence[Cell],
        *,
        resume: bool,
        announced: Announced | None = None,
    ) -> IO[str]:
        """Make or continue the study; the file returned is its lock, held until it is closed.

        Args:
            matrix: what a new study announces.
            cells: all of it.
            resume: continue, rather than make.
            announced: what a new study announces in place of it, its runs having begun elsewhere.

        Raises:
            InputError: the folder holds a study and `resume` is off, or the other way round;
                another process runs it; a run in it was made with other settings; it has
                another announcement than `announced`.
        """
        if announced is not None and self.announced.exists() and self.announcement() != announced:
            raise InputError(
                f"{self.announced} is another announcement than that of the runs to take over; "
                "give another --output"
            )
        if resume:
            self.require_started(cells)
        elif self.announced.exists():
            raise InputError(
                f"{self.path} holds a study already; add --resume to continue it, or give another "
                "--output"
            )
        elif self.path.exists() and (self.path.is_file() or self._holds_anything()):
            raise InputError(f"{self.path} is no empty folder; give another --output")
        make_folder(self.runs, f"study folder {self.path}")
        lock = try_lock(self.runs / ".lock")
        if lock is None:
            raise InputError(f"another `ktae-lab study` runs in {self.path}")
        self._remove_leftovers(cells)
        if not self.announced.exists():
            announced = announced or Announced.of(matrix, cells)
            write_json(self.announced, announced.model_dump(mode="json"))
        return lock

    def _remove_leftovers(self, cells: Iterable[Place]) -> None:
        """Remove what a killed study was writing at that moment. What a killed run was writing,
        `ktae train --resume` removes: that run may still go on."""
        written = (self.announced, self.runs_csv, self.curves_csv, self.trained_by, self.results)
        records = (self.beside(cell, ".json") for cell in cells)
        found = [path for one in (*written, *records) for path in unfinished(one)]
        remove_unfinished([*found, *self.figures.glob(".*.svg.*")])

    def _holds_anything(self) -> bool:
        """But for what a start that failed or was killed at once leaves behind."""
        own = {self.runs, self.runs / ".lock", *unfinished(self.announced)}
        return any(path not in own for path in self.path.rglob("*"))

    def require_started(self, cells: Iterable[Cell]) -> None:
        """Raise an InputError unless a study is here, and its runs are of these cells' recipes."""
        if not self.announced.exists():
            raise InputError(
                f"{self.path} holds no study yet; "
                f"`ktae-lab study MATRIX --output {self.path}` starts one"
            )
        for cell in cells:
            self._require_same(cell)

    def announcement(self) -> Announced:
        """What was announced before the first run.

        Raises:
            InputError: it cannot be read.
        """
        try:
            return Announced.model_validate_json(self.announced.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {self.announced}: {reason(error)}") from None

    def validated(self) -> dict[tuple[str, ...], dict[str, float]]:
        """What `ktae-lab temperatures --best` measured, by `KEYS`; empty where it never ran.

        Raises:
            InputError: the file cannot be read.
        """
        rows = self.validated_rows()
        return {key_of(row): {name: float(row[name]) for name in VALIDATED} for row in rows}

    def validated_rows(self) -> list[dict[str, str]]:
        """The same as the file has it, with all columns.

        Raises:
            InputError: the file cannot be read.
        """
        if not self.validated_csv.exists():
            return []
        return read_csv(self.validated_csv, (*KEYS, *VALIDATED))

    def run_folder(self, cell: Place) -> RunFolder:
        """The cell's."""
        return RunFolder(self.runs / cell.path)

    def beside(self, cell: Place, suffix: str) -> Path:
        """The cell's `.log`, `.json` (its record) or `.lock`."""
        folder = self.runs / cell.path
        return folder.with_name(folder.name + suffix)

    def state(self, cell: Place) -> State:
        """From the summary of its run, and from its record where that is missing."""
        run = self.run_folder(cell)
        if run.summary.exists():
            return State.FINISHED
        if self.record(cell).get("error") is not None:
            return State.FAILED
        return State.UNFINISHED if run.path.exists() else State.NEW

    def record(self, cell: Place) -> dict[str, Any]:
        """Its processes: `attempts`, `failures` (see `failures_before`), `seconds`, `kills` (how
        often in a row it was stopped from outside), `error` (None: none), and of the last one
        `machine` and `commit`; `adopted`: the run was taken over from results elsewhere."""
        path = self.beside(cell, ".json")
        if not path.exists():
            return {}
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content

    def add_to_record(self, cell: Place, **content: Any) -> None:
        """Replace some of its entries."""
        write_json(self.beside(cell, ".json"), self.record(cell) | content)

    def start_afresh(self, cell: Place) -> None:
        """Remove what an earlier attempt left."""
        shutil.rmtree(self.run_folder(cell).path, ignore_errors=True)

    def require_no_loss(self, cells: Iterable[Place]) -> None:
        """Raise an InputError if the results here are of more finished runs than are here now.

        So it is in a clone: results are committed, runs are not.
        """
        written = self._finished_in_results()
        found = sum(self.state(cell) is State.FINISHED for cell in cells)
        if found < written:
            raise InputError(
                f"{self.runs_csv} is of {written} finished runs, and {self.runs} holds {found} of "
                "the matrix now: results were left as they are. Run the others (--resume, "
                "--retry-failed), give another --output, or write them with --overwrite-results"
            )

    def remove_figures_but(self, pictures: Iterable[Path]) -> None:
        """Remove what an earlier summary drew and this one did not."""
        drawn = set(pictures)
        for path in self.figures.glob("*.svg"):
            if path.name.startswith(FIGURES) and path not in drawn:
                path.unlink()

    def _finished_in_results(self) -> int:
        """Finished runs that `runs.csv` is of; 0: there is none."""
        if not self.runs_csv.exists():
            return 0
        try:
            rows = read_csv(self.runs_csv, ["state"])
        except InputError as error:
            raise InputError(
                f"cannot tell how many runs {self.runs_csv} is of ({one_line(error)}); "
                "remove it, or write over it with --overwrite-results"
            ) from None
        return sum(row["state"] == State.FINISHED.value for row in rows)

    def _require_same(self, cell: Cell) -> None:
        """Raise an InputError if the cell's run was made with other settings."""
        run = self.run_folder(cell)
        if not run.recipe.exists():
            return
        there = recipes.load(run.recipe)
        if digest(there) == cell.digest:
            return
        changed = recipes.changes(there, cell.recipe)
        raise InputError(
            f"the run in {run.path} was made with another recipe: {', '.join(changed)}. Go back to "
            "the old matrix, remove that run, or give another --output"
        )


def try_lock(path: Path) -> IO[str] | None:
    """The file, locked until every process that inherited it has ended; None: it is locked.

    Raises:
        InputError: it cannot be written, or its file system knows no locks.
    """
    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(path.open("a"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        except OSError as error:
            raise InputError(f"cannot lock {path}: {error.strerror}") from None
        stack.pop_all()  # it stays open
        return file


def failures_before(record: Mapping[str, Any]) -> int | None:
    """How often a run had failed when its last attempt began, from `StudyFolder.record`; None: it
    was begun again before this was recorded."""
    unrecorded = 0 if (record.get("attempts") or 0) <= 1 else None
    known: int | None = record.get("failures", unrecorded)
    return known
