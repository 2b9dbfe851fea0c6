"""Statistical inference, against definitions and against SciPy."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from ktae.inference import (
    RESAMPLES,
    bootstrap_means,
    holm,
    n_discoveries,
    pooled_p_value,
    sign_flip_p_value,
)


@pytest.mark.parametrize("draws", [9, 999])
def test_a_p_value_of_random_deals_is_never_0(draws):
    """The observed deal is one of them: no other one is as far from 0 here."""
    sides = [(0, 16, 16, 16)] * 40
    assert pooled_p_value(sides, draws=draws) == 1 / (1 + draws)


def test_discoveries_against_scipy():
    rng = np.random.default_rng(0)
    for size in (1, 5, 40):
        for _ in range(50):
            p = rng.choice([0.001, 0.004, 0.02, 0.03, 0.2, 1.0], size)
            times = rng.integers(0, 4, size)
            each = np.repeat(p, times)
            expected = (stats.false_discovery_control(each) <= 0.05).sum() if len(each) else 0
            assert n_discoveries(p, times, 0.05) == expected


@pytest.mark.parametrize(("better", "worse"), [(0, 0), (1, 0), (5, 1), (3, 3), (20, 8), (0, 12)])
def test_with_one_sample_it_is_mcnemars_exact_test(better, worse):
    differences = [1] * better + [-1] * worse + [0] * 7
    expected = stats.binomtest(better, better + worse).pvalue if better + worse else 1.0
    assert math.isclose(sign_flip_p_value(differences), expected, rel_tol=1e-9)


def test_holm_is_as_statsmodels_documents_it():
    """By hand: sorted .01 .02 .03 .2 times 4 3 2 1, made non-decreasing."""
    assert holm([0.03, 0.01, 0.2, 0.02]) == pytest.approx([0.06, 0.04, 0.2, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", [6, 7, 11])
def test_p_is_the_share_of_all_sign_patterns(n, seed):
    differences = np.random.default_rng(seed).normal(0.4, 1, n)
    signs = np.array(list(itertools.product((-1, 1), repeat=n)))
    expected = np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12)
    assert sign_flip_p_value(differences) == pytest.approx(expected, rel=1e-12)


def test_p_by_hand():
    assert sign_flip_p_value(np.full(6, 0.1)) == 2 / 2**6  # all of one sign: two patterns of 64
    assert sign_flip_p_value(np.linspace(0.1, 2, 20)) == 2 / 2**20
    assert sign_flip_p_value(np.zeros(6)) == 1
    assert sign_flip_p_value(np.array([1.0, -1.0, 2.0, -2.0, 3.0, -3.0])) == 1
    # Ties that rounding would break: .1 + .2 and .3 are the same distance.
    assert sign_flip_p_value(np.array([0.1, 0.2, -0.3, 0.1, 0.2, -0.3])) == 1


def test_the_bootstrap_of_many_values_is_that_of_their_distinct_ones():
    """200,000 problems; all resamples of each at once would be 16 GB."""
    rng = np.random.default_rng(0)
    values = (rng.random(200_000) < 0.3).astype(np.float64)
    means = bootstrap_means(values, rng)
    assert means.shape == (RESAMPLES,)
    assert means.mean() == pytest.approx(values.mean(), abs=5e-5)
    assert means.std() == pytest.approx(values.std() / len(values) ** 0.5, rel=0.05)
