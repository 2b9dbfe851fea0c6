"""What wraps an estimator and is one again: scales, units, centring. They compose as in optax."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Iterator
from typing import Literal

from typing_extensions import override

from ktae.arrays import MAX_TOKEN_ID, Array, namespace
from ktae.batch import Batch, group_total
from ktae.counting.units import NGRAMS
from ktae.errors import InputError
from ktae.estimators.base import AboveZero, AdvantageEstimator, ByUnits, Estimator, TurnEstimator
from ktae.estimators.units import BREAKS, UNITS, unit_keys

NEEDS = ("takes_scores", "needs_vocabulary", "needs_policy", "needs_turn_rewards", "on_host")
"""What a wrapper needs because the wrapped estimator does."""


@dataclasses.dataclass(frozen=True, repr=False)
class Transform(Estimator):
    """An estimator made of another one."""

    inner: Estimator
    """What is wrapped."""

    def __post_init__(self) -> None:
        if not isinstance(self.inner, Estimator):
            expected = "an estimator, such as ktae.estimators.preset('paper')"
            raise InputError(f"{type(self).__name__} wraps {self.inner!r}; expected {expected}")
        super().__post_init__()
        for name in NEEDS:
            value = getattr(type(self), name) or getattr(self.inner, name)
            object.__setattr__(self, name, value)


@dataclasses.dataclass(frozen=True, repr=False)
class Scaled(Transform):
    """The credit times a factor."""

    factor: AboveZero
    """Above 0."""

    @override
    def by_units(self) -> ByUnits | None:
        inner = self.inner.by_units()
        return inner and inner._replace(factor=self.factor * inner.factor)

    @override
    def credit(self, batch: Batch) -> Array:
        if by_units := self.by_units():
            return by_units.credit(batch)
        credit_bt = self.inner.credit(batch)
        credit_bt *= self.factor
        return credit_bt


@dataclasses.dataclass(frozen=True, repr=False)
class Ignoring(Transform):
    """Some token ids are neither counted nor given credit, as if they were masked.

    For instance that of the end of the sequence, whose credit says which rollouts were truncated.
    """

    token_ids: tuple[int, ...]
    """From 0 to 2^31 - 1; kept sorted, each once."""

    counted: bool = False
    """They count in the statistics and only get no credit, as in the released code."""

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            ids = tuple(sorted({operator.index(token_id) for token_id in self.token_ids}))
        except TypeError:
            ids = (-1,)
        if ids and not 0 <= ids[0] <= ids[-1] <= MAX_TOKEN_ID:
            raise InputError(
                f"token_ids is {self.token_ids!r}; expected a list of ids from 0 to {MAX_TOKEN_ID}"
            )
        object.__setattr__(self, "token_ids", ids)

    @override
    def credit(self, batch: Batch) -> Array:
        if self.counted:
            return _without_credit(self.inner.credit(batch), batch.token_ids, self.token_ids)
        ignored = tuple(sorted({*batch.ignored, *self.token_ids}))
        return self.inner.credit(batch._replace(ignored=ignored))


@dataclasses.dataclass(frozen=True, repr=False)
class OverUnits(Transform):
    """The mean of the credit that a token gets as part of each unit: itself, its bigram, its line.

    The wrapped estimator sees the units' keys in place of the token ids (`ktae.estimators.units`).
    """

    units: tuple[str, ...]
    """Names in `UNITS`, none twice."""

    def __post_init__(self) -> None:
        super().__post_init__()
        units = (self.units,) if isinstance(self.units, str) else self.units
        is_list = isinstance(units, list | tuple) and len(units) > 0
        if not is_list or any(x not in UNITS or units.count(x) > 1 for x in units):
            expected = f"one or more of {', '.join(UNITS)}, none of them twice"
            raise InputError(f"units is {self.units!r}; expected {expected}")
        object.__setattr__(self, "units", tuple(units))
        if isinstance(innermost(self.inner), TurnEstimator):
            raise InputError(
                f"{innermost(self.inner)} compares whole turns itself; expected no OverUnits of it"
            )
        if not {*units}.isdisjoint(BREAKS):
            object.__setattr__(self, "needs_vocabulary", True)

    @override
    def by_units(self) -> ByUnits | None:
        inner = self.inner.by_units()
        if inner is None or inner.units != ("token",) or not {*self.units} <= {*NGRAMS}:
            return None
        return inner._replace(units=self.units)

    @override
    def credit(self, batch: Batch) -> Array:
        if by_units := self.by_units():
            return by_units.credit(batch)
        # Beside keys of units the ids of tokens would mean nothing: they are ignored here.
        *wrappers, inner = layers(self.inner)
        for wrapper in reversed(wrappers):
            if not isinstance(wrapper, Ignoring):
                inner = dataclasses.replace(wrapper, inner=inner)  # type: ignore[type-var]
        ignored = {*batch.ignored, *ignored_by(self.inner)}
        counted_bt = batch._replace(ignored=tuple(sorted(ignored))).counted()

        def credit_of(unit: str) -> Array:
            arrays = unit, batch.token_ids, counted_bt
            keys_bt = unit_keys(*arrays, vocabulary=batch.vocabulary, written=batch.mask)
            return inner.credit(batch._replace(token_ids=keys_bt, mask=counted_bt, ignored=()))

        credit_bt = functools.reduce(operator.iadd, map(credit_of, self.units))
        credit_bt /= len(self.units)
        silent = ignored_by(self.inner, counted=True)
        return _without_credit(credit_bt, batch.token_ids, silent)


@dataclasses.dataclass(frozen=True, repr=False)
class Centred(Transform):
    """The credit less its mean over the group, so that a group as a whole gets none."""

    over: Literal["tokens", "rollouts"] = "tokens"
    """What weighs the same in the group's mean. Take that of the loss: `rollouts` where it averages
    each response first, as the loss `grpo` does."""

    @override
    def credit(self, batch: Batch) -> Array:
        credit_bt = self.inner.credit(batch)
        counted_bt = batch.counted() & batch.known()[:, None]
        float64 = namespace(credit_bt).float64
        sums_b = (credit_bt * counted_bt).sum(1, dtype=float64)
        weight_b = counted_bt.sum(1, dtype=float64)
        if self.over == "rollouts":
            sums_b, weight_b = sums_b / weight_b.clip(1), weight_b.clip(0, 1)
        total_b = group_total(weight_b, batch.group_b).clip(1)
        credit_bt -= (group_total(sums_b, batch.group_b) / total_b)[:, None] * counted_bt
        return credit_bt


def layers(estimator: Estimator) -> Iterator[Estimator]:
    """The estimator, what it wraps, and so on."""
    yield estimator
    while isinstance(estimator, Transform):
        estimator = estimator.inner
        yield estimator


def innermost(estimator: Estimator) -> Estimator:
    """What is wrapped by all the wrappers; an estimator without any is its own."""
    *_, last = layers(estimator)
    return last


def ignored_by(estimator: Estimator, *, counted: bool = False) -> tuple[int, ...]:
    """The token ids, sorted, that its wrappers ignore: with `counted` those that still count."""
    ignoring = (x for x in layers(estimator) if isinstance(x, Ignoring) and x.counted == counted)
    return tuple(sorted({token_id for layer in ignoring for token_id in layer.token_ids}))


def require_scale(estimator: Estimator, scaled: bool | None, what: str) -> None:
    """Raise an InputError where the estimator changes other rollout advantages than those there.

    `scaled` tells whether these are divided by their group's standard deviation (None: they are
    neither that nor R - mean), and `what` is their name for the user, such as `base is 'rloo'`.
    """
    inner = innermost(estimator)
    if isinstance(inner, AdvantageEstimator) and inner.scale_by_std != scaled:
        expected = "GRPO's or Dr. GRPO's" if scaled is None else f"scale_by_std={scaled}"
        raise InputError(
            f"{inner} has scale_by_std={inner.scale_by_std} and {what}; expected {expected}"
        )


def _without_credit(credit_bt: Array, token_ids_bt: Array, token_ids: tuple[int, ...]) -> Array:
    for token_id in token_ids:
        credit_bt[token_ids_bt == token_id] = 0.0
    return credit_bt
