"""Bands and smoothing, against scipy and numbers worked out by hand."""

import numpy as np
import pytest
from scipy import stats

from ktae_lab.study.figures import Over
from ktae_lab.study.statistics import centred_means, pointwise_band


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


def test_each_run_on_a_base_model_of_its_own_by_chance_has_no_band():
    values = np.random.default_rng(6).normal(size=(7, 3))
    assert np.isnan(pointwise_band(values, list("abcdefg"))[1]).all()


def test_with_a_base_model_for_each_run_the_band_is_over_base_models():
    values = np.random.default_rng(7).normal(size=(7, 3))
    each = Over.BASE_MODELS.band(values, list("abcdefg"))
    np.testing.assert_array_equal(each, pointwise_band(values, ["a"] * 7))


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
