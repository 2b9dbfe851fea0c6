"""How fast a method learns from one accuracy of GRPO to another."""

import numpy as np
import pytest

from ktae_lab.tables import speeds

STEPS = np.arange(60)


def learning(rate=1.0, ahead=0.0):
    """(60,) accuracies; the rate scales time."""
    return 0.8 - 0.6 * np.exp(-(rate * STEPS + ahead) / 30)


def pairs(n, noise, *, bases=1):
    """n seeds, with base models of which each learns .1 higher than the last."""
    rng = np.random.default_rng(0)
    names = np.arange(n) % bases
    curves = [learning(rate) + noise * rng.normal(size=(n, 60)) for rate in (1.5, 1.0)]
    return speeds.Pairs(*(own + 0.1 * names[:, None] for own in curves), names.astype(str))


def test_twice_as_fast_is_twice_as_fast_in_every_phase():
    # Smoothing moves the faster curve a little more.
    assert speeds.phase_speeds(learning(2), learning()) == pytest.approx([2] * 3, rel=0.05)
    assert speeds.phase_speeds(learning(), learning()) == pytest.approx([1] * 3)


def test_an_early_lead_is_no_later_speed():
    """Twelve steps ahead from the start on: fast in the first phase, and no faster after it."""
    first, *later = speeds.phase_speeds(learning(ahead=12), learning())
    assert first == pytest.approx(20 / 8, rel=0.05)
    assert later == pytest.approx([1, 1], rel=0.02)


def test_who_does_not_get_so_far_is_compared_as_far_as_he_gets():
    slow = speeds.phase_speeds(learning(0.6), learning())
    assert slow[:2] == pytest.approx([0.6, 0.6], rel=0.05)
    assert np.isnan(slow[2]), "it ends below GRPO's step 40"
    assert speeds.phase_speeds(learning(0.85), learning())[2] == pytest.approx(0.85, rel=0.05)


def test_a_curve_that_falls_is_made_level():
    humped = learning()
    humped[15:26] += 0.15
    curve = speeds.smoothed(humped)
    level = speeds.monotone(curve)
    assert (np.diff(curve) < 0).any() and (np.diff(level) >= 0).all()
    assert level[-10:] == pytest.approx(curve[-10:])
    assert np.isfinite(speeds.phase_speeds(humped, learning())).all()


def test_the_interval_is_over_pairs():
    found = speeds.speeds(pairs(40, 0.04))
    noiseless = speeds.phase_speeds(learning(1.5), learning())
    assert 1 < found[0].low < noiseless[0] < found[0].high
    fewer = speeds.speeds(pairs(10, 0.04))
    assert fewer[0].high - fewer[0].low > found[0].high - found[0].low


def test_the_differences_of_base_models_are_no_chance():
    """Without other noise nothing is uncertain, however far the base models are apart."""
    for one in speeds.speeds(pairs(12, 0.0, bases=3)):
        assert one.low == pytest.approx(one.value) and one.high == pytest.approx(one.value)


def test_what_grpo_gains_on_each_base_model():
    found = speeds.gains(pairs(12, 0.0, bases=3))
    assert set(found) == {"0", "1", "2"}
    curve = 0.8 - 0.6 * np.exp(-np.array([0, 20, 40, 54]) / 30)
    for gain in found.values():  # the higher base models are higher from the start
        assert gain == pytest.approx(np.diff(curve), abs=0.005)


def test_grpo_beside_itself_is_about_as_fast():
    found = speeds.speeds_beside_itself(pairs(24, 0.04, bases=3), 4)
    low, middle, high = np.nanquantile(found, (0.025, 0.5, 0.975), axis=0)
    assert middle[:2] == pytest.approx([1, 1], abs=0.1)
    assert (low < 1).all() and (high > 1).all()
    more = speeds.speeds_beside_itself(pairs(240, 0.04, bases=3), 40)
    assert np.nanstd(more, axis=0)[0] < np.nanstd(found, axis=0)[0]
