"""`ktae compare`: is one model better than another, on the same problems, and in fewer tokens?"""

from __future__ import annotations

from pathlib import Path

from ktae.cli.printing import Screen
from ktae.cli.reading import OutputOptions, note_reading
from ktae.errors import InputError


def run(
    saved: OutputOptions, models: list[Path], as_json: bool = False, workers: int | None = None
) -> None:
    """Compare models on the same problems: exact paired tests of accuracy and of length."""
    from ktae.cli.eval import graded_by, print_warning
    from ktae.experiments import comparison
    from ktae.experiments.benchmarks import title
    from ktae.experiments.scores import score
    from ktae.rollouts.notes import Notes

    if len(models) < 2:
        raise InputError(f"only {models[0]} is given; expected two or more models to compare")
    screen, notes, names = Screen(as_json), Notes(strict=True), comparison.names_of(models)
    outputs = saved.read(models, notes)
    note_reading(notes)
    grader, graded = comparison.graded_alike(
        models, outputs, lambda side, grader: graded_by(screen, side, grader, workers)
    )
    sides = dict(zip(names, graded, strict=True))
    rows = comparison.paired_tests(sides, partial=saved.partial)
    cells = []  # accuracies in percent, lengths in tokens
    for row in rows:
        is_accuracy = row.measure == "accuracy"
        scale, digits = (100, 1) if is_accuracy else (1, 0 if row.mean_a >= 100 else 1)
        a, b = (f"{scale * x:,.{digits}f}" for x in (row.mean_a, row.mean_b))
        difference, low, high = (f"{scale * x:+z,.{digits}f}" for x in row.difference)
        numbers = (f"{row.problems:,}", a, b, difference, f"{low} to {high}")
        name = title(row.name) + ("" if is_accuracy else ", tokens")
        cells.append((name, *numbers, f"{row.up}/{row.down}", f"{row.corrected:.2g}"))
    for name in names[1:]:
        columns = ("n", "A", "B", "B - A", "95 %", "up/down", "p, Holm")
        of_name = [x for x, row in zip(cells, rows, strict=True) if row.b == name]
        screen.table(f"A: {names[0]}   B: {name}", columns, of_name)
    for path, side in zip(models, graded, strict=True):
        print_warning(screen, side, grader, str(path))
    for (name, *_), row in zip(cells, rows, strict=True):
        model = f"{row.b}, " if len(models) > 2 else ""
        screen.print(f"{model}{name}: {comparison.in_words(row)}")
    if rows[-1].measure == "accuracy":
        screen.print("lengths: the files do not hold all tokens; --tokenizer counts them")
    if saved.pool_models:
        screen.print("the tests are over problems: they do not say what other seeds would give")
    content = {
        "files": models,
        "models": {name: score(side) for name, side in sides.items()},
        "comparisons": [row._asdict() | {"shown": row.shown} for row in rows],
        "notes": notes.listed(),
    }
    screen.end(content)
