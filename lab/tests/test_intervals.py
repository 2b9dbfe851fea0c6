"""The interval of a mean of a few values, against its definition and against SciPy."""

import numpy as np
import pytest
from scipy import stats

from ktae_lab.intervals import mean_interval


def test_interval_follows_its_definition():
    """Bootstrap-t written out, one resample at a time, from other random numbers."""
    values = np.random.default_rng(2).exponential(size=12)
    rng, ts = np.random.default_rng(99), []
    for _ in range(4000):
        drawn = rng.choice(values, size=12)
        ts.append((drawn.mean() - values.mean()) / stats.sem(drawn))
    low_t, high_t = np.quantile(ts, (0.025, 0.975))
    found = mean_interval(values)
    assert found.value == values.mean()
    width = found.high - found.low
    assert found.low == pytest.approx(values.mean() - high_t * stats.sem(values), abs=0.08 * width)
    assert found.high == pytest.approx(values.mean() - low_t * stats.sem(values), abs=0.08 * width)
    assert found.high - found.value > found.value - found.low, "exponential: the right is longer"


def test_interval_moves_and_scales_with_the_values():
    values = np.random.default_rng(4).normal(size=10)
    one, other = mean_interval(values), mean_interval(5 - 2 * values)
    assert other.value == pytest.approx(5 - 2 * one.value)
    assert other.low == pytest.approx(5 - 2 * one.high, abs=0.02)
    assert other.high == pytest.approx(5 - 2 * one.low, abs=0.02)


@pytest.mark.filterwarnings("error")
def test_interval_of_mostly_equal_values_is_students():
    assert mean_interval(np.full(8, 0.25)) == (0.25, 0.25, 0.25)
    for values in ([0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 0, 1, 1, 2]):
        differences = np.array(values, float)
        expected = stats.t.interval(
            0.95, len(differences) - 1, differences.mean(), stats.sem(differences)
        )
        np.testing.assert_allclose(mean_interval(differences)[1:], expected)
