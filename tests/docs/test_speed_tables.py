"""docs/speed_tables.py: how fast a method learns from one accuracy of GRPO to another."""

import json

import numpy as np
import pytest

SCRIPT = "speed_tables"
STEPS = np.arange(60)


def learning(rate: float | np.ndarray) -> np.ndarray:
    """(60,) accuracies; the rate scales time."""
    return 0.8 - 0.6 * np.exp(-rate * STEPS / 30)


def test_twice_as_fast_is_twice_as_fast_in_every_phase(tables) -> None:
    # Smoothing over more of the faster curve moves it a little.
    assert tables.phase_speeds(learning(2.0), learning(1.0)) == pytest.approx([2] * 3, rel=0.1)
    assert tables.phase_speeds(learning(1.0), learning(1.0)) == pytest.approx([1] * 3)


def test_an_early_lead_is_no_later_speed(tables) -> None:
    """Twelve steps ahead from the start on: fast in the first phase, and no faster after it."""
    ahead = 0.8 - 0.6 * np.exp(-(STEPS + 12.0) / 30)
    first, *later = tables.phase_speeds(ahead, learning(1.0))
    assert first == pytest.approx(20 / 8, rel=0.05)
    assert later == pytest.approx([1, 1], rel=0.02)


def test_an_accuracy_that_is_never_reached_takes_endless_steps(tables) -> None:
    slow = tables.phase_speeds(learning(0.5), learning(1.0))
    assert slow[0] == pytest.approx(0.5, rel=0.1)
    assert slow[2] == 0


def test_the_interval_is_over_pairs(tables) -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.04, (2, 40, 60))
    found = tables.speeds_of(learning(1.5) + noise[0], learning(1.0) + noise[1])
    assert all(one.low < one.value < one.high for one in found)
    noiseless = tables.phase_speeds(learning(1.5), learning(1.0))[0]
    assert 1 < found[0].low < noiseless < found[0].high
    fewer = tables.speeds_of(learning(1.5) + noise[0, :10], learning(1.0) + noise[1, :10])
    assert fewer[0].high - fewer[0].low > found[0].high - found[0].low


def test_ratios_are_of_cosines_as_trained_and_by_base_model(tables, tmp_path, monkeypatch):
    """One base model's terms point where the reference does, the other's are all noise."""
    for base, tr in enumerate((1.0, 0.0)):
        one = {"bb": 1.0, "bt": 0.0, "tt": 1.0, "br": 0.5, "tr": tr, "rr": 1.0}
        report = {
            "reliability": {}, "accuracy": 0.5,
            "products": {metric: {"paper": [one, one]} for metric in ("raw", "adam")},
        }  # fmt: skip
        path = tmp_path / f"sums-base{base}-step20.json"
        path.write_text(json.dumps(report), encoding="utf-8")
    monkeypatch.setattr(tables, "ALONG", tmp_path)
    once, twice = (
        tables._ratios("sums", tables.Trained("paper", factor, ()), 20, "adam") for factor in (1, 2)
    )
    assert once == pytest.approx([1.5 / 2**0.5 / 0.5, 0.5 / 2**0.5 / 0.5])
    assert twice == pytest.approx([2.5 / 5**0.5 / 0.5, 0.5 / 5**0.5 / 0.5])
