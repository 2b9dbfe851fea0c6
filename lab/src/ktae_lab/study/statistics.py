"""Curves of several runs: bands and smoothing. Intervals and tests are `ktae.inference`'s."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ktae.inference import t_quantile


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
    n, mean = len(values), values.mean(axis=0)
    kinds, of_run = np.unique(base_models, return_inverse=True)
    of_kind = np.stack([values[of_run == k].mean(axis=0) for k in range(len(kinds))])
    freedom = n - len(kinds)
    if freedom < 1:
        nothing = np.full_like(mean, np.nan)
        return mean, nothing, nothing
    variance = ((values - of_kind[of_run]) ** 2).sum(axis=0) / freedom
    reach = t_quantile(freedom) * np.sqrt(variance / n)
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
