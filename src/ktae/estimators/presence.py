"""The permutation z-score of presence: its mean under permuted labels is exactly 0."""

from __future__ import annotations

import dataclasses
from typing import Any

from typing_extensions import override

from ktae.arrays import LARGEST
from ktae.batch import Batch, ScoreRange, differ
from ktae.errors import InputError
from ktae.estimators.base import ContingencyEstimator, require_bool
from ktae.estimators.transforms import OverUnits, Scaled
from ktae.statistics import Formula

SCALE = 0.3
"""Weight of the presets' credit beside the rollout advantage."""


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class PresenceZ(ContingencyEstimator):
    """Credit z = (Σ r - m r̄) / √(m (n - m) / (n - 1) s²), over the m of n rollouts with the token.

    z is the permutation z-score of the summed scores of the rollouts that hold the token
    (`ktae.statistics.presence_z`). Its expected value under permuted labels is exactly 0, whatever
    the token's frequency and the group's accuracy, and its variance is 1. It is linear in the
    scores, so graded rewards need no other formula. |z| is at most √(n - 1), as GRPO's advantage.
    """

    sharp: bool = False
    """Credit (z³ - E z³) / (n - 1) instead of z: strong evidence keeps its weight, weak evidence
    fades (`ktae.statistics.sharpened`). The mean under permuted labels is still exactly 0. It is
    made for verdicts."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_bool("sharp", self.sharp)
        if self.sharp and self.graded_rewards:
            raise InputError("sharp is made for verdicts; expected graded_rewards=False beside it")

    @property
    def score_range(self) -> ScoreRange:
        """Any number far from float32's limit: z does not change with the scores' scale."""
        return (-LARGEST, LARGEST) if self.graded_rewards else None

    @override
    def prepared(self, batch: Batch) -> Batch:
        """Scores by where they are between their group's lowest and highest: z is the same.

        So no large or nearly equal numbers are left to lose digits. Groups whose scores differ by
        no more than rounding has left of them have 0 throughout.
        """
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
    def formula(self) -> Formula:
        # One tuple for both statistics, since the compiled kernels of every backend take one type.
        # For z, `point` is of the p-value that a table shows, h3=0 leaves out the contrast of
        # frequencies, and the other numbers from h1 to eps, here the paper's, are not looked at.
        return Formula(
            h1=1.0, h2=2.0, h3=0.0, k1=2.0, b_len=0.5, eps=1e-5,
            value_scale=1.0, credit_scale=1.0, point=False, z=True, sharp=self.sharp,
        )  # fmt: skip


def calibrated(**settings: Any) -> Scaled:
    """0.3 times the mean z of the token and of its bigram.

    z has variance 1 under permuted labels, as GRPO's advantage has over rollouts. So the scale is
    the credit's weight beside that advantage where a unit is informative. Over all tokens the root
    mean square is less (0.23 of it on random labels): many tokens are in every rollout, and the
    mean of two units varies less than one.
    """
    return Scaled(OverUnits(PresenceZ(**settings), ("token", "bigram")), SCALE)


def trigrams(**settings: Any) -> Scaled:
    """0.3 times the z of the token's trigram: the two tokens before and itself."""
    return Scaled(OverUnits(PresenceZ(**settings), ("trigram",)), SCALE)


def sharp_trigrams(**settings: Any) -> Scaled:
    """0.3 times the sharpened z of the token's trigram."""
    return trigrams(**{"sharp": True} | settings)
