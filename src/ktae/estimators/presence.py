"""The permutation z-score of presence: its mean under permuted labels is exactly 0."""

from __future__ import annotations

import dataclasses
from typing import Any

from typing_extensions import override

from ktae import stats
from ktae.arrays import Array
from ktae.batch import Batch, differ
from ktae.counting import Counts
from ktae.errors import InputError
from ktae.estimators.base import ContingencyEstimator, Explained, GradedEstimator
from ktae.estimators.transforms import OverUnits, Scaled

SCALE = 0.3
"""Weight of the presets' credit beside the rollout advantage."""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class PresenceZ(GradedEstimator, ContingencyEstimator):
    """Credit z = (Σ r - m r̄) / √(m (n - m) / (n - 1) s²), over the m of n rollouts with the token.

    z is the permutation z-score of the summed scores of the rollouts that hold the token
    (`ktae.stats.presence_z`). Its expected value under permuted labels is exactly 0, whatever
    the token's frequency and the group's accuracy, and its variance is 1. It is linear in the
    scores, so graded rewards need no other formula, and it does not change with their scale. |z| is
    at most √(n - 1), as GRPO's advantage.
    """

    sharp: bool = False
    """Credit (z³ - E z³) / (n - 1) instead of z: weak evidence fades (`ktae.stats.sharpened`), and
    the mean under permuted labels is still exactly 0. It is made for verdicts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sharp and self.graded_rewards:
            raise InputError("sharp is made for verdicts; expected graded_rewards=False beside it")

    @override
    def prepared(self, batch: Batch) -> Batch:
        """Scores by where they are between their group's lowest and highest: so z, which is the
        same, loses no digits; scores that differ by rounding alone are 0."""
        if not batch.graded:
            return batch
        low_b, high_b = batch.score_bounds()
        differ_b = differ(low_b, high_b)
        span_b = high_b - low_b
        span_b[~differ_b] = 1.0
        scores_b = (batch.evidence - low_b) / span_b
        scores_b[~differ_b & batch.known()] = 0.0
        return batch._replace(evidence=scores_b)

    @override
    def explain(self, counts: Counts) -> Explained:
        n, variance = counts.of_group("n"), counts.of_group("variance")
        moments = counts.responses, n, counts.of_group("n_correct") / n, variance
        z = stats.presence_z(counts.correct, *moments)
        if self.sharp:
            z = stats.sharpened(z, *moments)
        return Explained(z, z, z)

    @override
    def largest(self, n: Array) -> Array:
        return (n - 1) ** 0.5


def calibrated(**settings: Any) -> Scaled:
    """0.3 times the mean z of the token and of its bigram."""
    return Scaled(OverUnits(PresenceZ(**settings), ("token", "bigram")), SCALE)


def trigrams(**settings: Any) -> Scaled:
    """0.3 times the z of the token's trigram: the two tokens before and itself."""
    return Scaled(OverUnits(PresenceZ(**settings), ("trigram",)), SCALE)
