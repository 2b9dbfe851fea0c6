"""Is one model better than another, are its responses shorter? Paired tests over the same problems.

Each problem gives a difference of two accuracies, and one of two mean lengths if the tokens of all
responses are known. Accuracies with as many samples of a problem on both sides, and lengths, are
tested by `ktae.inference.sign_flip_p_value`: with one sample that is McNemar's exact test. If the
numbers of samples differ on a problem, the test is `ktae.inference.pooled_p_value`, by random
deals. Intervals are 95 % percentile bootstrap over problems, paired. p-values are corrected by
Holm's method for the number of comparisons, those of accuracies and of lengths separately.
Outputs of several training steps come from several models: compare files of one step.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ktae import inference
from ktae.errors import InputError
from ktae.experiments.outputs import grade, read
from ktae.experiments.scores import Problem, by_benchmark, problems_of
from ktae.files.text import short_names
from ktae.grading import GradingPool
from ktae.grading.graders import DEFAULT as GRADER
from ktae.inference import ALPHA, Interval
from ktae.rollouts.files import without_format
from ktae.rollouts.options import DEFAULT, ReadOptions

POOLED = "pooled"

Measure = Literal["accuracy", "length"]
Problems = Mapping[str, Problem]
Pairs = dict[str, tuple[Any, Any]]
"""What A and B have of each problem."""


class Comparison(NamedTuple):
    """B against A on one set of problems."""

    a: str
    b: str  # the models' names
    name: str  # the benchmark's
    measure: Measure
    problems: int  # with a decided sample on both sides; for lengths all that both have
    mean_a: float  # accuracy as a share, or tokens of a response
    mean_b: float
    difference: Interval  # B minus A, in the same unit: .02 of accuracy is two points
    up: int  # problems on which B has more
    down: int
    p_value: float
    flips: dict[str, tuple[float, float]]  # problems whose accuracies differ: those of A and B
    corrected: float = math.nan  # `p_value` by Holm's method, over all comparisons of the measure

    @property
    def shown(self) -> bool:
        """Whether a difference is shown at the 5 % level."""
        return self.corrected < ALPHA


def compare(
    a: str | Path,
    *others: str | Path,
    options: ReadOptions = DEFAULT,
    partial: bool = False,
    workers: int | None = None,
) -> list[Comparison]:
    """Compare each other model with the first: exact paired tests of accuracy and of length.

    Args:
        a: a folder of `ktae eval`, whose outcomes are taken as they are, or a file or folder of
            outputs with reference answers, which are graded.
        others: one or more of these, on the same problems.
        options: how files are read.
        partial: compare on the problems that both have, instead of raising an error.
        workers: processes that grade; None: one a processor.

    Returns:
        For each model and benchmark the difference in accuracy with its interval and p-value; then
        those in length, if all lengths are known.

    Raises:
        InputError: a file cannot be read, two have different problems or answers, a problem lacks
            outputs, or the outcomes are of different graders.
    """
    paths = [Path(path) for path in (a, *others)]
    sides = [read(path, options, partial=partial) for path in paths]
    with GradingPool(workers) as pool:
        _, graded = graded_alike(paths, sides, lambda side, grader: grade(pool, side))
    return paired_tests(dict(zip(names_of(paths), graded, strict=True)), partial=partial)


def names_of(paths: Sequence[Path]) -> list[str]:
    """Names of models: their folders or files, with as many parts as tell them apart."""
    # Models have dots in their names, and files an ending; links keep their own names.
    files = [Path(os.path.abspath(path)) for path in paths]
    names = short_names([x if x.is_dir() else x.with_name(without_format(x.name)) for x in files])
    is_clear = len(set(names)) == len(names)
    return names if is_clear else [f"{name} ({i})" for i, name in enumerate(names, start=1)]


def graded_alike(
    paths: Sequence[Path], sides: Sequence[Any], grade: Callable[[Any, str], Any]
) -> tuple[str, list[Any]]:
    """The grader whose outcomes are compared, and the sides with them: graded ones as they are,
    others graded now.

    Raises:
        InputError: there are several graders, whose differences would pass for those of models.
    """
    names = sorted({x or GRADER for side in sides for x in side["grader"].to_pylist()})
    if len(names) > 1:
        raise InputError(
            f"{' and '.join(map(str, paths))} are graded by {' and '.join(names)}; grade one "
            "again: ktae eval --regrade FILE --grader NAME --output FOLDER"
        )
    graded = [grade(side, GRADER) if side["outcome"].null_count else side for side in sides]
    return names[0], graded


def paired_tests(sides: Mapping[str, Any], *, partial: bool = False) -> list[Comparison]:
    """Compare each other model with the first: for each benchmark, and for all problems together
    if there are several; first the accuracies, then the lengths if all are known.

    Args:
        sides: graded outputs by the models' names, two or more; the first is the baseline.
        partial: compare on the problems that both have, instead of raising an error.

    Raises:
        InputError: two have different problems or different answers, or one has several steps.
    """
    for name, side in sides.items():
        if (steps := len(side["step"].unique())) > 1:
            raise InputError(f"{name} holds outputs of {steps} training steps; expected one")
    rng = np.random.default_rng(0)  # the same intervals each time
    (first, a), *others = ((name, problems_of(side)) for name, side in sides.items())
    rows: list[Comparison] = []
    for name, b in others:
        common, missing = a.keys() & b.keys(), a.keys() ^ b.keys()
        if not common or (missing and not partial):
            raise InputError(
                f"{first} and {name} have {len(common)} problems in common and {len(missing)} that "
                f"only one of them has, such as {min(missing):.60}; expected the same problems, by "
                "label or prompt; --partial compares on those in common"
            )
        for problem in sorted(common):
            of_a, of_b = (sorted({*side[problem].answers}) for side in (a, b))
            if of_a != of_b:
                raise InputError(
                    f"problem {problem:.60} has the answers {of_a!r:.60} in {first} and "
                    f"{of_b!r:.60} in {name}; expected the same problems"
                )
        rows += _compare_two((first, name), a, b, rng)
    # Several benchmarks are several chances to be right by luck.
    for measure in ("accuracy", "length"):
        places = [i for i, row in enumerate(rows) if row.measure == measure]
        corrected = inference.holm([rows[i].p_value for i in places])
        for i, p in zip(places, corrected, strict=True):
            rows[i] = rows[i]._replace(corrected=p)
    return rows


def _compare_two(
    names: tuple[str, str], a: Problems, b: Problems, rng: np.random.Generator
) -> Iterator[Comparison]:
    common = {name: problem for name, problem in a.items() if name in b}
    sets = {name: list(members) for name, members in by_benchmark(common).items()}
    if len(sets) > 1:
        sets[POOLED] = list(common)
    pairs = {x: (a[x].decided, b[x].decided) for x in common if a[x].decided and b[x].decided}
    if not pairs:
        raise InputError("no problem has a decided output in both: there is nothing to compare")
    accuracies: Pairs = {x: (float(np.mean(y)), float(np.mean(z))) for x, (y, z) in pairs.items()}
    lengths: Pairs = {x: (a[x].length, b[x].length) for x in common}
    if any(None in pair for pair in lengths.values()):
        lengths = {}
    measures: tuple[Measure, Measure] = ("accuracy", "length")
    for measure, (name, members) in itertools.product(measures, sets.items()):
        is_accuracy = measure == "accuracy"
        values = accuracies if is_accuracy else lengths
        if not (known := [x for x in members if x in values]):
            continue
        a_p, b_p = np.array([values[x] for x in known]).T
        difference_p = (b_p - a_p).round(12)  # equal accuracies must differ by 0
        if is_accuracy:
            of_known = [pairs[x] for x in known]
            p_value = inference.paired_p_value(
                [(int(sum(y)), len(y), int(sum(z)), len(z)) for y, z in of_known]
            )
        else:
            p_value = inference.sign_flip_p_value(difference_p)
        yield Comparison(
            *names,
            name=name,
            measure=measure,
            problems=len(known),
            mean_a=float(a_p.mean()),
            mean_b=float(b_p.mean()),
            difference=inference.bootstrap_interval(
                difference_p, inference.bootstrap_means(difference_p, rng)
            ),
            up=int(np.sum(difference_p > 0)),
            down=int(np.sum(difference_p < 0)),
            p_value=p_value,
            flips={x: values[x] for x in known if is_accuracy and values[x][0] != values[x][1]},
        )


def in_words(comparison: Comparison) -> str:
    """What may be concluded, in one sentence."""
    is_accuracy = comparison.measure == "accuracy"
    scale, unit = (100, "points") if is_accuracy else (1, "tokens")
    difference, low, high = (scale * x for x in comparison.difference)
    if comparison.shown and difference < 0:  # the sentence names the better one first
        difference, low, high = -difference, -high, -low
        less, more = comparison.b, comparison.a
    else:
        less, more = comparison.a, comparison.b
    p = f"corrected p = {comparison.corrected:.2g}"
    between = f"95 % interval {low:+z.1f} to {high:+z.1f} {unit}"
    if not comparison.shown:
        return (
            f"no difference can be shown with {comparison.problems} problems "
            f"({difference:+z.1f} {unit} seen, {between}, {p})"
        )
    claim = f"{more} is better than {less}" if is_accuracy else f"{less} is shorter than {more}"
    return f"{claim} by {difference:.1f} {unit} ({between}, {p})"
