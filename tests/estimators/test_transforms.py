"""What wraps an estimator: each wrapper's numbers, and that they compose."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from by_backend import token_advantages, token_credit

from ktae import InputError
from ktae.batch import Batch
from ktae.estimators import (
    KTAE,
    Centred,
    Decayed,
    Estimator,
    GroupMean,
    Ignoring,
    OverUnits,
    PermutedLabels,
    PresenceZ,
    RandomPlaces,
    RolloutMean,
    Scaled,
    ShuffledValues,
    WithinRollout,
    from_section,
    preset,
    to_section,
)
from ktae.estimators.controls import label_permutations

N, T = 6, 7
IDS = np.random.default_rng(3).integers(0, 9, (N, T))
MASK = np.arange(T) < np.array([7, 5, 7, 3, 6, 7])[:, None]
GROUPS = np.array([0, 1, 0, 0, 1, 0])
Y = np.array([1, 0, np.nan, 1, 1, 0])
KNOWN = MASK & ~np.isnan(Y)[:, None]

CONTROLS: dict[str, Callable[[Estimator], Estimator]] = {
    "permuted-labels": lambda inner: PermutedLabels(inner, 6),
    "shuffled-values": lambda inner: ShuffledValues(inner, 5),
    "random-places": lambda inner: RandomPlaces(inner, 5),
    "group-mean": GroupMean,
    "rollout-mean": RolloutMean,
    "within-rollout": WithinRollout,
    "centred": Centred,
}


def credit(estimator: Estimator, correct: Any = Y, **options: Any) -> np.ndarray:
    found: np.ndarray = token_credit(IDS, MASK, correct, GROUPS, estimator, **options)
    return found


def test_scales_multiply() -> None:
    np.testing.assert_array_equal(credit(Scaled(KTAE(), 2.0)), 2 * credit(KTAE()))
    np.testing.assert_array_equal(
        credit(Scaled(Scaled(PresenceZ(), 0.5), 0.3)), credit(Scaled(PresenceZ(), 0.15))
    )


def test_units_are_averaged() -> None:
    units = ("token", "bigram", "position")
    parts = [credit(Ignoring(OverUnits(KTAE(), (unit,)), (4,))) for unit in units]
    got = credit(Ignoring(OverUnits(KTAE(), units), (4,)))
    np.testing.assert_allclose(got, np.mean(parts, axis=0), atol=1e-7)
    assert np.all(got[(IDS == 4) | ~MASK] == 0) and np.any(got != 0)


def test_ignored_tokens_are_as_if_masked() -> None:
    as_masked = token_credit(IDS, MASK & (IDS != 4), Y, GROUPS, OverUnits(KTAE(), ("bigram",)))
    got = credit(Ignoring(OverUnits(KTAE(), ("bigram",)), (4,)))
    np.testing.assert_array_equal(got, as_masked)
    nested = credit(Ignoring(Ignoring(KTAE(), (4,)), (2,)))
    np.testing.assert_array_equal(nested, credit(Ignoring(KTAE(), (2, 4))))


@pytest.mark.parametrize("units", [("trigram",), ("token", "bigram"), ("position",)])
def test_ignored_tokens_are_no_part_of_units_in_either_order(
    backend: str, units: tuple[str, ...]
) -> None:
    """Base included; and the wrapped estimator may hold more wrappers."""
    for inner in (PresenceZ(), ShuffledValues(KTAE(), 5)):
        outside = Ignoring(OverUnits(inner, units), (2, 4))
        for inside in (
            OverUnits(Ignoring(inner, (2, 4)), units),
            Ignoring(OverUnits(Scaled(Ignoring(inner, (4,)), 1.0), units), (2,)),
        ):
            expected, got = (
                token_advantages(
                    np.zeros(N), IDS, MASK, GROUPS, correct=Y, estimator=estimator,
                    base=np.arange(float(N)), backend=backend,
                )
                for estimator in (outside, inside)
            )  # fmt: skip
            np.testing.assert_array_equal(got, expected)
    assert np.all(credit(inside)[np.isin(IDS, (2, 4))] == 0) and np.any(credit(inside) != 0)


@pytest.mark.parametrize("units", [("token",), ("trigram",)])
def test_ignored_tokens_that_count_change_no_other_credit(
    backend: str, units: tuple[str, ...]
) -> None:
    """In units, too: they are part of these."""
    plain = credit(OverUnits(KTAE(), units))
    assert np.any(plain[IDS == 4] != 0)
    for estimator in (
        Ignoring(OverUnits(KTAE(), units), (4,), counted=True),
        OverUnits(Scaled(Ignoring(KTAE(), (4,), counted=True), 1.0), units),
    ):
        got = credit(estimator, backend=backend)
        np.testing.assert_allclose(got, np.where(IDS == 4, 0, plain), rtol=0, atol=1e-6)
        assert from_section(to_section(estimator)) == estimator


@pytest.mark.parametrize("name", CONTROLS)
@pytest.mark.parametrize("units", [("token",), ("token", "bigram")])
def test_other_credit_in_the_same_places(backend: str, name: str, units: tuple[str, ...]) -> None:
    real = credit(OverUnits(KTAE(), units))
    control = CONTROLS[name]
    inside = name == "shuffled-values"
    estimator = OverUnits(control(KTAE()), units) if inside else control(OverUnits(KTAE(), units))
    got = credit(estimator, backend=backend)
    assert got.dtype == np.float32 and not np.allclose(got, real)
    assert np.all(got[~KNOWN] == 0)
    np.testing.assert_array_equal(got, credit(estimator, backend=backend))


def test_permuted_labels_are_what_they_say() -> None:
    labels = next(label_permutations(IDS, MASK, Y, GROUPS, seeds=[5]))
    np.testing.assert_array_equal(credit(PermutedLabels(KTAE(), 5)), credit(KTAE(), labels))


def test_permuted_scores() -> None:
    scores = np.array([0.1, 0.9, np.nan, 0.4, 0.2, 0.7])
    inner = Scaled(PresenceZ(graded_rewards=True), 0.3)
    labels = next(label_permutations(IDS, MASK, scores, GROUPS, seeds=[0]))
    np.testing.assert_array_equal(credit(PermutedLabels(inner), scores), credit(inner, labels))


@pytest.mark.parametrize(
    "inner",
    [
        preset("calibrated"),
        OverUnits(KTAE(), ("trigram",)),
        Centred(RandomPlaces(KTAE())),
        RolloutMean(KTAE()),
        WithinRollout(KTAE()),
    ],
    ids=repr,
)
def test_values_of_several_for_a_token_cannot_be_shuffled(inner: Estimator) -> None:
    """Which a trainer says before it trains, and not at the first batch."""
    with pytest.raises(InputError, match=r"gives one token several values.* inside of OverUnits"):
        ShuffledValues(inner)


@pytest.mark.parametrize("ignored", [(), (int(IDS[0, 0]),)])
def test_parts_add_up(ignored: tuple[int, ...]) -> None:
    def of(estimator: Estimator) -> np.ndarray:
        return credit(Ignoring(estimator, ignored) if ignored else estimator)

    inner = preset("calibrated")
    np.testing.assert_allclose(
        of(RolloutMean(inner)) + of(WithinRollout(inner)), of(inner), atol=1e-6
    )
    np.testing.assert_allclose(of(GroupMean(inner)) + of(Centred(inner)), of(inner), atol=1e-6)


def test_group_means_by_hand() -> None:
    real, got = credit(KTAE()), credit(GroupMean(KTAE()))
    for group in (0, 1):
        own = KNOWN & (group == GROUPS)[:, None]
        np.testing.assert_allclose(got[own], real[own].mean(), rtol=1e-6)  # float32
        assert credit(Centred(KTAE()))[own].sum() == pytest.approx(0, abs=1e-5)


def test_group_means_over_rollouts_are_what_a_loss_over_rollouts_averages() -> None:
    """Each rollout averaged first, the centred credit of a group is 0."""
    over = {"over": "rollouts"}
    real, got = credit(KTAE()), credit(GroupMean(KTAE(), **over))
    centred = credit(Centred(KTAE(), **over))
    for group in (0, 1):
        rows = [row for row in np.flatnonzero(group == GROUPS) if KNOWN[row].any()]
        by_rollout = np.mean([real[row][KNOWN[row]].mean() for row in rows])
        own = KNOWN & (group == GROUPS)[:, None]
        np.testing.assert_allclose(got[own], by_rollout, rtol=1e-5)
        left = sum(centred[row][KNOWN[row]].mean() for row in rows)
        assert left == pytest.approx(0, abs=1e-5) != centred[own].sum()
    made = from_section({"estimator": "ktae", "transforms": [{"centred": "rollouts"}]})
    assert made == Centred(KTAE(), **over) == from_section(to_section(made))
    with pytest.raises(InputError, match="over is 'words'; expected tokens or rollouts"):
        Centred(KTAE(), over="words")


def test_the_rollouts_part_centred_has_the_groups_mean_taken_off() -> None:
    whole, rest = credit(RolloutMean(KTAE())), credit(Centred(RolloutMean(KTAE())))
    np.testing.assert_allclose(whole - rest, credit(GroupMean(KTAE())), atol=1e-6)


def test_decay_falls_to_nothing() -> None:
    estimator = Decayed(KTAE(), 4)
    for step, weight in ((0, 1.0), (1, 0.75), (3, 0.25), (4, 0.0), (9, 0.0)):
        got = credit(estimator, step=step)
        np.testing.assert_allclose(got, weight * credit(KTAE()), atol=1e-7)
    with pytest.raises(InputError, match="decays over 4 training steps, and the step is not known"):
        credit(estimator)


def test_rollouts_of_ignored_tokens_take_no_label_away() -> None:
    ids = np.array([[9, 9], [9, 9], [1, 2], [1, 3], [4, 2], [5, 6]])
    for seed in range(10):
        estimator = Ignoring(PermutedLabels(PresenceZ(), seed), (9,))
        found = token_credit(ids, ids > 0, [1, 0, 1, 1, 0, 0], [0] * 6, estimator)
        # Two of the four that count are correct, whatever was drawn: their z is ±√3 at most.
        assert np.abs(found[2:]).max() == pytest.approx(math.sqrt(3), abs=0.75)
        single = found[[3, 4, 5, 5], [1, 0, 0, 1]]  # tokens of one rollout: its advantage, ±1
        np.testing.assert_allclose(np.abs(single), 1, rtol=1e-6)


class Ones(Estimator):
    """An estimator of one's own: one method."""

    def credit(self, batch: Batch) -> np.ndarray:
        ones: np.ndarray = (batch.mask != 0).astype(np.float32)
        return ones


