"""Paired differences of a few seeds: how large, how sure.

The interval is the studentised bootstrap (bootstrap-t; Efron and Tibshirani 1993, "An introduction
to the bootstrap", section 12.5). With 10 or 20 seeds the percentile and BCa intervals are too
narrow: `ktae_lab.study_intervals` measures how often each holds the true mean.

The p-value is exact: if the methods were alike, each seed's difference would have had the other
sign with probability 1/2, and p is the share of all 2^n sign patterns whose sum is at least as far
from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

LEVEL = 0.05
FEWEST_PAIRS = 6
"""With fewer, no sign pattern is rarer than 1 in 20: 2 / 2^5 = .0625."""
RESAMPLES = 10_000
EXACT_PAIRS = 40
_DRAWS = 200_000
_CHUNK = 20_000


class Interval(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float


def mean_interval(values: np.ndarray, *, seed: int = 0) -> Interval:
    """Mean of (n,) values and its 95 % studentised bootstrap interval; n ≥ 2.

    Of equal values the interval is that value. Where so many are equal that a tail of the resamples
    has no spread, it is Student's t interval.
    """
    n, mean, error = len(values), float(values.mean()), _standard_error(values)
    if error == 0:
        return Interval(mean, mean, mean)
    rng = np.random.default_rng(seed)
    drawn = values[rng.integers(n, size=(RESAMPLES, n))]
    away, spread = drawn.mean(axis=1) - mean, _standard_error(drawn)
    # A resample of one value drawn n times has no spread: it is infinitely far, not a number.
    endless = np.where(away == 0, 0.0, np.copysign(np.inf, away))
    t = np.divide(away, spread, out=endless, where=spread > 0)
    low_t, high_t = np.quantile(t, (LEVEL / 2, 1 - LEVEL / 2), method="inverted_cdf")
    if not np.isfinite([low_t, high_t]).all():  # most values are equal: resamples tell nothing
        from scipy import stats

        high_t = stats.t.ppf(1 - LEVEL / 2, n - 1)
        low_t = -high_t
    return Interval(mean, float(mean - high_t * error), float(mean - low_t * error))


def sign_flip_p_value(differences: np.ndarray) -> float:
    """Two-sided p-value of the mean of (n,) differences: see the module.

    Exact up to 40 pairs; beyond, the share of 200,000 random sign patterns, the observed one
    included.
    """
    observed = abs(float(differences.sum()))
    # Accuracies are multiples of one over the problems, so that sums tie. They have to tie as well
    # for values that have been through runs.csv, with its seven digits.
    within_rounding = 1e-5 * float(np.abs(differences).sum())
    least = observed - within_rounding
    if least <= 0:
        return 1.0
    if len(differences) > EXACT_PAIRS:
        return _random_patterns(differences, least)
    # All sums of one half of the pairs meet all sums of the other, which are sorted.
    half = len(differences) // 2
    left, right = _all_sums(differences[:half]), np.sort(_all_sums(differences[half:]))
    above = len(right) - np.searchsorted(right, least - left, side="left")
    below = np.searchsorted(right, -least - left, side="right")
    return float((above.sum() + below.sum()) / 2.0 ** len(differences))


def least_p_value(n: int) -> float:
    """The smallest that `sign_flip_p_value` can give of n pairs: all have the same sign."""
    return min(1.0, 2.0 ** (1 - n)) if n <= EXACT_PAIRS else 1 / (_DRAWS + 1)


def pointwise_band(
    values: np.ndarray, base_models: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, low and high over (n, steps) curves, at each step by itself.

    The 95 % interval of Student's t for the mean over seeds *of these base models*: the spread is
    the one among runs of the same base model, with as many degrees of freedom less as there are
    base models. Their differences come from no seed, and three say nothing about others.
    Bounds are NaN where no base model has two runs. A band is to be looked at, and the bootstrap's
    would be jagged; it says nothing about a whole curve at once.
    """
    from scipy import stats

    n, mean = len(values), values.mean(axis=0)
    kinds, of_run = np.unique(base_models, return_inverse=True)
    of_kind = np.stack([values[of_run == k].mean(axis=0) for k in range(len(kinds))])
    freedom = n - len(kinds)
    if freedom < 1:
        nothing = np.full_like(mean, np.nan)
        return mean, nothing, nothing
    variance = ((values - of_kind[of_run]) ** 2).sum(axis=0) / freedom
    reach = stats.t.ppf(1 - LEVEL / 2, freedom) * np.sqrt(variance / n)
    return mean, mean - reach, mean + reach


def centred_means(values: np.ndarray, reach: int) -> np.ndarray:
    """(n, steps) curves, each value the mean with `reach` neighbours on both sides.

    Near the ends there are fewer neighbours, as many on either side, so that a slope stays where it
    is. Missing values (NaN) are left out; the mean of none is NaN.
    """
    known, n = np.ma.masked_invalid(values), values.shape[1]
    means = np.full(values.shape, np.nan)
    for t in range(n):
        near = min(reach, t, n - 1 - t)
        means[:, t] = known[:, t - near : t + near + 1].mean(axis=1).filled(np.nan)
    return means


def _standard_error(values: np.ndarray) -> np.ndarray:
    """Of the mean over the last axis."""
    error: np.ndarray = values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])
    return error


def _all_sums(values: np.ndarray) -> np.ndarray:
    """(2^n,) the sums of (n,) values under all sign patterns."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums - value, sums + value])
    return sums


def _random_patterns(differences: np.ndarray, least: float) -> float:
    rng = np.random.default_rng(0)
    as_far = 1
    for _ in range(_DRAWS // _CHUNK):
        signs = rng.choice([-1.0, 1.0], size=(_CHUNK, len(differences)))
        as_far += int(np.sum(np.abs(signs @ differences) >= least))
    return as_far / (_DRAWS + 1)
