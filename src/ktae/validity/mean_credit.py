"""The one definition of "mean |credit|": of the report, of the permutation test, of every label."""

from __future__ import annotations

import numpy as np


def mean_abs_credit(total: np.ndarray | float, tokens: np.ndarray | float) -> np.ndarray:
    """The mean of |credit| over the counted tokens of mixed groups; NaN where there are none.

    A group is mixed if it has correct and incorrect rollouts with a counted token. Its rollouts
    without a verdict are left out, and so are tokens that are masked or that the estimator ignores.
    All other groups are left out whole: their credit is 0 whatever their tokens are.

    Args:
        total: Σ|credit| over those tokens, of any shape.
        tokens: how many they are, of the same shape.
    """
    total, tokens = np.asarray(total, dtype=np.float64), np.asarray(tokens, dtype=np.float64)
    # NaN and not 0: where nothing was counted, nothing is known of the credit.
    mean: np.ndarray = np.divide(total, tokens, out=np.full(total.shape, np.nan), where=tokens > 0)
    return mean
