"""What wraps an estimator and is one again: scales, units, centring, decay.

Wrappers compose as in optax: each holds one estimator, passes it the rollouts (perhaps changed)
and gives back its credit (perhaps changed). A wrapper that moves credit between tokens takes it
without the rollout advantage, which it adds at the end.
"""

from __future__ import annotations

import abc
import dataclasses
import operator
from typing import TYPE_CHECKING, Any, cast

from ktae.arrays import LARGEST, MAX_TOKEN_ID, Array
from ktae.backends.units import NGRAMS
from ktae.errors import InputError
from ktae.estimators import controls
from ktae.estimators.base import (
    AdvantageEstimator,
    ContingencyEstimator,
    Estimator,
    require_integer,
    require_number,
)
from ktae.estimators.units import UNITS, keys_of

if TYPE_CHECKING:
    from ktae.backends.table import CreditTable
    from ktae.batch import Batch, ScoreRange
    from ktae.estimators.base import AnyBatch, MakeTable


@dataclasses.dataclass(frozen=True, repr=False)
class Transform(Estimator):
    """An estimator made of another one."""

    inner: Estimator
    """What is wrapped."""

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Estimator):
            raise InputError(
                f"{type(self).__name__} wraps {self.inner!r}; expected an estimator, such as "
                "ktae.estimators.preset('paper') or ktae.estimators.Function(f), with f your own"
            )

    @property
    def score_range(self) -> ScoreRange:
        """The wrapped estimator's."""
        return self.inner.score_range

    @property
    def needs_vocabulary(self) -> bool:
        """The wrapped estimator's."""
        return self.inner.needs_vocabulary

    @property
    def needs_policy(self) -> frozenset[str]:
        """The wrapped estimator's."""
        return self.inner.needs_policy

    @property
    def needs_step(self) -> bool:
        """The wrapped estimator's."""
        return self.inner.needs_step

    @property
    def on_host(self) -> bool:
        """The wrapped estimator's."""
        return self.inner.on_host

    def in_tables(self) -> Estimator | None:
        """The wrapped estimator's."""
        return self.inner.in_tables()


@dataclasses.dataclass(frozen=True, repr=False)
class Scaled(Transform):
    """The credit times a factor."""

    factor: float
    """Above 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        factor = require_number("factor", self.factor, 1 / LARGEST)
        object.__setattr__(self, "factor", factor)

    def credit(self, batch: AnyBatch, weight: float = 1.0) -> Array:
        """See `Estimator.credit`."""
        return self.inner.credit(batch, weight * self.factor)

    def in_tables(self) -> Estimator | None:
        """The wrapped estimator's, times the factor."""
        inner = self.inner.in_tables()
        return None if inner is None else Scaled(inner, self.factor)

    def table(self, batch: Batch, make: MakeTable, weight: float = 1.0) -> CreditTable:
        """See `Estimator.table`."""
        return self.inner.table(batch, make, weight * self.factor)

    def largest_credit(self, n: Array) -> Array:
        """See `Estimator.largest_credit`."""
        return self.factor * self.inner.largest_credit(n)


@dataclasses.dataclass(frozen=True, repr=False)
class Ignoring(Transform):
    """Some token ids are neither counted nor given credit, as if they were masked.

    The end-of-sequence token is in every finished rollout and in no truncated one, so its credit is
    a length signal; ignore its id to leave that signal out.
    """

    token_ids: tuple[int, ...]
    """From 0 to 2^31 - 1; kept sorted, each once."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "token_ids", _token_ids(self.token_ids))

    def credit(self, batch: AnyBatch, weight: float = 1.0) -> Array:
        """See `Estimator.credit`."""
        return self.inner.credit(self._without(batch), weight)

    def in_tables(self) -> Estimator | None:
        """The wrapped estimator's, without these tokens."""
        inner = self.inner.in_tables()
        return None if inner is None else Ignoring(inner, self.token_ids)

    def table(self, batch: Batch, make: MakeTable, weight: float = 1.0) -> CreditTable:
        """See `Estimator.table`."""
        return self.inner.table(cast("Batch", self._without(batch)), make, weight)

    def largest_credit(self, n: Array) -> Array:
        """See `Estimator.largest_credit`."""
        return self.inner.largest_credit(n)

    def _without(self, batch: AnyBatch) -> AnyBatch:
        return batch._replace(ignored=tuple(sorted({*batch.ignored, *self.token_ids})))


