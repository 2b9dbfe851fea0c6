"""`ktae compare`: is one model better than another, on the same problems, and in fewer tokens?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ktae.cli import options
from ktae.cli.printing import AsJson, Screen
from ktae.cli.reading import Saved
from ktae.errors import InputError
from ktae.files import plots
from ktae.files.text import short_names

if TYPE_CHECKING:
    from ktae.evaluation.comparison import Comparison


@options.spread
def compare(
    saved: Saved,
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="A B...",
            help="Each model's outputs: a folder of ktae eval, a folder of such (its seeds), or a "
            "file. All are compared with the first.",
        ),
    ],
    output: options.JsonFile = None,
    plot: options.Plot = None,
    as_json: AsJson = False,
    workers: options.Workers = None,
) -> None:
    """Compare models on the same problems: exact paired tests of accuracy and of length."""
    from ktae.cli.eval import graded_by
    from ktae.cli.eval_tables import (
        ACCURACY,
        LENGTH,
        accuracy_rows,
        length_rows,
        print_unanswered,
    )
    from ktae.evaluation import comparison
    from ktae.evaluation.benchmarks import title
    from ktae.evaluation.scores import score
    from ktae.rollouts.files import without_format
    from ktae.rollouts.notes import Notes

    if len(models) < 2:
        raise InputError(f"only {models[0]} is given; expected two or more models to compare")
    options.require_outputs(models, ("--output", output, ()), ("--plot", plot, plots.KINDS))
    screen, notes = Screen(as_json), Notes(strict=True)
    grader, sides = comparison.graded_alike(
        models,
        saved.read(models, notes),
        lambda side, grader: graded_by(screen, side, grader, workers),
    )
    # Models have dots in their names, and files an ending; two may be the same one.
    files = [path.resolve() for path in models]
    names = short_names([x if x.is_dir() else x.with_name(without_format(x.name)) for x in files])
    if len(set(names)) < len(names):
        names = [f"{name} ({i})" for i, name in enumerate(names, start=1)]
    # The tests are over problems, paired, and corrected for the number of benchmarks and models.
    rows = comparison.paired_tests(*sides, partial=saved.partial, names=[*map(str, models)])
    scores = {name: score(side) for name, side in zip(names, sides, strict=True)}
    if len(models) > 2:
        # The paper's tables 1 and 2: a row for each model, which all have the same benchmarks.
        columns = [*(title(x.benchmark) for x in scores[names[0]].scores), "mean"]
        tables = {ACCURACY: [row for x in scores for row in accuracy_rows(x, scores[x])]}
        if any(x.mean_length for x in scores.values()):
            tables[LENGTH] = [row for x in scores for row in length_rows(x, scores[x])]
        for heading, of_models in tables.items():
            screen.table(heading, columns, of_models)
    for number, name in enumerate(names[1:]):
        _print(screen, names[0], name, [row for row in rows if row.model == number])
    for path, side in zip(models, sides, strict=True):
        print_unanswered(screen, side, grader, str(path))
    for row in rows:
        b = names[1 + row.model]
        which = f"{b}, {_title(row)}" if len(models) > 2 else _title(row)
        screen.print(f"{which}: {comparison.in_words(row, names[0], b)}")
    if rows[-1].measure == "accuracy":
        screen.print("lengths: the files do not hold all tokens; --tokenizer counts them")
    if saved.pool_models:
        screen.print("the tests are over problems: they do not say what other seeds would give")
    if plot is not None:
        _plot(plot, [row for row in rows if row.measure == "accuracy"], names)
        screen.print(f"wrote {plot}")
    shown = [
        {"a": names[0], "b": names[1 + row.model]} | row._asdict() | {"shown": row.shown}
        for row in rows
    ]
    content = {"files": models, "models": scores, "comparisons": shown, "notes": notes.listed()}
    screen.end(content, output)


def _print(screen: Screen, a: str, b: str, comparisons: Sequence[Comparison]) -> None:
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
    screen.table(f"A: {a}   B: {b}", columns, rows)


def _title(row: Comparison) -> str:
    from ktae.evaluation.benchmarks import title

    return f"{title(row.name)}{'' if row.measure == 'accuracy' else ', tokens'}"


def _plot(path: Path, comparisons: Sequence[Comparison], names: Sequence[str]) -> None:
    from ktae.evaluation.comparison import POOLED

    several = len(names) > 2
    labels, marks = [], []
    for y, row in enumerate(comparisons):
        before = f"{names[1 + row.model]}, " if several else ""
        labels.append(f"{before}{_title(row)} (n = {row.problems})")
        colour, shape = "#08519c" if row.shown else "#737373", "D" if row.name == POOLED else "s"
        marks.append(plots.Mark(y, [100 * x for x in row.difference], colour, shape))
    b = "each model" if several else names[1]
    figure = plots.forest(
        labels,
        marks,
        line=0,
        xlabel=f"accuracy of {b} minus that of {names[0]}, points, 95 % interval",
        title="blue: a difference is shown at the 5 % level (Holm)",
    )
    plots.save(figure, path)
