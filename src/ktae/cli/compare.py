"""`ktae compare`: is one model better than another, on the same problems, and in fewer tokens?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ktae.cli import options
from ktae.cli.printing import AsJson, Screen
from ktae.cli.reading import Saved, note_reading
from ktae.errors import InputError
from ktae.files import plots

if TYPE_CHECKING:
    from ktae.experiments.comparison import Comparison


@options.spread
def compare(
    saved: Saved,
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="A B...",
            help="Each model's outputs: a folder of ktae eval, a folder of such folders "
            "(its seeds), or a file. All are compared with the first.",
        ),
    ],
    output: options.JsonFile = None,
    plot: options.Plot = None,
    as_json: AsJson = False,
    workers: options.Workers = None,
) -> None:
    """Compare models on the same problems: exact paired tests of accuracy and of length."""
    from ktae.cli import eval_tables as tables
    from ktae.cli.eval import graded_by
    from ktae.experiments import comparison
    from ktae.experiments.scores import score
    from ktae.rollouts.notes import Notes

    if len(models) < 2:
        raise InputError(f"only {models[0]} is given; expected two or more models to compare")
    for name in ("threshold", "correctness"):
        if getattr(saved, name) is not None:
            raise InputError(f"--{name} has no effect: outputs are graded, or were by ktae eval")
    options.require_outputs(models, ("--output", output, ()), ("--plot", plot, plots.KINDS))
    screen, notes, names = Screen(as_json), Notes(strict=True), comparison.names_of(models)
    outputs = saved.read(models, notes)
    note_reading(notes)
    grader, graded = comparison.graded_alike(
        models, outputs, lambda side, grader: graded_by(screen, side, grader, workers)
    )
    sides = dict(zip(names, graded, strict=True))
    rows = comparison.paired_tests(sides, partial=saved.partial)
    scores = {name: score(side) for name, side in sides.items()}
    if len(models) > 2:  # the paper's tables 1 and 2
        tables.print_side_by_side(screen, scores)
    for name in names[1:]:
        _print(screen, [row for row in rows if row.b == name])
    for path, side in zip(models, graded, strict=True):
        tables.print_warnings(screen, side, grader, str(path))
    for row in rows:
        screen.print(f"{_title(row, len(models) > 2)}: {comparison.in_words(row)}")
    if rows[-1].measure == "accuracy":
        screen.print("lengths: the files do not hold all tokens; --tokenizer counts them")
    if saved.pool_models:
        screen.print("the tests are over problems: they do not say what other seeds would give")
    if plot is not None:
        _plot(plot, [row for row in rows if row.measure == "accuracy"], len(models) > 2)
        screen.print(f"wrote {plot}")
    shown = [row._asdict() | {"shown": row.shown} for row in rows]
    content = {"files": models, "models": scores, "comparisons": shown, "notes": notes.listed()}
    screen.end(content, output)


def _print(screen: Screen, comparisons: Sequence[Comparison]) -> None:
    """Accuracies in percent, then lengths in tokens."""
    rows = []
    for row in comparisons:
        scale = 100 if row.measure == "accuracy" else 1
        digits = 0 if row.measure == "length" and row.mean_a >= 100 else 1
        means = [f"{scale * x:,.{digits}f}" for x in (row.mean_a, row.mean_b)]
        difference, low, high = (f"{scale * x:+z,.{digits}f}" for x in row.difference)
        numbers = (f"{row.problems:,}", *means, difference, f"{low} to {high}")
        rows.append((_title(row), *numbers, f"{row.up}/{row.down}", f"{row.corrected:.2g}"))
    columns = ("n", "A", "B", "B - A", "95 %", "up/down", "p, Holm")
    screen.table(f"A: {comparisons[0].a}   B: {comparisons[0].b}", columns, rows)


def _title(row: Comparison, with_model: bool = False) -> str:
    from ktae.experiments.benchmarks import title

    model = f"{row.b}, " if with_model else ""
    return f"{model}{title(row.name)}{'' if row.measure == 'accuracy' else ', tokens'}"


def _plot(path: Path, comparisons: Sequence[Comparison], several: bool) -> None:
    from ktae.experiments.comparison import POOLED

    labels, marks = [], []
    for y, row in enumerate(comparisons):
        labels.append(f"{_title(row, several)} (n = {row.problems})")
        colour, shape = "#08519c" if row.shown else "#737373", "D" if row.name == POOLED else "s"
        marks.append(plots.Mark(y, [100 * x for x in row.difference], colour, shape))
    first = comparisons[0]
    figure = plots.forest(
        labels,
        marks,
        line=0,
        xlabel=f"accuracy of {'each model' if several else first.b} minus that of {first.a}, "
        "points, 95 % interval",
        title="blue: a difference is shown at the 5 % level (Holm)",
    )
    plots.save(figure, path)
