"""The table of single tokens that an estimator rests on. Larger units, controls and whatever moves
credit between tokens are left out; scales and ignored tokens stay."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple, cast

import numpy as np

from ktae import counting
from ktae.arrays import Array
from ktae.batch import Batch
from ktae.counting.units import NGRAMS
from ktae.estimators import Estimator, PresenceZ
from ktae.estimators.base import ContingencyEstimator
from ktae.estimators.transforms import (
    Ignoring,
    OverUnits,
    Scaled,
    Transform,
    ignored_by,
    innermost,
    layers,
)
from ktae.stats import fisher_score, information_gain


class CreditTable(NamedTuple):
    """One row for each group and token, and how every number came about.

    Rows are sorted by group and token id. In a group whose known responses are all correct or all
    incorrect there is nothing to compare: p is 1, every other statistic and the credit 0.
    """

    group: np.ndarray
    """The caller's label of the group."""
    token_id: np.ndarray
    """int64."""
    a: np.ndarray
    """int64: correct responses that contain the token. With graded scores that are not all 0 or 1
    float64, the sum of scores scaled to 0 to 1 within the group."""
    b: np.ndarray
    """Incorrect responses that contain it, as `a`."""
    c: np.ndarray
    """Correct responses that do not, as `a`."""
    d: np.ndarray
    """Incorrect responses that do not, as `a`."""
    tf_correct: np.ndarray
    """float64: the token's share of all tokens of the correct responses."""
    tf_incorrect: np.ndarray
    """float64: the token's share of all tokens of the incorrect responses."""
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
    """float64: what is added to the response's advantage."""


def in_tables(estimator: Estimator) -> Estimator | None:
    """What a table shows of the estimator: a statistic in `Scaled` and `Ignoring` alone; None: it
    rests on no contingency tables."""
    if isinstance(estimator, PresenceZ):
        return dataclasses.replace(estimator, graded_rewards=False)
    if isinstance(estimator, ContingencyEstimator):
        return estimator
    inner = in_tables(estimator.inner) if isinstance(estimator, Transform) else None
    if inner is None or not isinstance(estimator, Scaled | Ignoring):
        return inner
    return dataclasses.replace(estimator, inner=inner)


def ngrams_of(estimator: Estimator) -> tuple[str, ...] | None:
    """The n-grams whose tables make the whole of a token's credit, which is their mean; None: it
    comes from elsewhere too, such as other units or the order of tokens."""
    units: tuple[str, ...] = ("token",)
    while isinstance(estimator, Scaled | Ignoring | OverUnits):
        if isinstance(estimator, OverUnits):
            if units != ("token",):
                return None
            units = estimator.units
        estimator = estimator.inner
    is_table = isinstance(estimator, ContingencyEstimator) and not estimator.takes_scores
    return units if is_table and set(units) <= set(NGRAMS) else None


def table_of(batch: Batch, estimator: Estimator) -> CreditTable:
    """The credit table of a batch of arrays, for what `in_tables` gives; `batch` has labels."""
    statistic = cast("ContingencyEstimator", innermost(estimator))
    counts = counting.count(statistic.prepared(batch), by_unit=True)
    keys, labels = counts.key, batch.labels
    assert keys is not None and labels is not None
    a, b, n_correct, n_incorrect = counts.table
    cells = np.float64 if batch.graded else np.int64
    compared = counts.comparable()
    tokens = counts.of_group("tokens_correct"), counts.of_group("tokens_incorrect")
    occur = counts.occurrences_correct, counts.occurrences - counts.occurrences_correct
    with np.errstate(all="ignore"):  # where there is nothing to compare
        explained = statistic.explain(counts)
        credit = _factor(estimator) * explained.credit
        frequencies = [x / np.where(n > 0, n, 1.0) for x, n in zip(occur, tokens, strict=True)]
        p, gain = np.ones(len(keys)), np.zeros(len(keys))
        if not batch.graded:  # of graded scores, which may be anything, there is no exact test
            tables, place = counts.distinct_tables()
            p = np.where(compared, statistic.p_values(tables)[place], 1.0)
            gain = information_gain(*tables)[place]
    columns = (
        keys,
        *(cell.astype(cells) for cell in (a, b, n_correct - a, n_incorrect - b)),
        *frequencies,
        p,
        fisher_score(p),
        *(
            np.where(compared, column, 0.0) + 0.0  # not -0.0
            for column in (gain, explained.direction, explained.value, credit)
        ),
    )
    # Row 0 is that of no unit.
    table = CreditTable(labels[counts.group[1:]], *(column[1:] for column in columns))
    table.credit[np.isin(table.token_id, ignored_by(estimator, counted=True))] = 0.0
    return table


def largest_credit(estimator: Estimator, n: Array) -> Array:
    """What no |credit| in a group of n responses exceeds, for what `in_tables` gives."""
    return _factor(estimator) * cast("ContingencyEstimator", innermost(estimator)).largest(n)


def _factor(estimator: Estimator) -> float:
    return math.prod(layer.factor for layer in layers(estimator) if isinstance(layer, Scaled))
