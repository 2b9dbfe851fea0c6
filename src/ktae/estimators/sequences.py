"""What estimators that follow the order of tokens share: packed rollouts, and their moments.

They compute in NumPy, one place of all rollouts after the other, and stop where rollouts have
nothing in common any more: as a rule that is soon.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ktae.batch import CHECKED_AT_ONCE, Batch, differ, group_total
from ktae.rollout_advantages import EPSILON

POSITIONS_AT_ONCE = 1 << 22
"""Positions that are packed at a time, some 100 MB with what packing needs."""


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


class Rollouts:
    """The counted tokens of some whole groups' rollouts, without holes, place by place.

    Rollouts are left out that have no counted token, are of unknown correctness (unless these are
    looked up), or are in a group whose known rewards do not differ.
    """

    def __init__(self, batch: Batch, rows: np.ndarray, length: np.ndarray) -> None:
        self._batch = batch
        self.rows = rows
        """(n,) the rollouts."""
        self.group = batch.group_b[rows]
        """(n,) their groups."""
        self.length = length
        """(n,) how many counted tokens each has."""
        self._begin = self._end = 0

    def at(self, place: int, some: np.ndarray, *, from_end: bool = False) -> np.ndarray:
        """(2, len(some)) token ids and columns of some rollouts' tokens at a place from either end.

        Places are asked for in ascending order, from 0, of ever fewer rollouts, all of them longer.
        """
        if place == 0 or place >= self._end:
            self._pack(place, some, from_end)
        at_place: np.ndarray = self._packed[:, self._where[some], place - self._begin]
        return at_place

    def _pack(self, place: int, some: np.ndarray, from_end: bool) -> None:
        """Pack the rollouts' tokens from this place on, as many places as there is room for."""
        width = min(max(1, POSITIONS_AT_ONCE // len(some)), int(self.length[some].max()) - place)
        self._begin, self._end = place, place + width
        self._where = np.zeros(len(self.rows), dtype=np.int64)
        self._where[some] = np.arange(len(some))
        self._packed = np.zeros((2, len(some), width), dtype=np.int32)
        at_once = max(1, CHECKED_AT_ONCE // self._batch.token_ids.shape[1])
        for start in range(0, len(some), at_once):
            part = some[start : start + at_once]
            rows = self.rows[part]
            ids, mask = self._batch.token_ids[rows], self._batch.mask[rows]
            counted = self._batch._replace(token_ids=ids, mask=mask).counted()
            places = np.cumsum(counted, axis=1, dtype=np.int32) - 1
            if from_end:
                places = self.length[part, None] - 1 - places
            row, column = np.nonzero(counted & (places >= place) & (places < self._end))
            to = start + row, places[row, column] - place
            self._packed[0][to], self._packed[1][to] = ids[row, column], column


def parts_of(batch: Batch, mean_b: np.ndarray) -> Iterator[Rollouts]:
    """Consecutive groups of a batch of arrays, some at a time.

    Args:
        batch: whose token ids are checked.
        mean_b: NaN for rollouts of groups that take no part, see `Moments`.
    """
    takes_part_b = ~np.isnan(mean_b) & (batch.look_up_unknown | batch.known())
    length_b = batch.counted().sum(axis=1) * takes_part_b
    rows, starts = batch.by_group()
    rows_at_once = max(1, POSITIONS_AT_ONCE // max(1, batch.token_ids.shape[1]))
    begin = 0
    while begin < len(starts) - 1:
        fitting = np.searchsorted(starts, starts[begin] + rows_at_once, "right") - 1
        end = max(begin + 1, int(fitting))
        some = rows[starts[begin] : starts[end]]
        some = some[length_b[some] > 0]
        yield Rollouts(batch, some, length_b[some])
        begin = end
