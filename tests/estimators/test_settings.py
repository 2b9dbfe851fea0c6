"""Settings: presets, what each may be, and that every composition comes back from a recipe."""

import dataclasses
import inspect
import pickle
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ktae import InputError
from ktae import estimators as names
from ktae.estimators import (
    KINDS,
    KTAE,
    PRESETS,
    TRANSFORMS,
    UNITS,
    AdvantageReweighting,
    AnchorStates,
    Centred,
    ConflictTokens,
    EntropyWeights,
    Estimator,
    Function,
    Ignoring,
    OverUnits,
    PermutedLabels,
    PresenceZ,
    RandomPlaces,
    Scaled,
    Tempo,
    as_estimator,
    from_section,
    preset,
    to_section,
)

PAPER = {"h1": 1.0, "h2": 2.0, "h3": 1.0, "k1": 2.0, "b_len": 0.5, "eps": 1e-5,
         "fisher": "two-sided", "lengths": "total", "normalize": False}  # fmt: skip
"""Origin: docs/estimators.md."""

RELEASED = {"h2": 1.0, "normalize": True, "fisher": "float32"}


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (preset("paper"), KTAE(**PAPER)),
        *((preset(f"no-{part}"), KTAE(**{h: 0.0})) for part, h in
          (("fisher", "h1"), ("ig", "h2"), ("tf", "h3"))),
        (preset("no-tf", k1=3.0), KTAE(h3=0.0, k1=3.0)),
        *((preset("released", **changed),
           Scaled(Ignoring(KTAE(**RELEASED | changed), (151643,), counted=True), 2.0))
          for changed in ({}, {"h3": 0.0}, {"fisher": "two-sided"})),
        (preset("calibrated"), Scaled(OverUnits(PresenceZ(), ("token", "bigram")), 0.3)),
        (preset("trigrams"), Scaled(OverUnits(PresenceZ(), ("trigram",)), 0.3)),
        (preset("sharp-trigrams"), Scaled(OverUnits(PresenceZ(sharp=True), ("trigram",)), 0.3)),
        (preset("anchor-states", gamma=1), AnchorStates(gamma=1.0)),
    ],
    ids=repr,
)  # fmt: skip
def test_presets(estimator: Estimator, expected: Estimator) -> None:
    assert estimator == expected and hash(estimator) == hash(expected)
    assert pickle.loads(pickle.dumps(estimator)) == estimator


def test_settings_are_frozen_and_pythons_own() -> None:
    """A sweep over np.arange has NumPy's, and settings are written as YAML."""
    estimator = KTAE(h2=np.int64(2), k1=np.float32(0.5))
    assert estimator == KTAE(h2=2, k1=0.5)
    assert type(estimator.h2) is type(estimator.k1) is float
    with pytest.raises(dataclasses.FrozenInstanceError):
        estimator.h1 = 2.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        KTAE(1.0)  # type: ignore[misc]


NAN, INF = float("nan"), float("inf")
NUMBERS: tuple[Any, ...] = (-1e-9, NAN, INF, "1", None, True, [1.0], 1j, 1.1e30, 10**400)


