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
from ktae.grading.values import MAX_DIGITS, number, plain
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
    length: float | None
    """Mean tokens of a response; None: not known."""
    unanswered: float
    undecided: float
    truncated: float | None
    """None: not known."""


class Scores(NamedTuple):
    """A model on several benchmarks."""

    scores: list[Score]
    mean: Interval
    """Of the benchmarks' accuracies, each with the same weight, as in the paper."""


def score(outputs: Sequence[Output], verdicts: Sequence[Verdict], *, seed: int = 0) -> Scores:
    """The figures of every benchmark that occurs.

    Args:
        outputs: at least one.
        verdicts: as many.
        seed: of the bootstrap.
    """
    rng = np.random.default_rng(seed)
    scores, resampled = [], []
    for name in by_benchmark(outputs):
        pairs = [(o, v) for o, v in zip(outputs, verdicts, strict=True) if o.benchmark == name]
        accuracy = _rates(pairs)
        means = bootstrap_means(accuracy, rng)
        resampled.append(means)
        scores.append(_score(name, pairs, bootstrap_interval(accuracy, means), rng))
    mean = float(np.mean([score.accuracy.value for score in scores]))
    return Scores(scores, bootstrap_interval(np.array(mean), np.mean(resampled, axis=0)))


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that at least one of k samples is correct, estimated from c correct of n >= k."""
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


def majority(answers: Sequence[str | None], correct: Sequence[float]) -> float:
    """maj@k of one problem: see the module. Responses without an answer are no candidates."""
    votes: dict[str, list[float]] = defaultdict(list)
    for answer, verdict in zip(answers, correct, strict=True):
        if answer is not None:
            votes[_key(answer)].append(verdict)
    most = max(map(len, votes.values()), default=0)
    winners = [float(np.mean(v) > 0.5) for v in votes.values() if len(v) == most]
    return float(np.mean(winners)) if winners else 0.0


def rates(outputs: Sequence[Output], verdicts: Sequence[Verdict]) -> dict[str, tuple[int, int]]:
    """For each problem (`aime24/7`) the correct and the decided samples."""
    counts: dict[str, tuple[int, int]] = {}
    for output, verdict in zip(outputs, verdicts, strict=True):
        c, n = counts.get(output.group, (0, 0))
        if verdict.correct is not None:
            c, n = c + int(verdict.correct), n + 1
        counts[output.group] = (c, n)
    return counts


def _rates(pairs: Sequence[tuple[Output, Verdict]]) -> np.ndarray:
    counts = rates(*zip(*pairs, strict=True))
    found = [c / n for c, n in counts.values() if n]
    return np.array(found if found else [math.nan])


def _score(
    name: str,
    pairs: Sequence[tuple[Output, Verdict]],
    accuracy: Interval,
    rng: np.random.Generator,
) -> Score:
    counts = list(rates(*zip(*pairs, strict=True)).values())
    samples = _usual(Counter(output.group for output, _ in pairs).values())
    pass_at, voted = {}, None
    if samples > 1:
        for k in sorted({*(2**i for i in range(samples.bit_length())), samples}):
            pass_at[k] = _over_problems([pass_at_k(n, c, k) for c, n in counts if n >= k], rng)
        voted = _over_problems(_majorities(pairs), rng) if _knows_answers(pairs) else None
    lengths = [o.tokens for o, _ in pairs if o.tokens is not None]
    finished = [o.finished for o, _ in pairs if o.finished is not None]
    outcomes = [v.outcome for _, v in pairs]
    return Score(
        benchmark=name,
        problems=len(counts),
        samples=samples,
        accuracy=accuracy,
        pass_at=pass_at,
        majority=voted,
        length=float(np.mean(lengths)) if lengths else None,
        unanswered=outcomes.count(Outcome.UNANSWERED) / len(pairs),
        undecided=outcomes.count(Outcome.UNDECIDED) / len(pairs),
        truncated=1 - float(np.mean(finished)) if finished else None,
    )


def _usual(numbers: Iterable[int]) -> int:
    """The most common one; of several such the largest."""
    counts = Counter(numbers)
    return max(counts, key=lambda number: (counts[number], number))


def _over_problems(values: Sequence[float], rng: np.random.Generator) -> Estimate:
    if not values:
        return Estimate(math.nan, math.nan, math.nan, 0)
    array = np.array(values)
    interval = bootstrap_interval(array, bootstrap_means(array, rng))
    return Estimate(*interval, problems=len(values))


def _knows_answers(pairs: Sequence[tuple[Output, Verdict]]) -> bool:
    """Not so of a file's own rewards: rollouts are correct, and none has an answer."""
    verdicts = [verdict for _, verdict in pairs]
    return not any(v.correct for v in verdicts) or any(v.extracted is not None for v in verdicts)


def _majorities(pairs: Sequence[tuple[Output, Verdict]]) -> list[float]:
    problems: dict[str, list[Verdict]] = defaultdict(list)
    for output, verdict in pairs:
        if verdict.correct is not None:
            problems[output.group].append(verdict)
    return [
        majority([v.extracted for v in group], [v.correct or 0.0 for v in group])
        for group in problems.values()
    ]


def _key(answer: str) -> str:
    """The same for answers that are the same number, or the same text.

    A very long one stands for itself: taking it apart has no time limit here.
    """
    if len(answer) > MAX_DIGITS:
        return answer
    value = number(answer)
    return str(value.value) if value else plain(answer)
