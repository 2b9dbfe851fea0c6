"""What graded outputs say about a model: accuracies with intervals, and what they leave out.

For a problem with n decided samples, c of them correct:

    avg@k   c / n
    pass@k  1 - C(n-c, k) / C(n, k), unbiased (Chen et al. 2021, "Evaluating large language models
            trained on code", equation 1)

Undecided samples are not part of n and are reported apart; a problem without a decided sample is
left out, and of pass@k one with fewer than k. A benchmark's figure is the mean over problems.
Intervals are 95 % percentile bootstrap over problems: they say how the figure varies with the
choice of problems, not with another sampling run.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ktae.experiments.benchmarks import BENCHMARKS
from ktae.grading import Outcome
from ktae.inference import Interval, bootstrap_interval, bootstrap_means


class Estimate(NamedTuple):
    """A figure and its 95 % interval, over those problems that have enough decided samples."""

    value: float  # NaN where no problem has; `low` and `high` too
    low: float
    high: float
    problems: int


class Score(NamedTuple):
    """One benchmark. Shares are of all outputs, between 0 and 1."""

    benchmark: str
    problems: int
    samples: int  # responses to most problems, undecided ones included
    accuracy: Interval  # avg@k; pass@1 where there is one sample
    pass_at: dict[int, Estimate]  # for powers of two and the number of samples; empty where it is 1
    length: Interval | None  # mean tokens of a response; None: unknown for some
    unanswered: float
    undecided: float
    truncated: float | None  # None: unknown


class Scores(NamedTuple):
    """A model on several benchmarks."""

    scores: list[Score]
    mean: Interval  # the mean of the benchmarks' accuracies, with equal weights, as in the paper
    mean_length: Interval | None  # the mean of their lengths; None where one is unknown


class Problem(NamedTuple):
    """The responses to one problem, in lists of equal length."""

    benchmark: str
    answers: list[str]  # the accepted ones
    correct: list[float | None]
    outcome: list[str | None]
    tokens: list[int | None]
    finished: list[bool | None]

    @property
    def decided(self) -> list[float]:
        """1.0 or 0.0 of each sample that is not undecided."""
        return [x for x in self.correct if x is not None]

    @property
    def length(self) -> float | None:
        """Mean tokens of a response; None if one is unknown."""
        return None if None in self.tokens else float(np.mean(self.tokens))  # type: ignore[arg-type]


def problems_of(table: Any) -> dict[str, Problem]:
    """The problems of outputs by name; those of known benchmarks come first, in their order."""
    lists = Problem._fields[2:]
    columns = table.select(["problem", "benchmark", "answers", *lists]).to_pydict().values()
    problems: dict[str, Problem] = {}
    for name, benchmark, answers, *values in zip(*columns, strict=True):
        if name not in problems:
            problems[name] = Problem(benchmark, answers, *([] for _ in lists))
        for field, value in zip(lists, values, strict=True):
            getattr(problems[name], field).append(value)
    order = list(dict.fromkeys([*BENCHMARKS, *(x.benchmark for x in problems.values())]))
    return dict(sorted(problems.items(), key=lambda item: order.index(item[1].benchmark)))


def by_benchmark(problems: Mapping[str, Problem]) -> dict[str, dict[str, Problem]]:
    """The problems of each benchmark."""
    benchmarks: dict[str, dict[str, Problem]] = defaultdict(dict)
    for name, problem in problems.items():
        benchmarks[problem.benchmark][name] = problem
    return benchmarks


Resampled = tuple[Interval, np.ndarray]
"""A mean with its interval, and the means of resamples of the problems."""


def score(table: Any, *, seed: int = 0) -> Scores:
    """The figures of every benchmark among graded outputs, at least one."""
    rng = np.random.default_rng(seed)
    benchmarks = [
        _benchmark(name, [*problems.values()], rng)
        for name, problems in by_benchmark(problems_of(table)).items()
    ]
    scores, accuracies, lengths = zip(*benchmarks, strict=True)
    known = [x for x in lengths if x is not None]
    mean_length = _mean(known) if len(known) == len(scores) else None
    return Scores(list(scores), _mean(accuracies), mean_length)


def _mean(benchmarks: Sequence[Resampled]) -> Interval:
    """The mean over benchmarks with equal weights, each resampled by itself."""
    values = np.array([interval.value for interval, _ in benchmarks])
    return bootstrap_interval(values, np.mean([means for _, means in benchmarks], axis=0))


def _benchmark(
    name: str, problems: Sequence[Problem], rng: np.random.Generator
) -> tuple[Score, Resampled, Resampled | None]:
    """One benchmark's figures, and its resampled accuracy and length."""

    def resampled(values: Sequence[float]) -> Resampled:
        array = np.array(values or [math.nan])
        means = bootstrap_means(array, rng)
        return bootstrap_interval(array, means), means

    counts = [(int(sum(x)), len(x)) for x in (problem.decided for problem in problems)]
    accuracy = resampled([c / n for c, n in counts if n])
    samples = max(statistics.multimode(len(problem.correct) for problem in problems))
    pass_at = {}
    outcomes = [x for problem in problems for x in problem.outcome]
    if samples > 1:
        for k in sorted({*(2**i for i in range(samples.bit_length())), samples}):
            values = [pass_at_k(n, c, k) for c, n in counts if n >= k]
            pass_at[k] = Estimate(*resampled(values)[0], problems=len(values))
    lengths = [x for x in (problem.length for problem in problems) if x is not None]
    length = resampled(lengths) if len(lengths) == len(problems) else None
    finished = [x for problem in problems for x in problem.finished if x is not None]
    of_all = Score(
        benchmark=name,
        problems=len(problems),
        samples=samples,
        accuracy=accuracy[0],
        pass_at=pass_at,
        length=length and length[0],
        unanswered=outcomes.count(Outcome.UNANSWERED) / len(outcomes),
        undecided=outcomes.count(Outcome.UNDECIDED) / len(outcomes),
        truncated=1 - float(np.mean(finished)) if finished else None,
    )
    return of_all, accuracy, length


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that at least one of k samples is correct, estimated from c correct of n >= k."""
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)