@pytest.mark.parametrize(
    ("make", "name", "values", "expected"),
    [
        (KTAE, "h1", NUMBERS, r" 0 to 1e\+30$"),
        (KTAE, "k1", (0, *NUMBERS), r" 1e-30 to 1e\+30$"),
        (KTAE, "b_len", (-0.001, 1.001, NAN, "0.5", False), " 0 to 1$"),
        (KTAE, "normalize", ("yes", 1, None, 0.0), ""),
        (KTAE, "fisher", ("twosided", None, True), "two-sided, point, float32"),
        (PermutedLabels, "seed", (-1, 1.5, True), "an integer from 0 "),
        (OverUnits, "units", (3, (), ["token", "token"], ["bigramm"]), "token, bigram"),
        (Ignoring, "token_ids", (5, None, "7", [1.5], ["7"], [-1], [0, 2**31]), "2147483647"),
    ],
    ids=str,
)
def test_settings_out_of_range(make: Any, name: str, values: Any, expected: str) -> None:
    inner = (KTAE(),) if issubclass(make, names.Transform) else ()
    for value in values:
        with pytest.raises(InputError, match=f"^{name}.*{expected}"):
            make(*inner, **{name: value})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PresenceZ(sharp=True, graded_rewards=True), "^sharp.*graded_rewards"),
        (lambda: OverUnits(Centred(AnchorStates()), ("turn",)), "OverUnits"),
        (lambda: Scaled("paper", 2.0), "Scaled.*'paper'"),
        (lambda: to_section(AnchorStates(normalise=str.lower)), "lower"),
        (lambda: to_section(Scaled(Function(lambda *_: 0), 2)), "Function"),
    ],
)
def test_settings_that_do_not_go_together(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


numbers = st.floats(0.01, 100) | st.integers(1, 9)
leaves = st.builds(
    KTAE,
    h1=numbers,
    h3=st.just(0) | numbers,
    fisher=st.sampled_from(["point", "two-sided", "float32"]),
) | st.builds(PresenceZ, graded_rewards=st.booleans())
rivals = (
    st.builds(Tempo, scale_by_std=st.booleans(), graded_rewards=st.booleans())
    | st.builds(ConflictTokens, amplify=numbers)
    | st.builds(EntropyWeights, alpha2=numbers)
    | st.builds(AdvantageReweighting, alpha=st.floats(0, 1))
)
seeds = st.integers(0, 2**40) | st.integers(0, 2**40).map(np.int64)


def wrapped(inner: Any) -> Any:
    units = st.lists(st.sampled_from(list(UNITS)), min_size=1, unique=True)
    ids = st.lists(st.integers(0, 2**31 - 1), min_size=1)
    return st.one_of(
        st.builds(Scaled, inner, numbers),
        st.builds(OverUnits, inner, units),
        st.builds(Ignoring, inner, ids, counted=st.booleans()),
        *(st.builds(make, inner, seeds) for make in (PermutedLabels, RandomPlaces)),
        st.builds(Centred, inner),
    )


compositions = (
    st.recursive(leaves | rivals, wrapped, max_leaves=5)
    | st.sampled_from([make() for make in PRESETS.values()])
    | st.builds(Scaled, st.builds(AnchorStates, gamma=st.floats(0, 1), omega=numbers), numbers)
)


@given(compositions)
def test_every_composition_prints_equals_and_survives_a_recipe(estimator: Estimator) -> None:
    assert eval(repr(estimator), vars(names)) == estimator
    text = yaml.safe_dump(to_section(estimator))
    again = from_section(yaml.safe_load(text))
    assert again == estimator and hash(again) == hash(estimator)


def test_every_transform_and_kind_has_a_name() -> None:
    classes = {kind for _, kind in inspect.getmembers(names, inspect.isclass)}
    named = {*TRANSFORMS.values(), *KINDS.values()}
    abstract = {kind for kind in classes if inspect.isabstract(kind)} | {names.Transform}
    own = {Function, names.ImportPath}
    assert {x for x in classes if issubclass(x, Estimator)} - abstract == named | own


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ({"estimator": "ktae", "h3": 0}, KTAE(h3=0)),
        ({"estimator": "trigrams", "graded_rewards": True},
         preset("trigrams", graded_rewards=True)),
        ({"estimator": "presence-z", "transforms": [{"over-units": ["line"]}, {"scaled": 2}]},
         Scaled(OverUnits(PresenceZ(), ("line",)), 2.0)),
        ({"estimator": "paper", "transforms": "centred"}, Centred(KTAE())),
        ({"estimator": "paper", "transforms": {"centred": "rollouts"}},
         Centred(KTAE(), over="rollouts")),
        ({"estimator": "paper", "transforms": ["permuted-labels", {"random-places": {"seed": 3}}]},
         RandomPlaces(PermutedLabels(KTAE(), 0), 3)),
        ({"estimator": "paper", "transforms": None}, KTAE()),
    ],
    ids=str,
)  # fmt: skip
def test_sections(section: Any, expected: Estimator) -> None:
    assert from_section(section) == expected == from_section(to_section(expected))


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("Paper", "'Paper'.*'paper'"),
        ("zzz", "'zzz'.* paper, released"),
        ({"h3": 0}, "^credit "),
        ({"estimator": None}, "None"),
        ({"estimator": "paper", "h4": 1}, "paper.*'h4'.*'h\\d'"),
        ({"estimator": "paper", "transforms": ["scald"]}, "'scald'.*'scaled'"),
        ({"estimator": "paper", "transforms": ["scaled"]}, "scaled.*'factor'"),
        ({"estimator": "paper", "transforms": [{"scaled": {"by": 2}}]}, "scaled.*'by'"),
        ({"estimator": "paper", "transforms": [{"scaled": 2, "centred": None}]}, "transform {"),
    ],
    ids=str,
)
def test_errors_name_what_there_is(section: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_section(section)


def test_what_is_no_estimator_is_refused() -> None:
    for nothing in (None, 3, [KTAE()]):
        with pytest.raises(InputError, match=r"^credit "):
            as_estimator(nothing, "credit")
