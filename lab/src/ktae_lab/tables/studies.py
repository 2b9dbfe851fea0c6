"""The committed studies, each file read once."""

import functools
from pathlib import Path

from ktae_lab.csv_files import read_csv
from ktae_lab.study import matrix as matrices
from ktae_lab.study.announced import Announced
from ktae_lab.study.collect import Run
from ktae_lab.study.contrasts import Compared, compare
from ktae_lab.study.folder import State, StudyFolder
from ktae_lab.study.matrix import Matrix
from ktae_lab.study.stored import read_runs
from ktae_lab.tables import page

MATRICES = page.LAB / "matrices"


def names() -> list[str]:
    """The names of the studies that have results."""
    return sorted(path.parent.name for path in page.RESULTS.glob("*/announced.json"))


def under_way() -> list[Announced]:
    """What the studies announced that have begun and are not finished."""
    folders = sorted(path.parent for path in page.RESULTS.glob("under-way/*/announced.json"))
    return [StudyFolder(folder).announcement() for folder in folders]


def folder_of(study: str) -> StudyFolder:
    """The folder of its results."""
    return StudyFolder(page.RESULTS / study)


def matrix_of(study: str) -> Matrix:
    """The matrix as it is now."""
    return _matrix(MATRICES / f"{study}.yaml")


def runs_of(study: str) -> list[Run]:
    """All of the matrix, without their curves."""
    return _runs(page.RESULTS / study, MATRICES / f"{study}.yaml")


def compared_of(study: str) -> list[Compared]:
    """All of its comparisons."""
    return _compared(page.RESULTS / study, MATRICES / f"{study}.yaml")


def finished(study: str) -> list[dict[str, str]]:
    """The rows of `runs.csv` of the runs that have finished."""
    rows = read_csv(folder_of(study).runs_csv)
    return [row for row in rows if row["state"] == State.FINISHED.value]


@functools.cache
def _matrix(path: Path) -> Matrix:
    return matrices.load(path)


@functools.cache
def _runs(folder: Path, matrix: Path) -> list[Run]:
    return read_runs(_matrix(matrix), StudyFolder(folder))


@functools.cache
def _compared(folder: Path, matrix: Path) -> list[Compared]:
    announced = StudyFolder(folder).announcement()
    return compare(_matrix(matrix), _runs(folder, matrix), announced, recipes=None)
