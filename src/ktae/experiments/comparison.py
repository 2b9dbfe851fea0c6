"""Is one model better than another, are its responses shorter? Paired tests over the same problems.

Each problem gives a difference of two accuracies, and one of two mean lengths where the tokens of
all responses are known. Accuracies with as many samples of a problem on both sides, and lengths,
are tested by `ktae.inference.sign_flip_p_value`. With one sample that is McNemar's exact test: only
problems on which the models disagree count. Where the numbers of samples differ on a problem, it is
`ktae.inference.pooled_p_value`, by random deals. Intervals are 95 % percentile bootstrap over
problems, paired. p-values are corrected for the number of comparisons by Holm's method, those of
accuracies and those of lengths each by themselves.
Outputs of several training steps are of several models: a file of one step is what is compared.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from ktae.errors import InputError
from ktae.experiments.benchmarks import UNNAMED
from ktae.experiments.outputs import Output, by_benchmark, by_model, by_problem, grade, read
from ktae.experiments.scores import lengths, rates
from ktae.files.text import short_names
from ktae.grading import GradingPool
from ktae.grading.graders import DEFAULT as GRADER
from ktae.grading.graders import GRADERS
from ktae.inference import (
    ALPHA,
    Interval,
    bootstrap_interval,
    bootstrap_means,
    holm,
    pooled_p_value,
    sign_flip_p_value,
)
from ktae.rollouts.files import without_format
from ktae.rollouts.options import DEFAULT, ReadOptions

POOLED = "pooled"


class Comparison(NamedTuple):
    """B against A on one set of problems."""

    a: str
    b: str
    """The models' names."""
    name: str
    """The benchmark's."""
    measure: Literal["accuracy", "length"]
    problems: int
    """With a decided sample in both; for lengths those that both have."""
    mean_a: float
    """Accuracy as a share, or tokens of a response."""
    mean_b: float
    difference: Interval
    """B minus A, in the same unit: .02 of accuracy is two points."""
    up: int
    """Problems on which B has more."""
    down: int
    p_value: float
    corrected: float = math.nan
    """`p_value` after Holm's correction for all comparisons of the measure made together."""

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
    sides = [read(path, options, partial=partial) for path in paths]
    with GradingPool(workers) as pool:
        _, graded = graded_alike(paths, sides, lambda side, grader: grade(pool, side))
    return paired_tests(dict(zip(names_of(paths), graded, strict=True)), partial=partial)


def names_of(paths: Sequence[Path]) -> list[str]:
    """What models are called: their folders or files, with as many parts as tell them apart."""
    # Models have dots in their names, and files an ending; a link is called as it is.
    files = [Path(os.path.abspath(path)) for path in paths]
    names = short_names([x if x.is_dir() else x.with_name(without_format(x.name)) for x in files])
    is_clear = len(set(names)) == len(names)
    return names if is_clear else [f"{name} ({i})" for i, name in enumerate(names, start=1)]


def graded_alike(
    paths: Sequence[Path],
    sides: Sequence[list[Output]],
    grade: Callable[[list[Output], str], list[Output]],
) -> tuple[str, list[list[Output]]]:
    """Whose verdicts are compared, and the sides with them: a graded record's own, else new ones.

    Raises:
        InputError: they are by several: a difference of graders would be taken for one of models.
    """
    graders = [{o.grader or GRADER for o in side} for side in sides]
    names = sorted(set.union(*graders))
    if len(names) > 1:
        grader = next((name for name in names if name in GRADERS), GRADER)
        again = next(x for x, by in zip(paths, graders, strict=True) if by != {grader})
        raise InputError(
            f"the verdicts are by different graders ({', '.join(names)}); grade one again: "
            f"ktae eval --regrade {again} --graders {grader} --output FOLDER"
        )
    graded = [
        side if all(output.verdict for output in side) else grade(side, GRADER) for side in sides
    ]
    return names[0], graded


def paired_tests(
    sides: Mapping[str, Sequence[Output]], *, partial: bool = False
) -> list[Comparison]:
    """Each other model against the first: for each benchmark, and for all problems together if
    there are several; first the accuracies, then the lengths where all outputs' are known.

    Args:
        sides: graded outputs by the models' names, two or more; the first is what the others are
            compared with.
        partial: compare on the problems that both have, instead of raising an error.

    Raises:
        InputError: two have different problems or different answers, or one has several models.
    """
    for name, side in sides.items():
        if len(models := by_model(side)) > 1:
            raise InputError(
                f"{name} holds outputs of {len(models)} models ({', '.join(map(str, models))}); "
                "expected one: --pool-models takes them as samples of one"
            )
        if len(steps := {output.step for output in side}) > 1:
            raise InputError(
                f"{name} holds outputs of {len(steps)} training steps, so of as many models; "
                "expected a file of one step"
            )
    rng = np.random.default_rng(0)  # the same intervals each time
    first, *others = sides
    comparisons = [
        comparison
        for other in others
        for comparison in _compare_two(first, other, sides, partial, rng)
    ]
    # Several benchmarks are several chances to be right by luck.
    corrected: dict[int, float] = {}
    for measure in ("accuracy", "length"):
        places = [i for i, c in enumerate(comparisons) if c.measure == measure]
        p_values = holm([comparisons[i].p_value for i in places])
        corrected |= dict(zip(places, p_values, strict=True))
    return [c._replace(corrected=corrected[i]) for i, c in enumerate(comparisons)]


