"""What graded outputs say about a model: accuracies with intervals, and what is not in them.

For a problem with n decided samples, c of them correct:

    avg@k   c / n
    pass@k  1 - C(n-c, k) / C(n, k), unbiased (Chen et al. 2021, "Evaluating large language models
            trained on code", equation 1)
    maj@k   is the most frequent answer correct? Answers that are written differently but are the
            same number or text count as one; of several most frequent ones, the share that is
            correct (the expectation over a fair draw).

Undecided samples are left out of n and reported apart; a problem without any decided sample is left
out, and of pass@k one with fewer than k. A benchmark's figure is the mean over problems. Intervals
are 95 % percentile bootstrap over problems: they say how the figure varies with the choice of
problems, not with a new sampling run.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ktae.experiments.outputs import Output, by_benchmark, by_problem
from ktae.grading import Outcome
from ktae.grading.forms import key
from ktae.inference import Interval, bootstrap_interval, bootstrap_means


class Estimate(NamedTuple):
    """A figure and its 95 % interval, over those problems that have enough decided samples."""

    value: float
    """NaN where no problem has; `low` and `high` too."""
    low: float
    high: float
    problems: int


class Score(NamedTuple):
    """One benchmark. Shares are of all outputs, between 0 and 1."""

    benchmark: str
    problems: int
    samples: int
    """Drawn for most problems, undecided ones included."""
    accuracy: Interval
    """avg@k; pass@1 where there is one sample."""
    pass_at: dict[int, Estimate]
    """pass@k for powers of two and the number of samples; empty where there is one sample."""
    majority: Estimate | None
    """maj@k; None where there is one sample, or no answer is known."""
    length: Interval | None
    """Mean tokens of a response; None: not known of all."""
    unanswered: float
    undecided: float
    truncated: float | None
    """None: not known."""


class Scores(NamedTuple):
    """A model on several benchmarks."""

    scores: list[Score]
    mean: Interval
    """The mean of the benchmarks' accuracies, each with the same weight, as in the paper."""
    mean_length: Interval | None
    """The mean of their lengths; None where that of one is not known."""


Resampled = tuple[Interval, np.ndarray]
"""A mean with its interval, and the means of resamples of the problems."""


def score(outputs: Sequence[Output], *, seed: int = 0) -> Scores:
    """The figures of every benchmark that occurs.

    Args:
        outputs: graded, at least one.
        seed: of the bootstrap.
    """
    rng = np.random.default_rng(seed)
    benchmarks = [_benchmark(name, x, rng) for name, x in by_benchmark(outputs).items()]
    scores, accuracies, lengths = zip(*benchmarks, strict=True)
    known = [x for x in lengths if x is not None]
    mean_length = _mean(known) if len(known) == len(scores) else None
    return Scores(list(scores), _mean(accuracies), mean_length)


def _mean(benchmarks: Sequence[Resampled]) -> Interval:
    """The mean over benchmarks with the same weight, each resampled by itself."""
    values = np.array([interval.value for interval, _ in benchmarks])
    return bootstrap_interval(values, np.mean([means for _, means in benchmarks], axis=0))


def _benchmark(
    name: str, outputs: Sequence[Output], rng: np.random.Generator
) -> tuple[Score, Resampled, Resampled | None]:
    """One benchmark's figures, and its accuracy and length with those of resamples."""

    def resampled(values: Sequence[float]) -> Resampled:
        array = np.array(values or [math.nan])
        means = bootstrap_means(array, rng)
        return bootstrap_interval(array, means), means

    def estimate(values: Sequence[float]) -> Estimate:
        return Estimate(*resampled(values)[0], problems=len(values))

    problems = by_problem(outputs)
    counts = rates(problems).values()
    verdicts = [output.verdict for output in outputs if output.verdict is not None]
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    # Undecided samples are in neither number: they would count as wrong, or as right.
    accuracy = resampled([c / n for c, n in counts if n])
    drawn = Counter(map(len, problems.values()))
    samples = max(drawn, key=lambda n: (drawn[n], n))  # of several usual ones the largest
    pass_at, voted = {}, None
    if samples > 1:
        for k in sorted({*(2**i for i in range(samples.bit_length())), samples}):
            pass_at[k] = estimate([pass_at_k(n, c, k) for c, n in counts if n >= k])
        # Of a file's own rewards no answer is known.
        is_known = any(verdict.extracted is not None for verdict in verdicts)
        if is_known or not any(verdict.correct for verdict in verdicts):
            voted = estimate([majority(x) for x in map(_votes, problems.values()) if x])
    tokens = lengths(problems)
    length = resampled([*tokens.values()]) if tokens else None
    finished = [output.finished for output in outputs if output.finished is not None]
    of_all = Score(
        benchmark=name,
        problems=len(problems),
        samples=samples,
        accuracy=accuracy[0],
        pass_at=pass_at,
        majority=voted,
        length=length and length[0],
        unanswered=outcomes[Outcome.UNANSWERED] / len(outputs),
        undecided=outcomes[Outcome.UNDECIDED] / len(outputs),
        truncated=1 - float(np.mean(finished)) if finished else None,
    )
    return of_all, accuracy, length


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that at least one of k samples is correct, estimated from c correct of n >= k."""
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def majority(votes: Sequence[tuple[str | None, float]]) -> float:
    """maj@k of one problem, of the answers and whether they are correct: see the module.

    Responses without an answer are no candidates.
    """
    correct: dict[str, list[float]] = defaultdict(list)
    for answer, verdict in votes:
        if answer is not None:
            correct[key(answer)].append(verdict)
    most = max(map(len, correct.values()), default=0)
    # Answers that are one number or text have one verdict; where graders disagree, most of them.
    winners = [float(np.mean(v) > 0.5) for v in correct.values() if len(v) == most]
    return float(np.mean(winners)) if winners else 0.0


def _votes(samples: Sequence[Output]) -> list[tuple[str | None, float]]:
    verdicts = (output.verdict for output in samples)
    return [(v.extracted, v.correct) for v in verdicts if v is not None and v.correct is not None]


def rates(problems: Mapping[str, Sequence[Output]]) -> dict[str, tuple[int, int]]:
    """For each problem the correct and the decided samples."""
    decided = {group: [x for _, x in _votes(samples)] for group, samples in problems.items()}
    return {group: (int(sum(correct)), len(correct)) for group, correct in decided.items()}


def lengths(problems: Mapping[str, Sequence[Output]]) -> dict[str, float]:
    """The mean tokens of each problem's responses; empty where those of one are not known."""
    means = {}
    for group, samples in problems.items():
        tokens = [output.tokens for output in samples if output.tokens is not None]
        if len(tokens) < len(samples):
            return {}
        means[group] = sum(tokens) / len(tokens)
    return means


def accuracies(outputs: Sequence[Output]) -> dict[str, float]:
    """The mean over problems of each benchmark of which anything is decided."""
    shares = {
        name: [c / n for c, n in rates(by_problem(of_benchmark)).values() if n]
        for name, of_benchmark in by_benchmark(outputs).items()
    }
    return {name: float(np.mean(x)) for name, x in shares.items() if x}
