"""KTAE's settings: frozen, validated, and the presets' numbers."""

import dataclasses
import itertools
import pickle
from typing import Any

import numpy as np
import pytest

from ktae import InputError
from ktae.estimators import KTAE, Ignoring, Scaled, preset

NAN, INF = float("nan"), float("inf")

PAPER = {
    "h1": 1.0,
    "h2": 2.0,
    "h3": 1.0,
    "k1": 2.0,
    "b_len": 0.5,
    "eps": 1e-5,
    "fisher": "two-sided",
    "lengths": "total",
    "normalize": False,
    "graded_rewards": False,
}
"""Origin: docs/estimators.md."""


@pytest.mark.parametrize("estimator", [KTAE(), preset("paper"), preset("ktae")])
def test_paper_is_the_default(estimator: KTAE) -> None:
    assert dataclasses.asdict(estimator) == PAPER


def test_released() -> None:
    for changed in ({}, {"h3": 0.0}, {"fisher": "two-sided"}):
        estimator = KTAE(**{"h2": 1.0, "normalize": True, "fisher": "float32"} | changed)
        expected = Scaled(Ignoring(estimator, (151643,), counted=True), 2.0)
        assert preset("released", **changed) == expected


@pytest.mark.parametrize(("name", "zero"), [("no-fisher", "h1"), ("no-ig", "h2"), ("no-tf", "h3")])
def test_ablations_switch_off_one_part_of_the_paper(name: str, zero: str) -> None:
    assert preset(name) == KTAE(**{zero: 0.0})
    assert preset(name, k1=3.0) == KTAE(**{zero: 0.0, "k1": 3.0})


def test_frozen_hashable_comparable_and_picklable() -> None:
    estimator = KTAE(h2=1.0)
    for field in dataclasses.fields(estimator):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(estimator, field.name, getattr(estimator, field.name))
    assert len({estimator, KTAE(h2=1), KTAE()}) == 2
    assert pickle.loads(pickle.dumps(preset("released"))) == preset("released")
    with pytest.raises(TypeError):
        KTAE(1.0)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("names", "values", "expected"),
    [
        (
            ("h1", "h2", "h3"),
            (-1e-9, -1, NAN, INF, "1", None, True, [1.0], 1j, 1.1e30, 10**400),
            r"a number from 0 to 1e\+30",
        ),
        (
            ("k1", "eps"),
            (0, 0.0, -1, NAN, INF, "1", None, True, 1.1e30, 10**400),
            r"a number from 1e-30 to 1e\+30",
        ),
        (("b_len",), (-0.001, 1.001, NAN, INF, "0.5", None, False), "a number from 0 to 1"),
        (("normalize", "graded_rewards"), ("yes", 1, None, 0.0), "true or false"),
        (("fisher",), ("twosided", "", None, 1, True), "one of two-sided, point, float32"),
        (("lengths",), ("totals", "", None, 1, True), "one of total, mean"),
    ],
    ids=lambda given: given[0] if isinstance(given, tuple) else None,
)
def test_settings_out_of_range(names: Any, values: Any, expected: str) -> None:
    for name, value in itertools.product(names, values):
        with pytest.raises(InputError, match=rf"^{name} is .*; (did you|expected {expected}$)"):
            KTAE(**{name: value})


@pytest.mark.parametrize("name", ["h1", "h2", "h3", "k1", "eps", "b_len"])
def test_settings_at_the_ends_of_their_range(name: str) -> None:
    """Beyond 1e30 a product of some of them could overflow."""
    largest = 1 if name == "b_len" else 1e30
    least = 1e-30 if name in ("k1", "eps") else 0
    for value in (least, np.float32(0.5), largest):
        assert getattr(KTAE(**{name: value}), name) == value


@pytest.mark.parametrize("h2", [0, 5e-324, 9e-31])
def test_normalize_needs_a_weight(h2: float) -> None:
    with pytest.raises(InputError, match=r"normalize divides by h1 \+ h2, .* at least 1e-30"):
        KTAE(h1=0, h2=h2, normalize=True)
    KTAE(h1=0, h2=1e-30, normalize=True)
    assert KTAE(h1=0, h2=0).h1 == 0


def test_input_error_is_a_value_error() -> None:
    """docs/estimators.md promises a ValueError."""
    assert issubclass(InputError, ValueError)


def test_numbers_of_numpys_are_plain_ones() -> None:
    """A sweep over np.arange has them, and settings are written as YAML."""
    estimator = KTAE(h2=np.int64(2), k1=np.float32(0.5))
    assert estimator == KTAE(h2=2, k1=0.5)
    assert type(estimator.h2) is type(estimator.k1) is float
