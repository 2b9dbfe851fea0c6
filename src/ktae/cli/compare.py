"""`ktae compare`: is one model better than the other, on the same problems?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ktae.cli import options
from ktae.cli.printing import AsJson, Screen
from ktae.errors import InputError
from ktae.files import plots
from ktae.rollouts.options import MAX_RESPONSE

if TYPE_CHECKING:
    from ktae.evaluation.outputs import Output


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
    output: options.JsonFile = None,
    plot: options.Plot = None,
    as_json: AsJson = False,
    field: options.Fields = None,
    correctness: options.Correctness = None,
    pool_models: options.PoolModels = None,
    max_response: options.MaxResponse = MAX_RESPONSE,
    time_limit: options.TimeLimit = 5.0,
    workers: options.Workers = None,
) -> None:
    """Compare two models on the same problems: exact paired tests, with 95 % intervals."""
    from ktae.cli.eval import grade_outputs, read_saved
    from ktae.cli.eval_tables import print_unanswered
    from ktae.evaluation import comparison
    from ktae.grading import GradingPool
    from ktae.rollouts.files import without_format

    how = options.read_options(field, None, None, correctness, pool_models, max_response)
    options.require_outputs((a, b), ("--plot", plot), ("--output", output))
    screen = Screen(as_json)
    sides = [read_saved(path, how, partial=partial) for path in (a, b)]
    graders = _require_one_grader((a, b), sides)
    with GradingPool(workers, time_limit=time_limit) as pool:
        graded = [(side, grade_outputs(screen, pool, side)) for side in sides]
    # The tests are over problems, paired, and corrected for the number of benchmarks.
    comparisons = comparison.compare(*graded, partial=partial)
    rows = [
        (
            comparison.title(row.name),
            f"{row.problems:,}",
            f"{100 * row.accuracy_a:.1f}",
            f"{100 * row.accuracy_b:.1f}",
            f"{100 * row.difference.value:+.1f}",
            f"{100 * row.difference.low:+.1f} to {100 * row.difference.high:+.1f}",
            f"{row.better}/{row.worse}",
            f"{row.p_value:.2g}",
            f"{row.corrected:.2g}",
        )
        for row in comparisons
    ]
    columns = ("n", "A", "B", "B - A", "95 %", "up/down", "p", "Holm")
    screen.table(f"A: {a}   B: {b}", columns, rows)
    for path, (side, verdicts) in zip((a, b), graded, strict=True):
        print_unanswered(screen, side, verdicts, graders, str(path))
    # Two folders may have one name; then sentences call them A and B, as the table does.
    names = [os.path.basename(os.path.abspath(path)) for path in (a, b)]
    names = [
        name if path.is_dir() else without_format(name)  # models have dots in their names
        for name, path in zip(names, (a, b), strict=True)
    ]
    name_a, name_b = names if names[0] != names[1] else ("A", "B")
    for row in comparisons:
        words = comparison.in_words(row, name_a, name_b)
        screen.print(f"{comparison.title(row.name)}: {words}")
    if plot is not None:
        figure = plots.forest(
            [f"{comparison.title(row.name)} (n = {row.problems})" for row in comparisons],
            [
                plots.Mark(
                    y,
                    [100 * x for x in row.difference],
                    "#08519c" if row.shown else "#737373",
                    "D" if row.name == comparison.POOLED else "s",
                )
                for y, row in enumerate(comparisons)
            ],
            line=0,
            xlabel=f"accuracy of {name_b} minus that of {name_a}, points, 95 % interval",
            title="blue: a difference is shown at the 5 % level (Holm)",
        )
        plots.save(figure, plot)
        screen.print(f"wrote {plot}")
    shown = [row._asdict() | {"shown": row.shown} for row in comparisons]
    screen.end({"a": a, "b": b, "comparisons": shown}, output)


def _require_one_grader(paths: Sequence[Path], sides: Sequence[Sequence[Output]]) -> str:
    """Whose verdicts are compared.

    Raises:
        InputError: they are by several: a difference of graders would be taken for one of models.
    """
    from ktae.grading.graders import DEFAULT, GRADERS

    by_side = [
        {output.grader or "a grader that is not named" for output in side}
        if all(output.verdict is not None for output in side)
        else {DEFAULT}
        for side in sides
    ]
    names = sorted(set.union(*by_side))
    if len(names) == 1:
        return names[0]
    grader = next((name for name in names if name in GRADERS), DEFAULT)
    again = next(path for path, by in zip(paths, by_side, strict=True) if by != {grader})
    told = [
        f"{path} by {' and '.join(sorted(by))}" for path, by in zip(paths, by_side, strict=True)
    ]
    raise InputError(
        f"the verdicts are by different graders ({', '.join(told)}); grade one again: "
        f"ktae eval --regrade {again} --graders {grader} --output FOLDER"
    )
