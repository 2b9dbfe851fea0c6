"""Estimator: frozen, validated, and the two presets' numbers."""

import dataclasses
import importlib.machinery
import json
import pickle
import sys
import types
from typing import Any

import numpy as np
import pytest

import ktae
from ktae import InputError, Estimator
from ktae.backends import BACKENDS, resolve
from ktae.estimators import KTAE, Estimator, preset

PAPER = {
    "h1": 1.0,
    "h2": 2.0,
    "h3": 1.0,
    "k1": 2.0,
    "b_len": 0.5,
    "eps": 1e-5,
    "fisher": "two-sided",
    "normalize": False,
    "term_scale": 1.0,
    "statistic": "ktae",
    "graded": False,
    "units": ("token",),
    "control": "none",
    "control_seed": 0,
    "ignore_token_ids": (),
}
"""Origin: docs/estimator.md."""

RELEASED = PAPER | {
    "h2": 1.0,
    "normalize": True,
    "term_scale": 2.0,
    "ignore_token_ids": (151643,),
}


@pytest.mark.parametrize("config", [KTAE(), preset("paper"), preset("paper")])
def test_paper_is_the_default(estimator: Estimator) -> None:
    assert dataclasses.asdict(config) == PAPER


@pytest.mark.parametrize("config", [preset("released"), preset("released")])
def test_released(estimator: Estimator) -> None:
    assert dataclasses.asdict(config) == RELEASED


@pytest.mark.parametrize(("name", "fields"), [("paper", PAPER), ("released", RELEASED)])
@pytest.mark.parametrize(
    "overrides",
    [
        {"h2": 0.0},
        {"fisher": "point", "eps": 1e-3},
        {"ignore_token_ids": ()},
        {"ignore_token_ids": (5, 0, 5)},
    ],
    ids=str,
)
def test_presets_with_fields_replaced(
    name: str, fields: dict[str, Any], overrides: dict[str, Any]
) -> None:
    config = preset(name, **overrides)
    assert config == getattr(Estimator, name)(**overrides)
    expected = fields | overrides
    expected["ignore_token_ids"] = tuple(sorted(set(expected["ignore_token_ids"])))
    assert dataclasses.asdict(config) == expected


def test_frozen_hashable_comparable_and_picklable() -> None:
    config = preset("released")
    for field in dataclasses.fields(config):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(config, field.name, getattr(config, field.name))
    assert len({config, preset("released"), preset("paper")}) == 2
    assert pickle.loads(pickle.dumps(config)) == config
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


@pytest.mark.parametrize("name", ["k1", "eps", "term_scale"])
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


@pytest.mark.parametrize("name", ["h1", "h2", "h3", "k1", "eps", "term_scale"])
def test_largest_numbers(name: str) -> None:
    """Beyond 1e30 a product of some of them could overflow."""
    assert getattr(KTAE(**{name: 1e30}), name) == 1e30
    with pytest.raises(InputError, match=rf"^{name} is 1.1e\+30; expected a number from"):
        KTAE(**{name: 1.1e30})


@pytest.mark.parametrize("value", ["yes", 1, None, 0.0])
def test_normalize_is_a_bool(value: Any) -> None:
    with pytest.raises(InputError, match=r"^normalize is .*; expected true or false$"):
        KTAE(normalize=value)


@pytest.mark.parametrize("name", ["h1", "k1", "b_len"])
def test_integer_too_large_for_a_float(name: str) -> None:
    with pytest.raises(InputError, match=f"^{name} is 1000"):
        KTAE(**{name: 10**400})


