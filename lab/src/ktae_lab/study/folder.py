"""What a study leaves on disk, and how a cell's state is told from it."""

from __future__ import annotations

import enum
import fcntl
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from ktae import recipe as recipes
from ktae.errors import InputError, reason
from ktae.files.atomic import make_folder
from ktae.runs import RunFolder, write_json
from ktae_lab.study.cells import Cell
from ktae_lab.study.contrasts import Announced
from ktae_lab.study.matrix import Matrix


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
    temperature, where it was measured; `runs.csv`, `comparisons.csv` and `differences.svg` what
    came out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / "runs"
        self.announced = path / "announced.json"
        self.runs_csv = path / "runs.csv"
        self.comparisons_csv = path / "comparisons.csv"
        self.validated_csv = path / "validated.csv"
        self.figure = path / "differences.svg"

    def open(self, matrix: Matrix, cells: Sequence[Cell], *, resume: bool) -> IO[str]:
        """Make or continue the study; the file returned is its lock, held until it is closed.

        Raises:
            InputError: the folder holds a study and `resume` is off, or the other way round; it is
                at work already; a run in it was made with other settings.
        """
        if resume:
            self.require_started(cells)
        elif self.announced.exists():
            raise InputError(
                f"{self.path} holds a study already; add --resume to continue it, or give another "
                "--output"
            )
        elif any(path not in (self.runs, self.runs / ".lock") for path in self.path.rglob("*")):
            raise InputError(f"{self.path} is no empty folder; give another --output")
        make_folder(self.runs, f"study folder {self.path}")
        lock = self._lock()
        if not self.announced.exists():
            write_json(self.announced, Announced.of(matrix, cells).model_dump(mode="json"))
        return lock

    def _lock(self) -> IO[str]:
        """The study's one lock. Runs inherit it: as long as one that a killed study left behind
        is at work, no one starts another in its folder."""
        path = self.runs / ".lock"
        try:
            file = path.open("a")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another `ktae-lab study` is at work in {self.path}, or a run that one left behind"
            ) from None
        except OSError as error:
            raise InputError(f"cannot lock {path}: {error.strerror}") from None
        return file

    def require_started(self, cells: Iterable[Cell]) -> None:
        """Raise an InputError unless a study is here, and its runs are of these cells' recipes."""
        if not self.announced.exists():
            raise InputError(
                f"{self.path} holds no study yet; "
                f"`ktae-lab study MATRIX --output {self.path}` starts one"
            )
        for cell in cells:
            run = self.run_folder(cell)
            there = recipes.load(run.recipe) if run.recipe.exists() else cell.recipe
            if changed := recipes.changes(there, cell.recipe):
                raise InputError(
                    f"the run in {run.path} was made with another recipe: {', '.join(changed)}. Go "
                    "back to the old matrix, remove that run, or give another --output"
                )

    def announcement(self) -> Announced:
        """What was announced before the first run."""
        try:
            return Announced.model_validate_json(self.announced.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read {self.announced}: {reason(error)}") from None

    def run_folder(self, cell: Cell) -> RunFolder:
        """The cell's."""
        return RunFolder(self.runs / cell.name)

    def beside(self, cell: Cell, suffix: str) -> Path:
        """The cell's `.log`, or `.json`: its record."""
        folder = self.runs / cell.name
        return folder.with_name(folder.name + suffix)

    def state(self, cell: Cell) -> State:
        """From the summary of its run, or else from its record."""
        run = self.run_folder(cell)
        if run.summary.exists():
            return State.FINISHED
        if self.record(cell).get("error"):
            return State.FAILED
        return State.UNFINISHED if run.path.exists() else State.NEW

    def record(self, cell: Cell) -> dict[str, Any]:
        """`seconds` of all its processes; of the last `commit`, `machine`, `error`, `killed`."""
        path = self.beside(cell, ".json")
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
