"""Is one model better than another, are its responses shorter? Paired tests over the same problems.

Each problem gives a difference of two accuracies, and one of two mean lengths where the tokens of
all responses are known. Accuracies with as many samples of a problem on both sides, and lengths,
are tested by `ktae.inference.sign_flip_p_value`. With one sample that is McNemar's exact test: only
problems on which the models disagree count. Where the numbers of samples differ on a problem, it is
`ktae.inference.pooled_p_value`, by random deals. Intervals are 95 % percentile bootstrap over
problems, paired. p-values are corrected for the number of comparisons by Holm's method, those of
accuracies and those of lengths each by themselves.
A problem that comes at several training steps is one problem: its difference is the steps' mean.
There, where numbers of samples differ, the test is of the signs of these means, approximately.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from ktae.errors import InputError
from ktae.evaluation.benchmarks import BENCHMARKS
from ktae.evaluation.outputs import Output, by_benchmark, by_model
from ktae.evaluation.scores import lengths, rates
from ktae.files.text import printable
from ktae.grading import Verdict
from ktae.inference import (
    LEVEL,
    Interval,
    bootstrap_interval,
    bootstrap_means,
    holm,
    pooled_p_value,
    sign_flip_p_value,
)

POOLED = "pooled"
UNNAMED = "problems"
"""In the place of a benchmark, where neither file names one."""
CONTEXT = 20
"""Characters that are shown before the first difference of two prompts."""


class Comparison(NamedTuple):
    """B against A on one set of problems."""

    name: str
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
    model: int = 0
    """Which of several models B is."""

    @property
    def shown(self) -> bool:
        """Whether a difference is shown at the 5 % level."""
        return self.corrected < LEVEL


Graded = tuple[Sequence[Output], Sequence[Verdict]]
"""One model's outputs and their verdicts."""


def compare(a: Graded, *others: Graded, partial: bool = False) -> list[Comparison]:
    """Each other model against the first: for each benchmark, and for all problems together if
    there are several; first the accuracies, then the lengths where all outputs' are known.

    Args:
        a: what the others are compared with.
        others: one or more.
        partial: compare on the problems that both have, instead of raising an error.

    Raises:
        InputError: two have different problems, or different answers or, where a file names
            no problems, different prompts to the same problem; or one has several models.
    """
    for name, (side, _) in zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", (a, *others), strict=False):
        if len(models := by_model(side)) > 1:
            listed = ", ".join(str(model) for model in models)
            raise InputError(
                f"{name} holds outputs of {len(models)} models ({listed}); expected one: "
                "--pool-models takes them as samples of one"
            )
    rng = np.random.default_rng(0)  # the same intervals each time
    comparisons = [
        comparison._replace(model=model)
        for model, b in enumerate(others)
        for comparison in _compare_two(a, b, partial, rng)
    ]
    # Several benchmarks are several chances to be right by luck.
    corrected: dict[int, float] = {}
    for measure in ("accuracy", "length"):
        rows = [i for i, c in enumerate(comparisons) if c.measure == measure]
        p_values = holm([comparisons[i].p_value for i in rows])
        corrected |= dict(zip(rows, p_values, strict=True))
    return [c._replace(corrected=corrected[i]) for i, c in enumerate(comparisons)]