def test_an_estimator_of_ones_own_composes() -> None:
    np.testing.assert_array_equal(credit(Scaled(Ones(), 3.0)), 3.0 * MASK)
    np.testing.assert_array_equal(credit(OverUnits(Ones(), ("token", "bigram"))), 1.0 * MASK)
    got = token_advantages(
        np.zeros(6), IDS, MASK, GROUPS, correct=Y, estimator=RolloutMean(Ones()), base=np.arange(6)
    )
    np.testing.assert_array_equal(got, (1.0 + np.arange(6)[:, None]) * MASK)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Scaled(KTAE(), 0), "factor is 0; expected a number from 1e-30"),
        (lambda: Scaled(KTAE(), float("nan")), "factor is nan"),
        (lambda: Scaled("paper", 2.0), "Scaled wraps 'paper'; expected an estimator"),
        (lambda: PermutedLabels("paper"), "PermutedLabels wraps 'paper'; expected an estimator"),
        (lambda: OverUnits(KTAE(), 3), "units is 3; expected a tuple of names"),
        (lambda: OverUnits(KTAE(), ()), "expected at least one name"),
        (lambda: OverUnits(KTAE(), ("token", "token")), "none twice"),
        (lambda: OverUnits(KTAE(), ["bigramm"]), "no unit 'bigramm'; expected one of token"),
        (lambda: PermutedLabels(KTAE(), -1), "seed is -1; expected an integer from 0"),
        (lambda: RandomPlaces(KTAE(), 1.5), "seed is 1.5; expected an integer from 0"),
        (lambda: Decayed(KTAE(), 0), "steps is 0; expected an integer from 1"),
    ],
)
def test_what_settings_may_be(make: Callable[[], Estimator], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("ids", [[2, 1, 2], {1, 2}, np.array([2, 1], dtype=np.int32), range(1, 3)])
def test_ignored_ids_become_a_sorted_tuple(ids: Any) -> None:
    estimator = Ignoring(KTAE(), ids)
    assert estimator.token_ids == (1, 2)
    assert all(type(token) is int for token in estimator.token_ids)
    assert Ignoring(KTAE(), [0, 2**31 - 1]).token_ids == (0, 2**31 - 1)


OF_IDS, RANGE = "expected a list of token ids", "expected ids from 0 to 2147483647"
NO_IDS = (5, None, ["x"], "151643", [1.5], [2.0], [None], [math.inf], ["7"])


@pytest.mark.parametrize(
    ("ids", "message"),
    [*((ids, OF_IDS) for ids in NO_IDS), *((ids, RANGE) for ids in ([-1], [0, 2**31], [-100, 5]))],
    ids=repr,
)
def test_ignored_ids_that_are_none(ids: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"token_ids .*; {message}"):
        Ignoring(KTAE(), ids)
