"""STRIDE: against plain loops, by hand, over all permuted labels, and what it needs."""

import itertools
import math
import statistics

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import ktae
from ktae.batch import make_batch
from ktae.counting.units import NGRAMS
from ktae.estimators import Stride
from ktae.rollouts import record


def windows(row, n):
    """The n-gram that ends at each token of a list, shorter at the beginning."""
    return [tuple(row[max(0, t + 1 - n) : t + 1]) for t in range(len(row))]


def naive(batch, *, unit, omega):
    n = NGRAMS.index(unit) + 1
    credit = np.zeros(batch.mask.shape)
    for group in np.unique(batch.group_b):
        rows = [
            i
            for i in np.flatnonzero(batch.group_b == group)
            if batch.counted()[i].any() and not math.isnan(batch.evidence[i])
        ]
        columns = {i: np.flatnonzero(batch.counted()[i]) for i in rows}
        grams = {i: windows(batch.token_ids[i, columns[i]].tolist(), n) for i in rows}
        entropies = {i: batch.entropies[i, columns[i]].tolist() for i in rows}
        by_label = [[i for i in rows if batch.evidence[i] == label] for label in (1, 0)]
        if not all(by_label):
            continue
        mean = statistics.mean(itertools.chain(*entropies.values())) or 1.0

        for i in rows:
            values = []
            for t, gram in enumerate(grams[i]):
                correct, wrong = (
                    statistics.mean(gram in grams[i] for i in members) for members in by_label
                )
                saliency = statistics.mean(entropies[i][max(0, t + 1 - n) : t + 1]) / mean
                values.append((correct - wrong) * saliency)
            for t, column in enumerate(columns[i]):
                credit[i, column] = omega * statistics.mean(values[t : t + n])
    return credit


@given(st.integers(0, 2**32 - 1), st.sampled_from(NGRAMS), st.sampled_from([1.0, 0.3]))
def test_it_is_what_plain_loops_give(seed, unit, omega):
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 10)), int(rng.integers(1, 10)))
    mask = rng.random(shape) < rng.choice([0.6, 1.0])
    batch = make_batch(
        rng.integers(0, rng.integers(1, 4), shape),
        mask,
        rng.choice([0.0, 1.0, 1.0, math.nan], len(mask)),
        rng.integers(0, 2, len(mask)),
    )._replace(entropies=rng.uniform(0, 3, shape).round(1), ignored=(2,) if seed % 2 else ())
    credit = Stride(unit=unit, omega=omega).credit(batch)
    assert credit.dtype == np.float32
    np.testing.assert_allclose(credit, naive(batch, unit=unit, omega=omega), rtol=0, atol=1e-5)


RESPONSES = [[1, 2, 3], [1, 2], [3, 2]]
ENTROPIES = np.array([[1.0, 3, 2], [1, 2, 0], [3, 2, 0]])
"""Their mean, of seven tokens, is 2."""


def credit(estimator, correct=(1, 0, 0), responses=RESPONSES, entropies=ENTROPIES):
    ids, mask = record.pad(responses)
    policy = None if entropies is None else {"entropies": entropies}
    return ktae.token_credit(ids, mask, list(correct), [0] * len(ids), estimator, policy=policy)


def test_by_hand():
    """Shares in the correct response less those in the two others: 1 - 1/2 of token 1, 0 of token 2
    and 1/2 of token 3; 1/2 of the pair 1 2, 1 of 2 3, -1/2 of 3 2."""
    expected = np.array([[1 / 2 * 1, 0, 1 / 2 * 2], [1 / 2 * 1, 0, 0], [1 / 2 * 3, 0, 0]]) / 2
    np.testing.assert_allclose(credit(Stride(unit="token")), expected, atol=1e-6)
    np.testing.assert_allclose(credit(Stride(unit="token", omega=2)), 2 * expected, atol=1e-6)
    # A response begins with a pair of one token alone: 1 - 1/2 of 1, and -1/2 of 3.
    pairs = [[0.5 * 1, 0.5 * 2, 1 * 2.5], [0.5 * 1, 0.5 * 1.5], [-0.5 * 3, -0.5 * 2.5]]
    expected = np.zeros((3, 3))
    for i, row in enumerate(pairs):
        expected[i, : len(row)] = [statistics.mean(row[t : t + 2]) / 2 for t in range(len(row))]
    np.testing.assert_allclose(credit(Stride(unit="bigram")), expected, atol=1e-6)
