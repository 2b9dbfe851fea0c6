"""The controls as wrappers of any estimator: its credit by chance, or one part of it alone.

`ktae.estimators.controls` has what they do, as functions of arrays.
"""

from __future__ import annotations

import dataclasses

from typing_extensions import override

from ktae.arrays import Array
from ktae.batch import Batch
from ktae.errors import InputError
from ktae.estimators import controls
from ktae.estimators.base import require_integer
from ktae.estimators.transforms import Moved, OfGroups, OverUnits, Transform


@dataclasses.dataclass(frozen=True, repr=False)
class GroupMean(OfGroups):
    """A control: every token of a group gets the mean credit of the group.

    It is a function of the group alone: an offset of all its advantages, and no rollout or token
    is told from another.
    """

    @override
    def moved(self, credit_bt: Array, batch: Batch) -> Array:
        return self.shared(credit_bt, batch)


@dataclasses.dataclass(frozen=True, repr=False)
class RolloutMean(Moved):
    """A control: every token of a rollout gets the mean credit of the rollout's tokens."""

    @override
    def moved(self, credit_bt: Array, batch: Batch) -> Array:
        return controls.rollout_means(credit_bt, batch.counted())


@dataclasses.dataclass(frozen=True, repr=False)
class WithinRollout(Moved):
    """A control: the credit less its mean over the rollout, whose own advantage stays as it was."""

    @override
    def moved(self, credit_bt: Array, batch: Batch) -> Array:
        return controls.within_rollouts(credit_bt, batch.counted())


@dataclasses.dataclass(frozen=True, repr=False)
class _Seeded(Transform):
    """A control that draws at random."""

    seed: int = 0
    """Of its random numbers, which depend on it and the rollouts alone; from 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "seed", require_integer("seed", self.seed, 0))


@dataclasses.dataclass(frozen=True, repr=False)
class PermutedLabels(_Seeded):
    """A control: the estimator sees correctness permuted among the rollouts of each group."""

    @override
    def credit(self, batch: Batch) -> Array:
        permuted_b = controls.permuted_labels(
            batch.token_ids, batch.counted(), batch.evidence, batch.group_b, seed=self.seed
        )
        return self.inner.credit(batch._replace(evidence=permuted_b))


@dataclasses.dataclass(frozen=True, repr=False)
class ShuffledValues(_Seeded, Moved):
    """A control: credit exchanged among the distinct tokens of each group.

    It wraps an estimator of one unit, inside of `OverUnits`: then each unit's are exchanged.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = self.inner
        while isinstance(inner, Transform):
            if isinstance(inner, OverUnits | RandomPlaces | RolloutMean | WithinRollout):
                raise InputError(
                    f"ShuffledValues wraps {type(inner).__name__}, which gives one token several "
                    "values; expected one value for each token of a group. With several units, "
                    "let ShuffledValues wrap the estimator inside of OverUnits"
                )
            inner = inner.inner
        if not inner.one_value_a_token:
            raise InputError(
                f"ShuffledValues wraps {type(inner).__name__}, which gives one token several "
                "values, by its place; expected one value for each token of a group. RandomPlaces "
                "and PermutedLabels are controls of it"
            )

    @override
    def moved(self, credit_bt: Array, batch: Batch) -> Array:
        return controls.shuffled_values(
            credit_bt,
            batch.token_ids,
            batch.counted(),
            batch.evidence,
            batch.group_b,
            seed=self.seed,
        )


@dataclasses.dataclass(frozen=True, repr=False)
class RandomPlaces(_Seeded, Moved):
    """A control: each rollout's credit, on random tokens of the same rollout."""

    @override
    def moved(self, credit_bt: Array, batch: Batch) -> Array:
        return controls.random_places(
            credit_bt, batch.counted(), token_ids=batch.token_ids, seed=self.seed
        )
