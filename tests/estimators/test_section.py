"""Estimators by name and in recipes: every composition prints itself and comes back."""

import inspect
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
    Decayed,
    EntropyWeights,
    Estimator,
    Function,
    GroupMean,
    Ignoring,
    OverUnits,
    PermutedLabels,
    PresenceZ,
    RandomPlaces,
    Scaled,
    ShuffledValues,
    Tempo,
    as_estimator,
    from_section,
    preset,
    to_section,
)

numbers = st.floats(0.01, 100) | st.integers(1, 9)
leaves = st.builds(
    KTAE,
    h1=numbers,
    h3=st.just(0) | numbers,
    fisher=st.sampled_from(["point", "two-sided", "float32"]),
    lengths=st.sampled_from(["total", "mean"]),
    graded_rewards=st.booleans(),
) | st.builds(PresenceZ, graded_rewards=st.booleans())
of_advantages = st.builds(
    Tempo, scale_by_std=st.booleans(), graded_rewards=st.booleans()
) | st.builds(ConflictTokens, amplify=numbers, runs=st.booleans())
of_advantages |= st.builds(EntropyWeights, alpha2=numbers, level=st.just("rollout"))
seeds = st.integers(0, 2**40) | st.integers(0, 2**40).map(np.int64)


def wrapped(inner: Any) -> Any:
    units = st.lists(st.sampled_from(list(UNITS)), min_size=1, unique=True)
    return st.one_of(
        st.builds(Scaled, inner, numbers),
        st.builds(OverUnits, inner, units),
        st.builds(
            Ignoring, inner, st.lists(st.integers(0, 2**31 - 1), min_size=1), counted=st.booleans()
        ),
        st.builds(Decayed, inner, st.integers(1, 99) | st.integers(1, 99).map(np.int64)),
        st.builds(PermutedLabels, inner, seeds),
        st.builds(ShuffledValues, leaves, seeds),
        st.builds(RandomPlaces, inner, seeds),
        *(st.builds(make, inner) for make in (Centred, GroupMean)),
    )


compositions = (
    st.recursive(leaves | of_advantages, wrapped, max_leaves=5)
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
    transforms = {
        one
        for _, one in inspect.getmembers(names, inspect.isclass)
        if issubclass(one, names.Transform) and one not in (names.Transform, names.Moved)
    }
    assert transforms == set(TRANSFORMS.values())
    assert set(KINDS.values()) == {
        *(KTAE, PresenceZ, Tempo, ConflictTokens, AnchorStates),
        *(AdvantageReweighting, EntropyWeights),
    }


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("calibrated", Scaled(OverUnits(PresenceZ(), ("token", "bigram")), 0.3)),
        ("trigrams", Scaled(OverUnits(PresenceZ(), ("trigram",)), 0.3)),
        ({"estimator": "ktae", "h3": 0}, KTAE(h3=0)),
        (
            {"estimator": "trigrams", "graded_rewards": True},
            preset("trigrams", graded_rewards=True),
        ),
        (
            {"estimator": "presence-z", "transforms": [{"over-units": ["line"]}, {"scaled": 2}]},
            Scaled(OverUnits(PresenceZ(), ("line",)), 2.0),
        ),
        ({"estimator": "paper", "transforms": "centred"}, Centred(KTAE())),
        ({"estimator": "paper", "transforms": {"scaled": 2}}, Scaled(KTAE(), 2.0)),
        (
            {
                "estimator": "paper",
                "transforms": ["permuted-labels", {"random-places": {"seed": 3}}],
            },
            RandomPlaces(PermutedLabels(KTAE(), 0), 3),
        ),
        ({"estimator": "paper", "transforms": None}, KTAE()),
    ],
    ids=str,
)
def test_sections(section: Any, expected: Estimator) -> None:
    assert from_section(section) == expected


@pytest.mark.parametrize("name", [*PRESETS, "anchor-states"])
def test_what_has_a_name_is_written_by_it(name: str) -> None:
    assert to_section(preset(name)) == name


def test_what_is_written_is_short() -> None:
    assert to_section(KTAE(h1=0.5)) == {"estimator": "ktae", "h1": 0.5}
    estimator = GroupMean(Scaled(preset("trigrams"), 2.0))
    assert to_section(estimator) == {
        "estimator": "presence-z",
        "transforms": [
            {"over-units": {"units": ["trigram"]}},
            {"scaled": {"factor": 0.3}},
            {"scaled": {"factor": 2.0}},
            "group-mean",
        ],
    }
    assert repr(estimator) == (
        "GroupMean(Scaled(Scaled(OverUnits(PresenceZ(), units=('trigram',)), factor=0.3), "
        "factor=2.0))"
    )


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("Paper", r"no estimator 'Paper'; did you mean 'paper'\?"),
        ("zzz", "no estimator 'zzz'; expected one of paper, released, no-fisher"),
        ({"h3": 0}, "expected the name of an estimator, or a mapping"),
        ({"estimator": None}, "no estimator None"),
        ({"estimator": "paper", "h4": 1}, "estimator paper has no setting 'h4'; did you mean 'h"),
        ({"estimator": "paper", "transforms": ["scald"]}, "no transform 'scald'; did you mean"),
        ({"estimator": "paper", "transforms": ["scaled"]}, "transform scaled needs factor"),
        ({"estimator": "paper", "transforms": [{"scaled": {"by": 2}}]}, "no setting 'by'"),
        (
            {"estimator": "paper", "transforms": [{"rollout-mean": 2}]},
            "is given 2; it has no setting",
        ),
        (
            {"estimator": "paper", "transforms": [{"centred": 2}]},
            "over is 2; expected tokens or rollouts",
        ),
        ({"estimator": "paper", "transforms": [{"scaled": 2, "centred": None}]}, "no transform {"),
    ],
    ids=str,
)
def test_errors_name_what_there_is(section: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_section(section)


def test_what_stands_for_an_estimator() -> None:
    def function(token_ids: Any, mask: Any, correct: Any, groups: Any) -> Any:
        return token_ids

    assert as_estimator("trigrams") == preset("trigrams")
    assert as_estimator(KTAE()) == KTAE()
    assert as_estimator({"estimator": "paper", "h3": 0}) == preset("no-tf")
    assert as_estimator(function) == Function(function)
    for nothing in (None, 3, [KTAE()]):
        with pytest.raises(InputError, match=r"^credit is .*; expected an estimator of ktae.est"):
            as_estimator(nothing, "credit")