def _compare_two(a: Graded, b: Graded, partial: bool, rng: np.random.Generator) -> list[Comparison]:
    outputs_a, outputs_b = _under_one_name(a[0], b[0])
    outputs_a, outputs_b = _labelled(outputs_a, outputs_b)
    _require_same_problems(outputs_a, outputs_b, partial)
    rates_a = rates(outputs_a, [verdict.correct for verdict in a[1]])
    rates_b = rates(outputs_b, [verdict.correct for verdict in b[1]])
    # A problem is the same one at each training step, and has a group of each.
    sets: dict[str, dict[tuple[str, ...], list[str]]] = {
        name: defaultdict(list) for name in (*by_benchmark(outputs_a), POOLED)
    }
    # One output stands for its problem: all of a problem name the same benchmark and prompt.
    for group, output in {output.group: output for output in outputs_a}.items():
        if group in rates_b:
            for name in (output.benchmark, POOLED):
                sets[name][_whatever_the_step(output)].append(group)
    if sum(bool(problems) for problems in sets.values()) == 2:
        del sets[POOLED]
    accuracies = []
    for name, problems in sets.items():
        sides = [
            [(*rates_a[x], *rates_b[x]) for x in groups if rates_a[x][1] and rates_b[x][1]]
            for groups in problems.values()
        ]
        if decided := [steps for steps in sides if steps]:
            accuracies.append(_of_accuracies(name, decided, rng))
    if not accuracies:
        raise InputError("no problem has a decided output in both: there is nothing to compare")
    lengths_a, lengths_b = lengths(outputs_a), lengths(outputs_b)
    if not lengths_a or not lengths_b:
        return accuracies
    return accuracies + [
        _comparison(
            name,
            "length",
            [[(lengths_a[x], lengths_b[x]) for x in groups] for groups in problems.values()],
            rng,
        )
        for name, problems in sets.items()
        if problems
    ]


def in_words(comparison: Comparison, name_a: str = "A", name_b: str = "B") -> str:
    """What may be said, in one sentence."""
    is_accuracy = comparison.measure == "accuracy"
    scale, unit = (100, "points") if is_accuracy else (1, "tokens")
    difference, low, high = (scale * x for x in comparison.difference)
    between = f"95 % interval {low:+.1f} to {high:+.1f} {unit}"
    if comparison.shown:
        more, less = (name_b, name_a) if difference > 0 else (name_a, name_b)
        claim = f"{more} is better than {less}" if is_accuracy else f"{less} is shorter than {more}"
        return (
            f"{claim} by {abs(difference):.1f} {unit} "
            f"({between}, corrected p = {comparison.corrected:.2g})"
        )
    return (
        f"no difference can be shown with {comparison.problems} problems "
        f"({difference:+.1f} {unit} seen, {between}, corrected p = {comparison.corrected:.2g})"
    )


def title(name: str) -> str:
    """A benchmark as the paper's tables print it; names that a file made up, escaped."""
    return BENCHMARKS[name].title if name in BENCHMARKS else printable(name)


_Sides = tuple[int, int, int, int]
"""Correct answers and samples of A, then of B: to a problem at one training step."""


def _under_one_name(*sides: Sequence[Output]) -> list[list[Output]]:
    """Both sides, with one benchmark for the outputs whose files name none.

    The two files' own names would be two, and say nothing about the problems. Where one side names
    a single benchmark and the other none, it is that one: the answers show whether that is true.
    """
    names = {output.benchmark for side in sides for output in side if output.named}
    defaults = {output.benchmark for side in sides for output in side if not output.named}
    # A file with both kinds has two sets of problems, whose labels may be alike.
    is_mixed = any(len({output.named for output in side}) > 1 for side in sides)
    named = len(names) == 1 and not is_mixed
    in_common = defaults.pop() if len(defaults) == 1 else UNNAMED
    name = names.pop() if named else in_common
    return [
        [o if o.named else o._replace(benchmark=name, named=named) for o in side] for side in sides
    ]


def _labelled(a: Sequence[Output], b: Sequence[Output]) -> tuple[list[Output], list[Output]]:
    """Both, where neither file labels its problems with the prompts as labels.

    Raises:
        InputError: one of the two has labels, and the prompts of a label and number differ.
    """
    if all(output.numbered for output in (*a, *b)):
        sides = (
            [
                o._replace(problem=f"{o.prompt}{f' of step {o.step}' if o.step else ''}")
                for o in side
            ]
            for side in (a, b)
        )
        return next(sides), next(sides)
    if any(output.numbered for output in (*a, *b)):
        prompts = {output.group: output.prompt for output in a}
        for o in b:
            # A label of one file and a number of the other may meet by chance alone.
            if o.prompt != prompts.get(o.group, o.prompt):
                in_a, in_b = _where_they_differ(prompts[o.group], o.prompt)
                raise InputError(
                    f"problem {o.group} has the prompt {in_a} in A and {in_b} in B, and one of the "
                    "two names no problems; expected a group in each row of both"
                )
    return list(a), list(b)


