"""How the statistics of contingency tables are computed: where the batch's arrays are.

`cpu` computes arrays, compiled by numba; `numpy` computes the first ones of a process, which are
done before a compiler is, and all tables; `torch` computes tensors on any device. `naive` is the
reference, plain loops that tests and benchmarks compare the others with. Each has
`credit(batch, formula)`: (B, T) float32, the credit of each counted token of the rollouts of known
correctness, and 0 elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ktae.arrays import Array, is_tensor
from ktae.statistics import Formula

if TYPE_CHECKING:
    from ktae.batch import Batch


class CreditTable(NamedTuple):
    """The credit table: one row for each group and token, and how every number came about.

    Columns of equal length; rows are sorted by group and token id. In a group whose known rollouts
    are all correct or all incorrect there is nothing to compare: p is 1, every other statistic is
    0, and so is the credit.
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


FIRST_POSITIONS = 1 << 20
"""Padded positions of a process before the CPU backend begins, which takes seconds to compile."""

_positions = 0


def credit(batch: Batch, formula: Formula) -> Array:
    """(B, T) float32 credit by the formula, computed where the batch is."""
    global _positions
    # Each backend imports a library that takes long to import.
    if is_tensor(batch.token_ids):
        from ktae.backends import torch

        return torch.credit(batch, formula)
    _positions += batch.token_ids.size
    if _positions <= FIRST_POSITIONS:
        from ktae.backends import numpy

        return numpy.credit(batch, formula)
    from ktae.backends import cpu

    return cpu.credit(batch, formula)
