"""The credit table: one row for each group and token, and how every number came about."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class CreditTable(NamedTuple):
    """Columns of equal length; rows are sorted by group and token id.

    In a group whose known rollouts are all correct or all incorrect there is nothing to compare:
    p is 1, every other statistic is 0, and so is the credit.
    """

    group: np.ndarray
    """The caller's label of the group."""
    token_id: np.ndarray
    """int64."""
    a: np.ndarray
    """Correct rollouts that contain the token: int64, or with graded scores that are not all 0 or 1
    float64, their sum (with a z-score, of scores scaled to 0 to 1 within the group)."""
    b: np.ndarray
    """Incorrect rollouts that contain it, as `a`."""
    c: np.ndarray
    """Correct rollouts that do not, as `a`."""
    d: np.ndarray
    """Incorrect rollouts that do not, as `a`."""
    tf_true: np.ndarray
    """float64: the token's share of all tokens of the correct rollouts."""
    tf_false: np.ndarray
    """float64: the token's share of all tokens of the incorrect rollouts."""
    p_value: np.ndarray
    """float64: Fisher's exact test of [[a, b], [c, d]]."""
    fisher_score: np.ndarray
    """float64: exp(-2 p), 0 where p = 1."""
    information_gain: np.ndarray
    """float64, bits."""
    direction: np.ndarray
    """float64: effect size plus h3 times the frequency contrast; above 0 speaks for correct."""
    value: np.ndarray
    """float64: the value, before the sigmoid; or the z-score."""
    credit: np.ndarray
    """float64: what is added to the rollout advantage."""
