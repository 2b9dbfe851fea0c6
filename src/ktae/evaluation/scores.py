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
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ktae.evaluation.outputs import Output, by_benchmark
from ktae.grading import Outcome, Verdict
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
    """Of the benchmarks' accuracies, each with the same weight, as in the paper."""
    mean_length: Interval | None
    """Of their lengths likewise; None where that of one is not known."""


def score(outputs: Sequence[Output], verdicts: Sequence[Verdict], *, seed: int = 0) -> Scores:
    """The figures of every benchmark that occurs.

    Args:
        outputs: at least one.
        verdicts: as many.
        seed: of the bootstrap.
    """
    rng = np.random.default_rng(seed)
    scores: list[Score] = []
    accuracies: list[_Resampled] = []
    mean_lengths: list[_Resampled] = []
    for name in by_benchmark(outputs):
        pairs = [(o, v) for o, v in zip(outputs, verdicts, strict=True) if o.benchmark == name]
        counts = rates([o for o, _ in pairs], [v.correct for _, v in pairs]).values()
        # Undecided samples are in neither number: they would count as wrong, or as right.
        accuracies.append(_resampled([c / n for c, n in counts if n] or [math.nan], rng))
        drawn = Counter(Counter(output.group for output, _ in pairs).values())
        samples = max(drawn, key=lambda n: (drawn[n], n))  # of several usual ones the largest
        pass_at, voted = {}, None
        if samples > 1:
            for k in sorted({*(2**i for i in range(samples.bit_length())), samples}):
                pass_at[k] = _estimate([pass_at_k(n, c, k) for c, n in counts if n >= k], rng)
            voted = _majority_of(
                [verdict for _, verdict in pairs], [o.group for o, _ in pairs], rng
            )
        tokens = lengths([o for o, _ in pairs])
        if tokens:
            mean_lengths.append(_resampled(list(tokens.values()), rng))
        finished = [o.finished for o, _ in pairs if o.finished is not None]
        outcomes = [verdict.outcome for _, verdict in pairs]
        scores.append(
            Score(
                benchmark=name,
                problems=len(counts),
                samples=samples,
                accuracy=accuracies[-1].interval,
                pass_at=pass_at,
                majority=voted,
                length=mean_lengths[-1].interval if tokens else None,
                unanswered=outcomes.count(Outcome.UNANSWERED) / len(pairs),
                undecided=outcomes.count(Outcome.UNDECIDED) / len(pairs),
                truncated=1 - float(np.mean(finished)) if finished else None,
            )
        )
    all_lengths = mean_lengths if len(mean_lengths) == len(scores) else []
    return Scores(scores, _mean_of(accuracies), _mean_of(all_lengths) if all_lengths else None)


class _Resampled(NamedTuple):
    """A mean over problems, and the same of resamples of them."""

    interval: Interval
    means: np.ndarray


def _resampled(values: Sequence[float], rng: np.random.Generator) -> _Resampled:
    array = np.array(values)
    means = bootstrap_means(array, rng)
    return _Resampled(bootstrap_interval(array, means), means)


def _mean_of(benchmarks: Sequence[_Resampled]) -> Interval:
    """Over benchmarks with the same weight, each resampled by itself."""
    values = np.array([x.interval.value for x in benchmarks])
    return bootstrap_interval(values, np.mean([x.means for x in benchmarks], axis=0))


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that at least one of k samples is correct, estimated from c correct of n >= k."""
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def majority(answers: Sequence[str | None], correct: Sequence[float]) -> float:
    """maj@k of one problem: see the module. Responses without an answer are no candidates."""
    votes: dict[str, list[float]] = defaultdict(list)
    for answer, verdict in zip(answers, correct, strict=True):
        if answer is not None:
            votes[key(answer)].append(verdict)
    most = max(map(len, votes.values()), default=0)
    # Answers that are one number or text have one verdict; where graders disagree, most of them.
    winners = [float(np.mean(v) > 0.5) for v in votes.values() if len(v) == most]
    return float(np.mean(winners)) if winners else 0.0


def rates(outputs: Sequence[Output], correct: Iterable[float | None]) -> dict[str, tuple[int, int]]:
    """For each problem (`aime24/7`) the correct and the decided samples."""
    counts: dict[str, tuple[int, int]] = {}
    for output, value in zip(outputs, correct, strict=True):
        c, n = counts.get(output.group, (0, 0))
        if value is not None:
            c, n = c + int(value), n + 1
        counts[output.group] = (c, n)
    return counts


def lengths(outputs: Sequence[Output]) -> dict[str, float]:
    """The mean tokens of each problem's responses; empty where those of one are not known."""
    tokens: dict[str, list[int]] = defaultdict(list)
    for output in outputs:
        if output.tokens is None:
            return {}
        tokens[output.group].append(output.tokens)
    return {group: sum(counts) / len(counts) for group, counts in tokens.items()}


def accuracies(outputs: Sequence[Output], correct: Sequence[float | None]) -> dict[str, float]:
    """The mean over problems of each benchmark of which anything is decided."""
    means = {}
    for name in by_benchmark(outputs):
        pairs = [(o, x) for o, x in zip(outputs, correct, strict=True) if o.benchmark == name]
        shares = [c / n for c, n in rates(*zip(*pairs, strict=True)).values() if n]
        if shares:
            means[name] = float(np.mean(shares))
    return means


def _estimate(values: Sequence[float], rng: np.random.Generator) -> Estimate:
    """The mean over problems."""
    if not values:
        return Estimate(math.nan, math.nan, math.nan, 0)
    return Estimate(*_resampled(values, rng).interval, problems=len(values))


def _majority_of(
    verdicts: Sequence[Verdict], groups: Sequence[str], rng: np.random.Generator
) -> Estimate | None:
    """maj@k; None where no answer is known, as of a file's own rewards."""
    if any(v.correct for v in verdicts) and all(v.extracted is None for v in verdicts):
        return None
    problems: dict[str, list[Verdict]] = defaultdict(list)
    for verdict, group in zip(verdicts, groups, strict=True):
        if verdict.correct is not None:
            problems[group].append(verdict)
    majorities = [
        majority([v.extracted for v in decided], [v.correct or 0.0 for v in decided])
        for decided in problems.values()
    ]
    return _estimate(majorities, rng)
