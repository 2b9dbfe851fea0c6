"""What is made of the committed results: the tables in the pages, the CSV of all comparisons, and
the figures that the pages show."""

import os
from collections.abc import Iterator
from pathlib import Path

from ktae_lab.csv_files import csv_text
from ktae_lab.study import figures
from ktae_lab.study.stored import read_runs
from ktae_lab.tables import (
    alignment,
    base_alignment,
    benchmarks,
    by_temperature,
    comparisons,
    decisive,
    equal_accuracy,
    estimators,
    front_page,
    goal,
    held_out,
    page,
    paper,
    real_study,
    rivals,
    run_curves,
    runs,
    studies,
    support,
    timings,
)
from ktae_lab.tables.page import LAB, RESULTS, Number, Table, by_name, filled

PAGES = LAB / "pages"
DOCS = LAB.parent / "docs"
README = LAB.parent / "README.md"
COMPARISONS = RESULTS / "comparisons.csv"
_MODULES = (
    runs, comparisons, goal, run_curves, equal_accuracy, by_temperature, paper, alignment,
    base_alignment, front_page, benchmarks, held_out, timings, estimators,
    support, decisive, rivals, real_study,
)  # fmt: skip
TABLES: dict[str, Table] = by_name("TABLES", _MODULES)
"""By the names in the pages."""
NUMBERS: dict[str, Number] = by_name("NUMBERS", _MODULES)
"""In the sentences of pages, by name."""
FIGURES = {
    "main": ("curves-grpo", "curves-dapo", "differences", "bars-ablations"),
    "successor": ("curves-grpo", "differences"),
    "controls": ("curves-controls",),
    "rates": ("curves-rates",),
    "goal": ("curves-grpo", "curves-dapo"),
    "models": ("curves-models",),
    "models-dapo": ("curves-models-dapo",),
    "long": ("curves-long",),
}
"""By study: those that a page shows, of each task."""


def made() -> Iterator[tuple[Path, str]]:
    """Each page and the CSV of comparisons, with what should be in it.

    Raises:
        InputError: a result cannot be read, or a page has a marker that cannot be filled.
    """
    for path in (README, *sorted(DOCS.glob("*.md")), *sorted(PAGES.glob("*.md"))):
        where = os.path.relpath(path, page.LAB.parent)
        yield path, filled(path.read_text(encoding="utf-8"), where, TABLES, NUMBERS)
    yield COMPARISONS, csv_text(comparisons.every())


def stale() -> list[Path]:
    """The files that hold something else than what is made of the results."""
    return [
        path
        for path, content in made()
        if not path.exists() or path.read_text(encoding="utf-8") != content
    ]


def write() -> list[Path]:
    """Write what `stale` finds; returns those files."""
    written = []
    for path, content in made():
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")
            written.append(path)
    return written


def draw() -> Iterator[Path]:
    """Draw every figure that a page shows, and yield its file."""
    for study, names in FIGURES.items():
        folder, matrix = studies.folder_of(study), studies.matrix_of(study)
        found = read_runs(matrix, folder, with_curves=True)
        wanted = [f"{name}-{task}" for name in names for task in matrix.tasks]
        yield from figures.draw(matrix, found, studies.compared_of(study), folder.figures, wanted)
    for path, drawing in (
        (RESULTS / "align" / "figures" / "speeds.svg", alignment.draw),
        (RESULTS / "align" / "figures" / "sums-base0.svg", base_alignment.figure),
        (RESULTS / "decisive" / "figures" / "arms.svg", decisive.draw),
        (RESULTS / "rivals" / "figures" / "arms.svg", rivals.draw),
    ):
        path.parent.mkdir(exist_ok=True)
        drawing(path)
        yield path
