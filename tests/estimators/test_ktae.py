"""KTAE's settings: frozen, validated, and the presets' numbers."""

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

from ktae import InputError
from ktae.estimators import KTAE, Ignoring, Scaled, preset

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


@pytest.mark.parametrize("name", ["h1", "h2", "h3"])
@pytest.mark.parametrize(
    "value", [-1e-9, -1, float("nan"), float("inf"), "1", None, True, [1.0], 1j]
)
def test_weights_are_finite_and_at_least_0(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=rf"^{name} is .*; expected a number from 0 to 1e\+30$"):
        KTAE(**{name: value})
    assert getattr(KTAE(**{name: 0}), name) == 0
    assert getattr(KTAE(**{name: np.float32(0.5)}), name) == 0.5


@pytest.mark.parametrize("name", ["k1", "eps"])
@pytest.mark.parametrize("value", [0, 0.0, -1, float("nan"), float("inf"), "1", None, True])
def test_these_are_finite_and_above_0(name: str, value: Any) -> None:
    with pytest.raises(
        InputError, match=rf"^{name} is .*; expected a number from 1e-30 to 1e\+30$"
    ):
        KTAE(**{name: value})


@pytest.mark.parametrize("value", [-0.001, 1.001, float("nan"), float("inf"), "0.5", None, False])
def test_b_len_is_from_0_to_1(value: Any) -> None:
    with pytest.raises(InputError, match=r"^b_len is .*; expected a number from 0 to 1$"):
        KTAE(b_len=value)
    assert [KTAE(b_len=x).b_len for x in (0, 0.25, 1)] == [0, 0.25, 1]


@pytest.mark.parametrize("name", ["h1", "h2", "h3", "k1", "eps"])
def test_largest_numbers(name: str) -> None:
    """Beyond 1e30 a product of some of them could overflow."""
    assert getattr(KTAE(**{name: 1e30}), name) == 1e30
    with pytest.raises(InputError, match=rf"^{name} is 1.1e\+30; expected a number from"):
        KTAE(**{name: 1.1e30})


@pytest.mark.parametrize("name", ["normalize", "graded_rewards"])
@pytest.mark.parametrize("value", ["yes", 1, None, 0.0])
def test_switches_are_bools(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=rf"^{name} is .*; expected true or false$"):
        KTAE(**{name: value})


@pytest.mark.parametrize("name", ["h1", "k1", "b_len"])
def test_integer_too_large_for_a_float(name: str) -> None:
    with pytest.raises(InputError, match=f"^{name} is 1000"):
        KTAE(**{name: 10**400})


@pytest.mark.parametrize(("name", "known"), [("fisher", "two-sided, point"), ("lengths", "total")])
@pytest.mark.parametrize("value", ["twosided", "", None, 1, True])
def test_unknown_choice(name: str, known: str, value: Any) -> None:
    with pytest.raises(InputError, match=rf"{name} is {value!r}; expected one of {known}"):
        KTAE(**{name: value})


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
