"""Statistical inference: intervals of 95 %, exact tests and corrections for many of them."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

ALPHA = 0.05
"""Level of tests; intervals are of 1 - ALPHA."""
RESAMPLES = 10_000
EXACT_PAIRS = 40
"""Up to so many `sign_flip_p_value` is exact, whatever the differences."""
_EXACT_SPAN = 1 << 20
_DRAWS = 200_000
_CHUNK = 1 << 21
"""Numbers of resamples or of sign patterns that are in memory at a time."""


class Interval(NamedTuple):
    """A mean and its 95 % interval."""

    value: float
    low: float
    high: float


def t_interval(values: np.ndarray) -> Interval:
    """Mean of (n,) values, at least two, with Student's t interval."""
    from scipy import special  # not scipy.stats, which takes a second to import

    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))
    half = float(special.stdtrit(len(values) - 1, 1 - ALPHA / 2)) * error
    return Interval(mean, mean - half, mean + half)


def percentile_bounds(draws: np.ndarray) -> tuple[float, float]:
    """What 95 % of (n,) resampled values lie between."""
    low, high = np.quantile(draws, (ALPHA / 2, 1 - ALPHA / 2))
    return float(low), float(high)


def bootstrap_means(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(RESAMPLES,) means of (n,) values over resamples."""
    n = len(values)
    # Accuracies have few distinct values, however many problems there are.
    distinct, count = np.unique(values, return_counts=True)
    sizes = _chunks(RESAMPLES, len(distinct))
    return np.concatenate([rng.multinomial(n, count / n, size=x) @ distinct / n for x in sizes])


def _chunks(rows: int, width: int) -> list[int]:
    """How many of `rows` rows of `width` numbers are made at a time."""
    at_once = max(1, _CHUNK // width)
    return [min(at_once, rows - start) for start in range(0, rows, at_once)]


def bootstrap_interval(values: np.ndarray, means: np.ndarray) -> Interval:
    """Mean of many values and its percentile interval, of their `bootstrap_means`."""
    return Interval(float(values.mean()), *percentile_bounds(means))


def sign_flip_p_value(differences: np.ndarray | Sequence[float]) -> float:
    """Two-sided p-value of the sum of paired differences.

    If both sides were alike, each difference would have had the other sign with probability 1/2; p
    is the share of all 2^n sign patterns whose sum is at least as far from 0. Of integers -1, 0 and
    1 that is McNemar's exact test. Exact for integers whose sizes add up to at most a million, and
    for up to 40 differences of any kind; else of 200,000 random patterns, the observed one too.
    Sums of floats that agree in their first five digits count as equal: accuracies tie.
    """
    values = np.asarray(differences)
    values = values[values != 0]
    sizes, n = np.abs(values), len(values)
    if values.dtype.kind in "iu" and sizes.sum() <= _EXACT_SPAN:
        pmf = np.ones(1)  # of the sum of those that are positive
        for size in sizes.tolist():
            pmf = (np.pad(pmf, (0, size)) + np.pad(pmf, (size, 0))) / 2
        totals = 2 * np.arange(len(pmf)) - int(sizes.sum())
        return float(min(1.0, pmf[np.abs(totals) >= abs(int(values.sum()))].sum()))
    least = abs(float(values.sum())) - 1e-5 * float(sizes.sum())
    if least <= 0:
        return 1.0
    if n > EXACT_PAIRS:
        rng, as_far = np.random.default_rng(0), 1
        for rows in _chunks(_DRAWS, n):
            signs = rng.choice([-1.0, 1.0], size=(rows, n))
            as_far += int(np.sum(np.abs(signs @ values) >= least))
        return as_far / (_DRAWS + 1)
    # All sums of one half of the pairs meet all sums of the other, which are sorted; as many totals
    # are as far below 0 as above.
    left, right = np.zeros(1), np.zeros(1)
    for size in sizes[: n // 2]:
        left = np.concatenate([left - size, left + size])
    for size in sizes[n // 2 :]:
        right = np.sort(np.concatenate([right - size, right + size]), kind="stable")
    above = len(right) - np.searchsorted(right, least - left, side="left")
    return float(2 * above.sum() / 2.0**n)


def pooled_p_value(
    sides: Sequence[tuple[int, int, int, int]], *, draws: int = 50_000, seed: int = 0
) -> float:
    """Two-sided p-value of a sum of differences of shares, each of two samples of any size.

    If both sides were alike, each of a problem's samples could as well have been the other side's:
    the verdicts are dealt anew within each problem (hypergeometric), and p is the share of random
    deals whose sum is at least as far from 0, the observed one included. Neither the order of the
    problems nor that of the sides changes p. `sides` is as in `paired_p_value`.
    """
    rng = np.random.default_rng(seed)
    observed = math.fsum(b / n_b - a / n_a for a, n_a, b, n_b in sides)
    one_way = sorted((a + b, n_a, n_b) for a, n_a, b, n_b in sides)
    other_way = sorted((total, n_b, n_a) for total, n_a, n_b in one_way)
    tables = defaultdict[tuple[int, ...], list[tuple[int, int, int]]](list)
    for total, n_a, n_b in min(one_way, other_way):
        tables[min(n_a, n_b), max(n_a, n_b)].append((total, n_b, n_a))
    dealt = np.zeros(draws)
    # A problem's difference is (1 / n_a + 1 / n_b) times the second side's correct, less the mean.
    for (few, many), of_sizes in tables.items():
        pmf = _pmf_of_sum(*np.unique(of_sizes, axis=0, return_counts=True))
        cdf = np.cumsum(pmf)
        correct_b = np.searchsorted(cdf, cdf[-1] * rng.random(draws), side="right")
        mean = math.fsum(total * n_b / (n_a + n_b) for total, n_b, n_a in of_sizes)
        dealt += (1 / few + 1 / many) * (correct_b - mean)
    as_far = int(np.sum(np.abs(dealt) >= abs(observed) - 1e-9 * len(sides)))
    return (1 + as_far) / (1 + draws)


def paired_p_value(sides: Sequence[tuple[int, int, int, int]]) -> float:
    """Two-sided p-value of a difference in accuracy, paired by problem.

    `sides` has for each problem: correct of the first side, its samples, the same of the second.
    Sign flips, exact where the numbers allow it; random deals (`pooled_p_value`) where the numbers
    of samples differ on a problem: shares of 16 samples and of 1 vary differently.
    """
    if any(n_a != n_b for _, n_a, _, n_b in sides):
        return pooled_p_value(sides)
    # As integers, so that the exact test sees equal sums as equal: .1 + .2 is not .3 in floats.
    common = math.lcm(*(n for _, n, _, _ in sides))
    integers = [(b - a) * (common // n) for a, n, b, _ in sides]
    divisor = math.gcd(*integers) or 1
    return sign_flip_p_value([d // divisor for d in integers])


def least_size(tests: int) -> int:
    """The fewest differences of one sign that are significant, corrected for that many tests."""
    return next(n for n in itertools.count(1) if tests * 2.0 ** (1 - n) < ALPHA)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the family-wise error stays below the level."""
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = highest
    return corrected


def n_discoveries(p: np.ndarray, times: np.ndarray, level: float) -> int:
    """How many of m tests are significant at a false discovery rate of `level`.

    The k smallest p-values, for the largest k whose k-th is at most `level` k / m (Benjamini and
    Hochberg 1995). Each p-value stands for `times` tests, of which a dump has millions.
    """
    order = np.argsort(p, kind="stable")
    p, rank = p[order], np.cumsum(times[order])
    if not len(rank) or not rank[-1]:
        return 0
    kept = p <= level * rank / rank[-1]
    # Equal p-values count together: `rank` of the last of them holds for all.
    return int(rank[kept].max(initial=0))


def _pmf_of_sum(margins: np.ndarray, repeats: np.ndarray) -> np.ndarray:
    """The probabilities of 0, 1, ... for a sum of independent hypergeometric numbers.

    `margins` is (n, 3): how many are drawn, from how many that count and how many others; `repeats`
    (n,) how many numbers have these.
    """
    width = int((np.minimum(margins[:, 0], margins[:, 1]) * repeats).sum()) + 1
    size = 1 << math.ceil(math.log2(max(width, 2)))
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    for (m, n_correct, n_incorrect), repeat in zip(margins.tolist(), repeats.tolist(), strict=True):
        tables = math.comb(n_correct + n_incorrect, m)
        pmf_of_table = [
            math.comb(n_correct, k) * math.comb(n_incorrect, m - k) / tables
            for k in range(min(m, n_correct) + 1)
        ]
        spectrum *= np.fft.rfft(pmf_of_table, size) ** repeat
    pmf: np.ndarray = np.maximum(np.fft.irfft(spectrum, size)[:width], 0.0)
    return pmf