@dataclasses.dataclass(frozen=True, repr=False)
class OverUnits(Transform):
    """The mean of the credit that a token gets as part of each unit: itself, its bigram, its line.

    The wrapped estimator sees the units' keys in place of the token ids (`ktae.estimators.units`).
    """

    units: tuple[str, ...]
    """Names in `ktae.estimators.units.UNITS`, none twice."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "units", _units(self.units))

    @property
    def needs_vocabulary(self) -> bool:
        """Whether a unit is made of text."""
        return self.inner.needs_vocabulary or any(UNITS[x].needs_vocabulary for x in self.units)

    def credit(self, batch: AnyBatch, weight: float = 1.0) -> Array:
        """See `Estimator.credit`; each unit's share of the weight is rounded by itself."""
        ignored = tuple(sorted({*batch.ignored, *ignored_by(self.inner)}))
        weight /= len(self.units)
        if not ignored:
            return self._total(self.inner, batch, weight)
        # They are no part of any unit. Beside keys of units their ids would mean nothing.
        counted_bt = batch._replace(ignored=ignored).counted()
        own = batch._replace(mask=counted_bt, ignored=(), base=0 * batch.base)
        return _plus_base(self._total(_ignoring_nothing(self.inner), own, weight), batch)

    def _total(self, inner: Estimator, batch: AnyBatch, weight: float) -> Array:
        """The credit of all units, each times `weight`; the base goes with the first."""
        sizes = tuple(NGRAMS[x] for x in self.units if x in NGRAMS)
        at_once = batch.context.ngrams and len(sizes) == len(self.units)
        if at_once and isinstance(inner, ContingencyEstimator):
            formula = inner.formula(weight)
            return batch.context.contingency(inner.prepared(batch), formula, sizes)
        total_bt: Array | None = None
        for unit in self.units:
            keys_bt = keys_of(unit, batch)
            base_b = batch.base if total_bt is None else 0 * batch.base
            of_unit = batch._replace(token_ids=keys_bt, base=base_b)
            credit_bt = inner.credit(of_unit, weight)
            if total_bt is None:
                total_bt = credit_bt
            else:
                total_bt += credit_bt
        return total_bt


@dataclasses.dataclass(frozen=True, repr=False)
class Decayed(Transform):
    """The credit times a weight that falls linearly from 1 to 0 over the first training steps.

    What tokens tell may be worth much early and nothing late.
    """

    steps: int
    """Training steps (batches of rollouts) until it is 0; from 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "steps", require_integer("steps", self.steps, 1))

    @property
    def needs_step(self) -> bool:
        """The weight of a step follows from its number."""
        return True

    def credit(self, batch: AnyBatch, weight: float = 1.0) -> Array:
        """See `Estimator.credit`."""
        done = batch.context.step
        if done is None:
            raise InputError(
                f"the credit decays over {self.steps} training steps, and the step is not known; "
                "give step="
            )
        credit_bt = _without_base(self.inner, batch, weight)
        credit_bt *= max(0.0, 1.0 - done / self.steps)
        return _plus_base(credit_bt, batch)


@dataclasses.dataclass(frozen=True, repr=False)
class Moved(Transform):
    """Credit, changed after it was computed; a subclass says how."""

    def credit(self, batch: AnyBatch, weight: float = 1.0) -> Array:
        """See `Estimator.credit`."""
        return _plus_base(self.moved(_without_base(self.inner, batch, weight), batch), batch)

    @abc.abstractmethod
    def moved(self, credit_bt: Array, batch: AnyBatch) -> Array:
        """(B, T) the changed credit, 0 where a token is not counted."""


@dataclasses.dataclass(frozen=True, repr=False)
class OfGroups(Moved):
    """Credit with a part that all tokens of a group share."""

    over: str = "tokens"
    """What weighs the same in the group's mean: `tokens` or `rollouts`. Take that of the loss:
    `rollouts` where it averages each rollout first, as the loss `grpo` does. Ignored tokens, which
    the loss has and the mean lacks, leave a small rest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        controls.require_over(self.over)

    def shared(self, credit_bt: Array, batch: AnyBatch) -> Array:
        """(B, T) the group's mean."""
        correct_b = batch.evidence()
        return controls.group_means(
            credit_bt, batch.counted(), correct_b, batch.group_b, over=self.over
        )


