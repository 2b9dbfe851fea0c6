"""Models compared by what they have written: files in, paired tests out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from ktae.errors import InputError
from ktae.evaluation import comparison, outputs
from ktae.evaluation.outputs import Output
from ktae.grading import GradingPool, Task, Verdict
from ktae.grading.graders import DEFAULT as GRADER
from ktae.grading.graders import GRADERS
from ktae.rollouts.options import DEFAULT, ReadOptions


def compare(
    a: str | Path,
    *others: str | Path,
    options: ReadOptions = DEFAULT,
    partial: bool = False,
    workers: int | None = None,
) -> list[comparison.Comparison]:
    """Compare each other model with the first: exact paired tests of accuracy and of length.

    Args:
        a: a folder of `ktae eval`, whose verdicts are taken as they are, or a file or folder of
            outputs with reference answers, which are graded.
        others: one or more of these, on the same problems.
        options: how files are read.
        partial: compare on the problems that both have, instead of raising an error.
        workers: processes that grade; one a processor if None.

    Returns:
        For each model and benchmark the difference with its interval and p-value; then those of
        lengths, where all are known.

    Raises:
        InputError: a file cannot be read, two have different problems or answers, a problem lacks
            outputs, or the verdicts are of different graders.
    """
    paths = [Path(path) for path in (a, *others)]
    sides = [outputs.read(path, options) for path in paths]
    for path, side in zip(paths, sides, strict=True):
        if not partial:
            outputs.check_complete(side, str(path))
    require_one_grader(paths, sides)
    with GradingPool(workers) as pool:
        graded = [
            (side, verdicts_of(side, functools.partial(new_verdicts, pool))) for side in sides
        ]
    return comparison.compare(*graded, partial=partial)


def new_verdicts(pool: GradingPool, outputs: Sequence[Output]) -> Iterator[Verdict]:
    """Each output's verdict in the order of the outputs, as soon as it is there."""
    return pool.grade_all(Task(output.response, output.answers) for output in outputs)


def verdicts_of(
    outputs: Sequence[Output], grade: Callable[[Sequence[Output]], Iterable[Verdict]]
) -> list[Verdict]:
    """The file's own verdicts if it is a graded record, else those that `grade` gives."""
    stored = [output.verdict for output in outputs if output.verdict is not None]
    return stored if len(stored) == len(outputs) else list(grade(outputs))


def require_one_grader(paths: Sequence[Path], sides: Sequence[Sequence[Output]]) -> str:
    """Whose verdicts are compared.

    Raises:
        InputError: they are by several: a difference of graders would be taken for one of models.
    """
    by_side = [
        {output.grader or "a grader that is not named" for output in side}
        if all(output.verdict is not None for output in side)
        else {GRADER}
        for side in sides
    ]
    names = sorted(set.union(*by_side))
    if len(names) == 1:
        return names[0]
    grader = next((name for name in names if name in GRADERS), GRADER)
    again = next(path for path, by in zip(paths, by_side, strict=True) if by != {grader})
    told = [
        f"{path} by {' and '.join(sorted(by))}" for path, by in zip(paths, by_side, strict=True)
    ]
    raise InputError(
        f"the verdicts are by different graders ({', '.join(told)}); grade one again: "
        f"ktae eval --regrade {again} --graders {grader} --output FOLDER"
    )
