"""Against scipy, exhaustive enumeration and numbers worked out by hand."""

import itertools

import numpy as np
import pytest
from scipy import stats

from ktae_lab.study.statistics import (
    centred_means,
    least_p_value,
    mean_interval,
    pointwise_band,
    sign_flip_p_value,
)


@pytest.mark.parametrize("n", [1, 6, 40, 41])
def test_the_least_p_is_that_of_pairs_of_one_sign(n):
    differences = np.random.default_rng(n).uniform(1, 2, n)
    assert least_p_value(n) == sign_flip_p_value(differences)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", [6, 7, 11])
def test_p_is_the_share_of_all_sign_patterns(n, seed):
    differences = np.random.default_rng(seed).normal(0.4, 1, n)
    signs = np.array(list(itertools.product((-1, 1), repeat=n)))
    expected = np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12)
    assert sign_flip_p_value(differences) == pytest.approx(expected, rel=1e-12)
    scipys = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf
    )
    assert sign_flip_p_value(differences) == pytest.approx(scipys.pvalue, rel=1e-12)


def test_p_by_hand():
    assert sign_flip_p_value(np.full(6, 0.1)) == 2 / 2**6  # all of one sign: two patterns of 64
    assert sign_flip_p_value(np.zeros(6)) == 1
    assert sign_flip_p_value(np.array([1.0, -1.0, 2.0, -2.0, 3.0, -3.0])) == 1
    # Ties that rounding would break: .1 + .2 and .3 are the same distance.
    assert sign_flip_p_value(np.array([0.1, 0.2, -0.3, 0.1, 0.2, -0.3])) == 1


def test_twenty_pairs_are_exact():
    differences = np.linspace(0.1, 2, 20)
    assert sign_flip_p_value(differences) == 2 / 2**20


def test_beyond_forty_pairs_random_patterns_come_close():
    differences = np.random.default_rng(1).normal(0.3, 1, 60)
    # The sum of so many signed differences is close to normal.
    z = differences.sum() / np.sqrt((differences**2).sum())
    assert sign_flip_p_value(differences) == pytest.approx(2 * stats.norm.sf(abs(z)), abs=0.01)


def test_interval_follows_its_definition():
    """Bootstrap-t written out, one resample at a time, from other random numbers."""
    values = np.random.default_rng(2).exponential(size=12)
    rng, ts = np.random.default_rng(99), []
    for _ in range(4000):
        drawn = rng.choice(values, size=12)
        ts.append((drawn.mean() - values.mean()) / stats.sem(drawn))
    low_t, high_t = np.quantile(ts, (0.025, 0.975))
    found = mean_interval(values)
    assert found.mean == values.mean()
    width = found.high - found.low
    assert found.low == pytest.approx(values.mean() - high_t * stats.sem(values), abs=0.08 * width)
    assert found.high == pytest.approx(values.mean() - low_t * stats.sem(values), abs=0.08 * width)
    assert found.high - found.mean > found.mean - found.low, "exponential: the right is longer"


def test_interval_of_many_normal_values_is_students():
    values = np.random.default_rng(3).normal(size=200)
    low, high = stats.t.interval(0.95, 199, values.mean(), stats.sem(values))
    found = mean_interval(values)
    assert found.low == pytest.approx(low, abs=0.02)
    assert found.high == pytest.approx(high, abs=0.02)


def test_interval_moves_and_scales_with_the_values():
    values = np.random.default_rng(4).normal(size=10)
    one, other = mean_interval(values), mean_interval(5 - 2 * values)
    assert other.mean == pytest.approx(5 - 2 * one.mean)
    assert other.low == pytest.approx(5 - 2 * one.high, abs=0.02)
    assert other.high == pytest.approx(5 - 2 * one.low, abs=0.02)


@pytest.mark.filterwarnings("error")
def test_interval_of_equal_and_nearly_equal_values():
    assert mean_interval(np.full(8, 0.25)) == (0.25, 0.25, 0.25)
    found = mean_interval(np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
    assert np.isfinite(found.low)
    assert found.low < found.mean


@pytest.mark.filterwarnings("error")
def test_interval_of_mostly_equal_values_is_students():
    for values in ([0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 1, 1, 2]):
        differences = np.array(values, float)
        expected = stats.t.interval(
            0.95, len(differences) - 1, differences.mean(), stats.sem(differences)
        )
        np.testing.assert_allclose(mean_interval(differences)[1:], expected)


def test_band_is_students_at_each_step():
    values = np.random.default_rng(5).normal(size=(7, 3))
    mean, low, high = pointwise_band(values, [""] * 7)
    expected = stats.t.interval(0.95, 6, values.mean(0), stats.sem(values))
    np.testing.assert_allclose([low, high], expected)
    np.testing.assert_allclose(mean, values.mean(0))
    assert np.isnan(pointwise_band(values[:1], [""])[1]).all()


def test_band_is_not_wider_where_base_models_differ():
    values = np.random.default_rng(6).normal(size=(7, 3))
    bases = ["a", "b", "a", "b", "a", "b", "a"]
    is_b = np.array([[base == "b"] for base in bases])
    mean, low, high = pointwise_band(values, bases)
    of_a, of_b = values[::2], values[1::2]
    variance = (3 * of_a.var(0, ddof=1) + 2 * of_b.var(0, ddof=1)) / 5
    reach = stats.t.ppf(0.975, 5) * np.sqrt(variance / 7)
    np.testing.assert_allclose([mean - low, high - mean], [reach, reach])
    apart = pointwise_band(values + 10 * is_b, bases)
    np.testing.assert_allclose([apart[0] - apart[1], apart[2] - apart[0]], [reach, reach])
    assert np.isnan(pointwise_band(values, list("abcdefg"))[1]).all()


@pytest.mark.filterwarnings("error")
def test_centred_means_keep_a_slope_and_leave_out_what_is_missing():
    slope = np.arange(20.0).reshape(2, 10)
    np.testing.assert_allclose(centred_means(slope, 3), slope)
    assert (centred_means(slope, 0) == slope).all()
    noise = np.random.default_rng(7).normal(size=(2, 10))
    assert centred_means(noise, 3)[1, 4] == pytest.approx(noise[1, 1:8].mean())
    assert centred_means(noise, 3)[1, 8] == pytest.approx(noise[1, 7:].mean())
    gaps = np.array([[1.0, np.nan, 4.0, np.nan, np.nan, np.nan, 2.0]])
    np.testing.assert_allclose(centred_means(gaps, 1), [[1.0, 2.5, 4.0, 4.0, np.nan, 2.0, 2.0]])
