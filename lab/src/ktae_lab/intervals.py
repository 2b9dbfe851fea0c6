"""The interval of a mean of a few values, such as seeds.

It is the studentised bootstrap (bootstrap-t; Efron and Tibshirani 1993, "An introduction to the
bootstrap", section 12.5). With 10 or 20 values the percentile and BCa intervals are too narrow.
"""

from __future__ import annotations

import numpy as np

from ktae.inference import LEVEL, RESAMPLES, Interval, t_quantile

FEWEST_PAIRS = 6
"""With fewer, no sign pattern is rarer than 1 in 20: 2 / 2^5 = .0625."""


def mean_interval(values: np.ndarray, *, seed: int = 0) -> Interval:
    """Mean of a few values and its studentised bootstrap interval.

    Of equal values the interval is that value. Where a tail of the resamples has no
    spread, since many values are equal, it is Student's t interval.

    Args:
        values: (n,) independent floats, at least two.
        seed: of the resampling.
    """
    n, mean, error = len(values), float(values.mean()), standard_error(values)
    if error == 0:
        return Interval(mean, mean, mean)
    rng = np.random.default_rng(seed)
    drawn = values[rng.integers(n, size=(RESAMPLES, n))]
    away, spread = drawn.mean(axis=1) - mean, standard_error(drawn)
    # A resample of one value drawn n times has no spread: it is infinitely far, not a number.
    endless = np.where(away == 0, 0.0, np.copysign(np.inf, away))
    t = np.divide(away, spread, out=endless, where=spread > 0)
    low_t, high_t = np.quantile(t, (LEVEL / 2, 1 - LEVEL / 2), method="inverted_cdf")
    if not np.isfinite([low_t, high_t]).all():  # most values are equal: resamples tell nothing
        high_t = t_quantile(n - 1)
        low_t = -high_t
    return Interval(mean, float(mean - high_t * error), float(mean - low_t * error))


def standard_error(values: np.ndarray) -> np.ndarray:
    """The standard error of the mean over the last axis."""
    error: np.ndarray = values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1])
    return error