@pytest.mark.parametrize("value", ["twosided", "", None, 1, True])
def test_unknown_fisher(value: Any) -> None:
    with pytest.raises(InputError, match=r"expected one of two-sided, point") as caught:
        KTAE(fisher=value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("statistic", "zz", "statistic is 'zz'; expected one of ktae, z"),
        ("control", None, "control is None; expected one of none, permuted-labels"),
        ("graded", 1, "graded is 1; expected true or false"),
        ("control_seed", -1, "control_seed is -1; expected an integer from 0"),
        ("units", 3, "units is 3; expected a tuple of names"),
        ("units", (), "expected at least one name"),
        ("units", ("token", "token"), "none twice"),
        ("units", ["bigramm"], "no unit 'bigramm'; expected one of token, bigram"),
    ],
)
def test_what_is_counted_and_how(field: str, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        KTAE(**{field: value})


def test_calibrated() -> None:
    config = preset("calibrated", graded=True)
    assert (config.statistic, config.graded) == ("z", True)
    assert config == preset("calibrated", graded=True)


@pytest.mark.parametrize("h2", [0, 5e-324, 9e-31])
def test_normalize_needs_a_weight(h2: float) -> None:
    with pytest.raises(InputError, match=r"normalize divides by h1 \+ h2, .* at least 1e-30"):
        KTAE(h1=0, h2=h2, normalize=True)
    KTAE(h1=0, h2=1e-30, normalize=True)
    assert KTAE(h1=0, h2=0).h1 == 0


@pytest.mark.parametrize("ids", [[2, 1, 2], {1, 2}, np.array([2, 1], dtype=np.int32), range(1, 3)])
def test_ignored_ids_become_a_sorted_tuple(ids: Any) -> None:
    config = KTAE(ignore_token_ids=ids)
    assert config.ignore_token_ids == (1, 2)
    assert all(type(token) is int for token in config.ignore_token_ids)


@pytest.mark.parametrize(
    "ids", [5, None, ["x"], "151643", [1.5], [2.0], [None], [float("inf")], ["7"]], ids=repr
)
def test_ignored_ids_that_are_none(ids: Any) -> None:
    with pytest.raises(InputError, match=r"ignore_token_ids is .*; expected a tuple of token ids"):
        KTAE(ignore_token_ids=ids)


@pytest.mark.parametrize("ids", [[-1], [0, 2**31], [-100, 5]])
def test_ignored_ids_out_of_range(ids: list[int]) -> None:
    with pytest.raises(InputError, match=r"ignore_token_ids .*; expected ids from 0 to 2147483647"):
        KTAE(ignore_token_ids=ids)
    assert KTAE(ignore_token_ids=[0, 2**31 - 1]).ignore_token_ids == (0, 2**31 - 1)


def test_unknown_names() -> None:
    with pytest.raises(InputError, match="no preset 'Paper'; expected one of paper, released"):
        preset("Paper")
    with pytest.raises(InputError, match=r"no KTAE setting 'h4'; expected one of h1, h2, h3, k1"):
        preset("released", h4=1)
    with pytest.raises(InputError, match=r"h2 is -1;"):
        preset("released", h2=-1)


def test_backends_by_name() -> None:
    assert list(BACKENDS)[:2] == ["naive", "cpu"]
    for name, backend in BACKENDS.items():
        assert backend.name == name
        assert backend.description
        assert resolve(name, np.zeros((1, 1), dtype=int)) is backend
    assert resolve("auto", np.zeros((1, 1), dtype=int)).name == "cpu"
    for name in ("Naive", "", "gpu!", None):
        with pytest.raises(InputError, match=r"no backend .*; expected auto, naive, cpu"):
            resolve(name, None)  # type: ignore[arg-type]


def test_backends_say_what_is_available() -> None:
    assert list(ktae.backends()) == list(BACKENDS)
    assert ktae.backends()["naive"] == ktae.backends()["cpu"] == "available"


def test_a_backend_asked_for_by_name_never_falls_back() -> None:
    """One that cannot run here says why, and nothing else computes instead."""
    absent = dataclasses.replace(BACKENDS["cpu"], requires=("numpy", "no_such_package"))
    assert absent.missing() == "no_such_package is not installed"
    with pytest.raises(InputError, match="backend 'cpu' cannot be used: no_such_package is not"):
        absent.load()
    for name, state in ktae.backends().items():
        if state != "available":
            with pytest.raises(InputError, match=f"backend '{name}' cannot be used: "):
                ktae.token_credit([[1]], [[1]], [1], [0], backend=name)


def test_versions_of_packages_from_distributions_of_another_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As triton from pytorch-triton: then the package tells its version, if it can."""
    module = types.ModuleType("some_triton")
    module.__spec__ = importlib.machinery.ModuleSpec("some_triton", None)
    monkeypatch.setitem(sys.modules, "some_triton", module)
    backend = dataclasses.replace(BACKENDS["cpu"], requires=("some_triton 3.4",))
    assert "some_triton of unknown version is installed; 3.4 or newer" in backend.missing()
    for version, missing in (("3.4.0a0+git1", False), ("3.10", False), ("3.3.9", True)):
        module.__version__ = version
        assert bool(backend.missing()) == missing
    module.__version__ = "main"
    assert backend.missing()


@pytest.mark.parametrize("name", ["torch", "triton", "gpu"])
def test_tables_are_made_on_the_host(name: str) -> None:
    with pytest.raises(InputError, match=f"backend is '{name}'; .*'auto', 'cpu' or 'naive'"):
        ktae.credit_table([[1]], [[1]], [1], [0], backend=name)


def test_input_error_is_a_value_error() -> None:
    """docs/estimator.md promises a ValueError."""
    assert issubclass(InputError, ValueError)


@pytest.mark.parametrize(("name", "zero"), [("no-fisher", "h1"), ("no-ig", "h2"), ("no-tf", "h3")])
def test_ablations_switch_off_one_part_of_the_paper(name: str, zero: str) -> None:
    assert preset(name) == KTAE(**{zero: 0.0})
    assert preset(name, k1=3.0) == KTAE(**{zero: 0.0, "k1": 3.0})


def test_numbers_of_numpys_are_plain_ones() -> None:
    """A sweep over np.arange has them, and a config is written as JSON."""
    config = KTAE(h2=np.int64(2), term_scale=np.float32(0.5), control_seed=np.int64(3))
    assert config == KTAE(h2=2, term_scale=0.5, control_seed=3)
    json.dumps(dataclasses.asdict(config))
