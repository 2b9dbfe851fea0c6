"""`ktae compare`: is one model better than the other, on the same problems?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ktae.cli.eval_options import TimeLimit, Workers
from ktae.cli.options import (
    Correctness,
    Fields,
    JsonFile,
    MaxResponse,
    PoolModelsOfSaved,
    require_outputs,
    require_picture,
)
from ktae.cli.printing import AsJson, Screen
from ktae.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from ktae.evaluation.comparison import Comparison


def compare(
    a: Annotated[
        Path,
        typer.Argument(
            metavar="A", help="The first model's outputs: a folder of ktae eval, or a file of them."
        ),
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="The second model's outputs.")],
    partial: Annotated[
        bool,
        typer.Option(
            "--partial",
            help="Compare on the problems that both have, where each lacks some of the other's.",
        ),
    ] = False,
    correctness: Correctness = None,
    field: Fields = None,
    pool_models: PoolModelsOfSaved = False,
    max_response: MaxResponse = None,
    time_limit: TimeLimit = 5.0,
    workers: Workers = None,
    output: JsonFile = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw a forest plot into this .png or .svg file."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two models on the same problems: exact paired tests, with 95 % intervals."""
    from ktae.cli.eval import grade_outputs, graders_of, read_saved
    from ktae.cli.eval_tables import print_unanswered
    from ktae.evaluation import comparison, forest, outputs
    from ktae.grading import GradingPool

    require_outputs((a, b), ("--plot", plot), ("--output", output))
    require_picture("--plot", plot)
    screen = Screen(as_json)
    console = screen.console
    sides = [
        read_saved(path, correctness, field, pool_models, max_response, partial) for path in (a, b)
    ]
    if not partial:
        for path, side in zip((a, b), sides, strict=True):
            outputs.check_complete(side, str(path))
    graders = [graders_of(side) for side in sides]
    _require_one_grader((a, b), graders)
    with GradingPool(workers, time_limit=time_limit) as pool:
        graded = [(side, grade_outputs(screen.progress, pool, side)) for side in sides]
    found = comparison.compare(*graded, partial=partial)
    name_a, name_b = map(_name, (a, b))
    if name_a == name_b:
        name_a, name_b = "A", "B"
    console.print(_table(f"A: {a}   B: {b}", found))
    for path, (side, verdicts), by in zip((a, b), graded, graders, strict=True):
        print_unanswered(console, side, verdicts, " and ".join(sorted(by)), str(path))
    for row in found:
        words = comparison.in_words(row, name_a, name_b)
        console.print(f"{comparison.title(row.name)}: {words}", soft_wrap=True)
    if plot is not None:
        forest.draw(found, plot, name_a=name_a, name_b=name_b)
        console.print(f"wrote {plot}", soft_wrap=True)
    screen.end(
        {"a": a, "b": b, "comparisons": [row._asdict() | {"shown": row.shown} for row in found]},
        output,
    )


def _table(title: str, found: Sequence[Comparison]) -> Table:
    from ktae.cli.tables import make_table
    from ktae.evaluation import comparison

    columns = ("n", "A", "B", "B - A", "95 %", "up/down", "p", "Holm")
    table = make_table(title, columns)
    for row in found:
        difference, low, high = (100 * x for x in row.difference)
        table.add_row(
            comparison.title(row.name),
            f"{row.problems:,}",
            f"{100 * row.accuracy_a:.1f}",
            f"{100 * row.accuracy_b:.1f}",
            f"{difference:+.1f}",
            f"{low:+.1f} to {high:+.1f}",
            f"{row.better}/{row.worse}",
            f"{row.p_value:.2g}",
            f"{row.corrected:.2g}",
        )
    return table


def _require_one_grader(paths: Sequence[Path], graders: Sequence[set[str]]) -> None:
    """A difference of graders would be taken for one of models."""
    from ktae.grading.graders import DEFAULT, GRADERS

    found = sorted(set.union(*graders))
    if len(found) == 1:
        return
    grader = next((name for name in found if name in GRADERS), DEFAULT)
    again = next(path for path, by in zip(paths, graders, strict=True) if by != {grader})
    of_a, of_b = (
        f"those of {path} by {' and '.join(sorted(by))}"
        for path, by in zip(paths, graders, strict=True)
    )
    raise InputError(
        f"the verdicts are by different graders: {of_a}, {of_b}; grade one again: "
        f"ktae eval --regrade {again} --graders {grader} --output FOLDER"
    )


def _name(path: Path) -> str:
    """What a folder or a file of outputs is called: models have dots in their names."""
    from ktae.rollouts.files import without_format

    name = os.path.basename(os.path.abspath(path))
    return name if path.is_dir() else without_format(name)
