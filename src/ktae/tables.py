"""What of an estimator a table of single tokens shows.

A table shows the statistic of single tokens and verdicts that an estimator rests on. Larger units,
controls and whatever moves credit between tokens are left out; scales and ignored tokens stay.
"""

from __future__ import annotations

import dataclasses
from typing import Any, cast

from ktae.arrays import Array
from ktae.estimators import Estimator, as_estimator, preset
from ktae.estimators.base import ContingencyEstimator
from ktae.estimators.transforms import Ignoring, OverUnits, Scaled, Transform
from ktae.statistics import Formula


def in_tables(estimator: Estimator) -> Estimator | None:
    """What a table shows of the estimator: a statistic in `Scaled` and `Ignoring` alone.

    None: it rests on no contingency tables.
    """
    if isinstance(estimator, ContingencyEstimator):
        return dataclasses.replace(estimator, graded_rewards=False)
    inner = in_tables(estimator.inner) if isinstance(estimator, Transform) else None
    if inner is None or not isinstance(estimator, Scaled | Ignoring):
        return inner
    return dataclasses.replace(estimator, inner=inner)


NGRAMS = ("token", "bigram", "trigram")
"""Units that are runs of token ids, so that a page's script can count them."""


def ngrams_of(estimator: Estimator) -> tuple[str, ...] | None:
    """The n-grams whose tables make the whole of a token's credit, which is their mean.

    None: credit comes from elsewhere too: other units, the order of tokens, graded scores, what
    moves credit between tokens.
    """
    units: tuple[str, ...] = ("token",)
    while isinstance(estimator, Scaled | Ignoring | OverUnits):
        if isinstance(estimator, OverUnits):
            if units != ("token",):
                return None
            units = estimator.units
        estimator = estimator.inner
    is_table = isinstance(estimator, ContingencyEstimator) and not estimator.graded_rewards
    return units if is_table and set(units) <= set(NGRAMS) else None


def table_estimator(estimator: Any) -> Estimator:
    """What tables of single tokens are made with: the paper's beside one that rests on none."""
    return in_tables(as_estimator(estimator)) or preset("paper")


def formula_of(estimator: Estimator) -> Formula:
    """The formula of what `in_tables` gives, with the factors of all `Scaled` in it."""
    if isinstance(estimator, Transform):
        formula = formula_of(estimator.inner)
        factor = estimator.factor if isinstance(estimator, Scaled) else 1.0
        return formula._replace(credit_scale=factor * formula.credit_scale)
    return cast("ContingencyEstimator", estimator).formula()


def largest_credit(estimator: Estimator, n: Array) -> Array:
    """What no |credit| in a group of n rollouts exceeds, for what `in_tables` gives."""
    formula = formula_of(estimator)
    return formula.credit_scale * ((n - 1) ** 0.5 if formula.z else 0 * n + 0.5)