@dataclasses.dataclass(frozen=True, repr=False)
class Centred(OfGroups):
    """The credit less its mean over the group, so that a group as a whole gets none.

    With `GroupMean` it adds up to the wrapped estimator's credit.
    """

    def moved(self, credit_bt: Array, batch: AnyBatch) -> Array:
        """See `controls.group_means`."""
        return credit_bt - self.shared(credit_bt, batch)


def innermost(estimator: Estimator) -> Estimator:
    """What is wrapped by all the wrappers; an estimator without any is its own."""
    while isinstance(estimator, Transform):
        estimator = estimator.inner
    return estimator


def require_scale(estimator: Estimator, scaled: bool | None, what: str) -> None:
    """Raise an InputError where the estimator changes other rollout advantages than those there.

    It would make 0 of a negative advantage, say, and leave a rest of it, or turn its sign.

    Args:
        estimator: any; all but an `AdvantageEstimator` go with every rollout advantage.
        scaled: whether the rollout advantages that credit is added to are divided by their group's
            standard deviation; None: they are neither that nor R - mean.
        what: what they are, as the user knows it, such as `base is 'rloo'`.
    """
    inner = innermost(estimator)
    if not isinstance(inner, AdvantageEstimator) or inner.scale_by_std == scaled:
        return
    expected = "GRPO's or Dr. GRPO's" if scaled is None else f"scale_by_std={scaled}"
    raise InputError(
        f"{inner} changes the rollout advantage, with scale_by_std={inner.scale_by_std}, and "
        f"{what}; expected {expected}"
    )


def ignored_by(estimator: Estimator) -> tuple[int, ...]:
    """The token ids that the wrappers of an estimator ignore, sorted."""
    ignored: set[int] = set()
    while isinstance(estimator, Transform):
        if isinstance(estimator, Ignoring):
            ignored.update(estimator.token_ids)
        estimator = estimator.inner
    return tuple(sorted(ignored))


def _ignoring_nothing(estimator: Estimator) -> Estimator:
    """The same without its `Ignoring`s."""
    if not isinstance(estimator, Transform):
        return estimator
    inner = _ignoring_nothing(estimator.inner)
    if isinstance(estimator, Ignoring):
        return inner
    return dataclasses.replace(estimator, inner=inner)


def _without_base(estimator: Estimator, batch: AnyBatch, weight: float) -> Array:
    return estimator.credit(batch._replace(base=0 * batch.base), weight)


def _plus_base(credit_bt: Array, batch: AnyBatch) -> Array:
    """The credit plus each rollout's base, in place; 0 where masked."""
    credit_bt += batch.base[:, None]
    credit_bt *= batch.mask != 0
    return credit_bt


def _units(names: Any) -> tuple[str, ...]:
    if isinstance(names, str):
        names = (names,)
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InputError(f"units is {names!r}; expected a tuple of names")
    if not names or len(set(names)) < len(names):
        raise InputError(f"units is {names!r}; expected at least one name, and none twice")
    for name in names:
        if name not in UNITS:
            raise InputError(f"no unit {name!r}; expected one of {', '.join(UNITS)}")
    return tuple(names)


def _token_ids(ids: Any) -> tuple[int, ...]:
    try:
        distinct = tuple(sorted({operator.index(i) for i in ids}))
    except TypeError:
        raise InputError(f"token_ids is {ids!r}; expected a list of token ids to ignore") from None
    if distinct and (distinct[0] < 0 or distinct[-1] > MAX_TOKEN_ID):
        raise InputError(f"token_ids is {ids!r}; expected ids from 0 to {MAX_TOKEN_ID}")
    return distinct