def _where_they_differ(a: str | None, b: str | None) -> list[str]:
    """Two texts for people, short: from a little before their first difference on."""
    pairs = enumerate(zip(a or "", b or "", strict=False))
    start = max(0, next((i for i, (x, y) in pairs if x != y), 0) - CONTEXT)
    return [f"{'...' if start else ''}{x[start:] if x else x!r:.60}" for x in (a, b)]


def _require_same_problems(a: Sequence[Output], b: Sequence[Output], partial: bool) -> None:
    answers_a, answers_b = ({o.group: frozenset(o.answers) for o in side} for side in (a, b))
    if not answers_a.keys() & answers_b.keys():
        in_a, in_b = _where_they_differ(min(answers_a), min(answers_b))
        raise InputError(
            f"A and B have no problem in common: {in_a} is one of A, {in_b} one of B; expected the "
            "same benchmarks and groups in both, or the same prompts and steps"
        )
    missing = [*(answers_a.keys() - answers_b.keys()), *(answers_b.keys() - answers_a.keys())]
    if missing and not partial:
        raise InputError(
            f"{len(missing)} problems are in one of the two only, such as {min(missing):.60}; "
            "--partial compares on the others"
        )
    for group in answers_a.keys() & answers_b.keys():
        if answers_a[group] != answers_b[group]:
            in_a, in_b = (
                " or ".join(f"{answer!r:.60}" for answer in sorted(answers[group]))
                for answers in (answers_a, answers_b)
            )
            raise InputError(
                f"problem {group:.60} has the answer {in_a} in A and {in_b} in B: "
                "these are not the same problems"
            )


def _whatever_the_step(output: Output) -> tuple[str, ...]:
    """What tells a problem from others, and is the same for it at each training step.

    A prompt, where there is one: trainers give other problems the same labels at the next step.
    """
    if output.step is None:
        return (output.group,)
    if output.prompt is not None:
        return output.benchmark, output.prompt
    problem = output.problem.removesuffix(f" of step {output.step}")
    return output.benchmark, problem, *sorted(output.answers)


def _of_accuracies(
    name: str, problems: Sequence[Sequence[_Sides]], rng: np.random.Generator
) -> Comparison:
    """`problems`: of each one, its sides at each step."""
    shares = [[(x / n_a, y / n_b) for x, n_a, y, n_b in steps] for steps in problems]
    comparison = _comparison(name, "accuracy", shares, rng)
    return comparison._replace(p_value=_p_value(problems, comparison.p_value))


def _comparison(
    name: str,
    measure: Literal["accuracy", "length"],
    problems: Sequence[Sequence[tuple[float, float]]],
    rng: np.random.Generator,
) -> Comparison:
    """`problems`: of each one, the values of A and of B at each step."""
    a_p, b_p = np.array([np.mean(steps, axis=0) for steps in problems]).T
    difference_p = (b_p - a_p).round(12)  # equal accuracies must differ by 0
    return Comparison(
        name=name,
        measure=measure,
        problems=len(problems),
        mean_a=float(a_p.mean()),
        mean_b=float(b_p.mean()),
        difference=bootstrap_interval(difference_p, bootstrap_means(difference_p, rng)),
        up=int(np.sum(difference_p > 0)),
        down=int(np.sum(difference_p < 0)),
        p_value=sign_flip_p_value(difference_p),
    )


def _p_value(problems: Sequence[Sequence[_Sides]], of_signs: float) -> float:
    """Two-sided; `of_signs` is that of the signs of the differences."""
    # Shares of 16 samples and of 1 vary differently: their signs must not be flipped.
    if any(n_a != n_b for steps in problems for _, n_a, _, n_b in steps):
        if any(len(steps) > 1 for steps in problems):
            return of_signs
        return pooled_p_value([sides for (sides,) in problems])
    # As integers, so that the exact test sees equal sums as equal: .1 + .2 is not .3 in floats.
    common = math.lcm(*(n * len(steps) for steps in problems for _, n, _, _ in steps))
    integers = [
        sum((b - a) * (common // (n * len(steps))) for a, n, b, _ in steps) for steps in problems
    ]
    divisor = math.gcd(*integers) or 1
    return sign_flip_p_value([d // divisor for d in integers])