def _compare_two(
    a: str,
    b: str,
    sides: Mapping[str, Sequence[Output]],
    partial: bool,
    rng: np.random.Generator,
) -> list[Comparison]:
    outputs_a, outputs_b = _named_as(sides[a], sides[b]), _named_as(sides[b], sides[a])
    in_a, in_b = by_problem(outputs_a), by_problem(outputs_b)
    _require_same_problems({a: in_a, b: in_b}, partial)
    # By benchmark its problems in both.
    sets = {
        name: [group for group in by_problem(of_benchmark) if group in in_b]
        for name, of_benchmark in by_benchmark(outputs_a).items()
    }
    sets = {name: groups for name, groups in sets.items() if groups}
    if len(sets) > 1:
        sets[POOLED] = [group for groups in sets.values() for group in groups]

    rates_a, rates_b = rates(in_a), rates(in_b)
    in_both = [x for groups in sets.values() for x in groups]
    counts = {x: (*rates_a[x], *rates_b[x]) for x in in_both if rates_a[x][1] and rates_b[x][1]}
    if not counts:
        raise InputError("no problem has a decided output in both: there is nothing to compare")
    values: dict[Literal["accuracy", "length"], dict[str, tuple[float, float]]] = {
        "accuracy": {x: (c_a / n_a, c_b / n_b) for x, (c_a, n_a, c_b, n_b) in counts.items()}
    }
    lengths_a, lengths_b = lengths(in_a), lengths(in_b)
    if lengths_a and lengths_b:
        values["length"] = {x: (lengths_a[x], lengths_b[x]) for x in in_both}
    comparisons = []
    for (measure, of_problem), (name, groups) in itertools.product(values.items(), sets.items()):
        known = [x for x in groups if x in of_problem]
        if not known:
            continue
        a_p, b_p = np.array([of_problem[x] for x in known]).T
        difference_p = (b_p - a_p).round(12)  # equal accuracies must differ by 0
        comparisons.append(
            Comparison(
                a=a,
                b=b,
                name=name,
                measure=measure,
                problems=len(known),
                mean_a=float(a_p.mean()),
                mean_b=float(b_p.mean()),
                difference=bootstrap_interval(difference_p, bootstrap_means(difference_p, rng)),
                up=int(np.sum(difference_p > 0)),
                down=int(np.sum(difference_p < 0)),
                p_value=_p_value([counts[x] for x in known])
                if measure == "accuracy"
                else sign_flip_p_value(difference_p),
            )
        )
    return comparisons


def in_words(comparison: Comparison) -> str:
    """What may be said, in one sentence."""
    is_accuracy = comparison.measure == "accuracy"
    scale, unit = (100, "points") if is_accuracy else (1, "tokens")
    difference, low, high = (scale * x for x in comparison.difference)
    p = f"corrected p = {comparison.corrected:.2g}"
    between = f"95 % interval {low:+z.1f} to {high:+z.1f} {unit}"
    if not comparison.shown:
        return (
            f"no difference can be shown with {comparison.problems} problems "
            f"({difference:+z.1f} {unit} seen, {between}, {p})"
        )
    less, more = (comparison.a, comparison.b) if difference > 0 else (comparison.b, comparison.a)
    claim = f"{more} is better than {less}" if is_accuracy else f"{less} is shorter than {more}"
    return f"{claim} by {abs(difference):.1f} {unit} ({between}, {p})"


def _named_as(outputs: Sequence[Output], other: Sequence[Output]) -> Sequence[Output]:
    """Outputs that name no benchmark under the one that the other side names.

    The answers show whether that is true.
    """
    names = {output.benchmark for output in other}
    if len(names) > 1 or any(output.benchmark != UNNAMED for output in outputs):
        return outputs
    return [output._replace(benchmark=min(names)) for output in outputs]


def _require_same_problems(
    sides: Mapping[str, Mapping[str, Sequence[Output]]], partial: bool
) -> None:
    (name_a, a), (name_b, b) = sides.items()
    common = [group for group in a if group in b]
    missing = a.keys() ^ b.keys()
    if not common:
        raise InputError(
            f"{name_a} and {name_b} have no problem in common, such as {min(a)!r:.60} and "
            f"{min(b)!r:.60}; expected the same benchmarks and groups, or prompts and steps"
        )
    if missing and not partial:
        raise InputError(
            f"{len(missing)} problems are in one of {name_a} and {name_b} only, such as "
            f"{min(missing):.60}; --partial compares on the others"
        )
    for group in common:
        of_a, of_b = (sorted({*side[group][0].answers}) for side in (a, b))
        if of_a != of_b:
            raise InputError(
                f"problem {group:.60} has the answers {of_a!r:.60} in {name_a} and {of_b!r:.60} in "
                f"{name_b}; expected the same problems"
            )


def _p_value(counts: Sequence[tuple[int, int, int, int]]) -> float:
    """Two-sided; of each problem the correct and the decided of A, then of B."""
    # Shares of 16 samples and of 1 vary differently: their signs must not be flipped.
    if any(n_a != n_b for _, n_a, _, n_b in counts):
        return pooled_p_value(counts)
    # As integers, so that the exact test sees equal sums as equal: .1 + .2 is not .3 in floats.
    common = math.lcm(*(n for _, n, _, _ in counts))
    integers = [(b - a) * (common // n) for a, n, b, _ in counts]
    divisor = math.gcd(*integers) or 1
    return sign_flip_p_value([d // divisor for d in integers])
