"""An estimator of one's own, with settings: a difference of two shares.

`KTAETrainer(..., credit=MeanPresence())` takes it as it is, and so does `ktae.token_credit`. A line
in `KINDS` of `ktae.estimators.section` gives it a name for recipes, verl and `--estimator`. What
holds it to account is in `tests/docs/test_estimator_example.py`: a naive reference, all verdicts of
a small group, one value by hand.
"""

import dataclasses

import numpy as np
from typing_extensions import override

from ktae.arrays import Array
from ktae.batch import Batch
from ktae.estimators.base import Estimator, FromZero
from ktae.estimators.function import Function


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class MeanPresence(Estimator):
    """Credit scale (a / n_correct - b / n_incorrect): the share of correct rollouts that hold the
    token, less that of incorrect ones. It is linear in the verdicts: its mean under permuted labels
    is 0.
    """

    scale: FromZero = 1.0
    """Weight of the difference."""

    on_host = True

    @override
    def credit(self, batch: Batch) -> Array:
        return Function(self.of_arrays).credit(batch)

    def of_arrays(
        self, token_ids: np.ndarray, mask: np.ndarray, correct: np.ndarray, groups: np.ndarray
    ) -> np.ndarray:
        """(n, T) credit of rollouts that can be evidence; see `CreditFunction`."""
        credit = np.zeros(token_ids.shape)
        for group in np.unique(groups):
            rows = np.flatnonzero(groups == group)
            right, inside = correct[rows], mask[rows]
            if right.any() and not right.all():  # else there is nothing to compare
                tokens, which = np.unique(token_ids[rows][inside], return_inverse=True)
                holds = np.zeros((len(rows), len(tokens)))
                holds[np.nonzero(inside)[0], which] = 1
                own = np.zeros(inside.shape)
                own[inside] = (holds[right].mean(axis=0) - holds[~right].mean(axis=0))[which]
                credit[rows] = self.scale * own
        return credit
