"""What estimators that follow the order of tokens share: packed rollouts, and their moments.

They compute in NumPy, one place of all rollouts after the other, and stop where rollouts have
nothing in common any more: as a rule that is soon.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ktae.batch import Batch, differ, group_total
from ktae.rollout_advantages import EPSILON

POSITIONS_AT_ONCE = 1 << 22
"""Padded positions that are packed at a time, as far as one group allows: some 100 MB."""


class Packed(NamedTuple):
    """The counted tokens of some whole groups' rollouts, without holes.

    Rollouts are left out that have no counted token, are of unknown correctness (unless these are
    looked up), or are in a group whose known rewards do not differ.
    """

    rows: np.ndarray
    """(n,) the rollouts."""
    group: np.ndarray
    """(n,) their groups."""
    ids: np.ndarray
    """(n, L) token ids from the left on."""
    columns: np.ndarray
    """(n, L) where in the batch they stand."""
    length: np.ndarray
    """(n,) how many there are."""


class Moments(NamedTuple):
    """Of the rewards of each row's group, over the known rollouts that have a counted token."""

    mean: np.ndarray
    """(B,) NaN where the rewards do not differ."""
    scale: np.ndarray
    """(B,) what differences of rewards are divided by: the sample's standard deviation, or 1."""


def moments(batch: Batch, scale_by_std: bool) -> Moments:
    """The moments of a batch of arrays."""
    is_evidence_b = batch.known() & batch.counted().any(axis=1)
    reward_b = np.where(is_evidence_b, batch.evidence, 0.0)
    n_b = group_total(is_evidence_b, batch.group_b)
    mean_b = group_total(reward_b, batch.group_b) / n_b.clip(1)
    squares_b = group_total(is_evidence_b * (reward_b - mean_b) ** 2, batch.group_b)
    scale_b = np.sqrt(squares_b / (n_b - 1).clip(1)) + EPSILON
    return Moments(
        np.where(differ(*batch.score_bounds()), mean_b, np.nan),
        scale_b if scale_by_std else np.ones(len(scale_b)),
    )


def packed(batch: Batch, mean_b: np.ndarray) -> Iterator[Packed]:
    """Consecutive groups of a batch of arrays, packed.

    Args:
        batch: whose token ids are checked.
        mean_b: NaN for rollouts of groups that take no part, see `Moments`.
    """
    rows, starts = batch.by_group()
    at_once = max(1, POSITIONS_AT_ONCE // max(1, batch.token_ids.shape[1]))
    begin = 0
    while begin < len(starts) - 1:
        end = max(begin + 1, int(np.searchsorted(starts, starts[begin] + at_once, "right")) - 1)
        some = rows[starts[begin] : starts[end]]
        takes_part = ~np.isnan(mean_b[some]) & (batch.look_up_unknown | batch.known()[some])
        part = batch._replace(token_ids=batch.token_ids[some], mask=batch.mask[some])
        counted = part.counted() & takes_part[:, None]
        length = counted.sum(axis=1)
        inside = np.arange(length.max(initial=0)) < length[:, None]
        ids, columns = np.zeros((2, *inside.shape), dtype=np.int32)
        ids[inside], columns[inside] = part.token_ids[counted], np.nonzero(counted)[1]
        kept = length > 0
        yield Packed(some[kept], batch.group_b[some[kept]], ids[kept], columns[kept], length[kept])
        begin = end
