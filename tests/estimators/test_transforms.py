"""What wraps an estimator: each wrapper's numbers, that they compose, and what draws depend on."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from by_backend import token_advantages, token_credit
from small_group import IDS, MASK

import ktae
from ktae import InputError
from ktae.batch import Batch
from ktae.estimators import (
    KTAE,
    Centred,
    Estimator,
    Function,
    Ignoring,
    OverUnits,
    PermutedLabels,
    PresenceZ,
    RandomPlaces,
    Scaled,
    preset,
)
from ktae.estimators.controls import label_permutations

GROUPS = np.array([0, 1, 0, 0, 1, 0])
Y = np.array([1, 0, np.nan, 1, 1, 0])
KNOWN = MASK & ~np.isnan(Y)[:, None]


def credit(estimator: Any, correct: Any = Y, **options: Any) -> np.ndarray:
    got: np.ndarray = token_credit(IDS, MASK, correct, GROUPS, estimator, **options)
    return got


class Ones(Estimator):
    """An estimator of one's own: one method."""

    def credit(self, batch: Batch) -> np.ndarray:
        ones: np.ndarray = (batch.mask != 0).astype(np.float32)
        return ones


@pytest.mark.parametrize(
    "inner", [Ones(), preset("trigrams"), preset("paper")], ids=["own", "trigrams", "paper"]
)
def test_scales_multiply(inner: Estimator) -> None:
    """Also that of the trigrams' mean, which has one of its own."""
    scaled = credit(Scaled(Scaled(inner, 1.5), 2.0))
    assert np.abs(scaled).max() > 0
    np.testing.assert_allclose(scaled, 3.0 * credit(inner), rtol=1e-6)
    np.testing.assert_array_equal(credit(OverUnits(Ones(), ("token", "bigram"))), 1.0 * MASK)
    got = token_advantages(
        np.zeros(6), IDS, MASK, GROUPS, correct=Y, credit=Scaled(Ones(), 1.0), base=np.arange(6)
    )
    np.testing.assert_array_equal(got, (1.0 + np.arange(6)[:, None]) * MASK)


def test_units_are_averaged() -> None:
    units = ("token", "bigram", "trigram")
    parts = [credit(Ignoring(OverUnits(KTAE(), (unit,)), (4,))) for unit in units]
    got = credit(Ignoring(OverUnits(KTAE(), units), (4,)))
    np.testing.assert_allclose(got, np.mean(parts, axis=0), atol=1e-7)
    assert np.all(got[(IDS == 4) | ~MASK] == 0) and np.any(got != 0)


@pytest.mark.parametrize("units", [("trigram",), ("token", "bigram")])
def test_ignored_tokens_are_no_part_of_units_in_either_order(units: tuple[str, ...]) -> None:
    """They are as if masked; and the wrapped estimator may hold more wrappers."""
    for inner in (PresenceZ(), KTAE()):
        mask = MASK & ~np.isin(IDS, (2, 4))
        expected = token_credit(IDS, mask, Y, GROUPS, OverUnits(inner, units))
        for estimator in (
            Ignoring(OverUnits(inner, units), (2, 4)),
            Ignoring(Ignoring(OverUnits(inner, units), (4,)), (2,)),
            OverUnits(Ignoring(inner, (2, 4)), units),
            Ignoring(OverUnits(Scaled(Ignoring(inner, (4,)), 1.0), units), (2,)),
        ):
            np.testing.assert_array_equal(credit(estimator), expected)
        assert np.any(expected != 0)


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


@pytest.mark.parametrize("over", ["tokens", "rollouts"])
def test_centred_credit_has_mean_0_in_each_group(over: Any) -> None:
    real, got = credit(KTAE()), credit(Centred(KTAE(), over=over))
    np.testing.assert_array_equal(got[~KNOWN], real[~KNOWN])
    for group in (0, 1):
        rows = np.flatnonzero((group == GROUPS) & KNOWN.any(axis=1))
        means = [got[row, KNOWN[row]].mean() for row in rows]
        values = got[rows][KNOWN[rows]] if over == "tokens" else means
        assert np.mean(values) == pytest.approx(0, abs=1e-7)
        assert np.ptp((real - got)[rows][KNOWN[rows]]) == pytest.approx(0, abs=1e-7)


def test_permuted_labels_are_what_they_say() -> None:
    scores = np.array([0.1, 0.9, np.nan, 0.4, 0.2, 0.7])
    for correct, inner in ((Y, KTAE()), (scores, Scaled(PresenceZ(graded_rewards=True), 0.3))):
        labels = next(label_permutations(IDS, MASK, correct, GROUPS, seeds=[5]))
        np.testing.assert_array_equal(
            credit(PermutedLabels(inner, 5), correct), credit(inner, labels)
        )


Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def batch() -> Arrays:
    """Twelve groups of eight, mixed up, some rollouts unknown, one empty."""
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 30, (96, 20))
    mask = (np.arange(20) < rng.integers(1, 21, (96, 1))) & (rng.random((96, 20)) < 0.9)
    mask[7] = False
    correct = rng.choice([0.0, 1.0, np.nan], 96, p=[0.45, 0.45, 0.1])
    return ids, mask, correct, rng.permutation(np.repeat(np.arange(12), 8))


def permuted_labels(*arrays: Any, seed: int) -> np.ndarray:
    return next(label_permutations(*arrays, seeds=[seed]))


def random_places(*arrays: Any, seed: int) -> np.ndarray:
    moved: np.ndarray = ktae.token_credit(*arrays, RandomPlaces(KTAE(), seed))
    return moved


DRAWS: list[Callable[..., np.ndarray]] = [permuted_labels, random_places]


def test_what_draws_keep(batch: Arrays) -> None:
    """Labels their group, places their rollout."""
    _, mask, correct, groups = batch
    known = mask & ~np.isnan(correct)[:, None]
    real = ktae.token_credit(*batch, "paper")
    labels, places = (draw(*batch, seed=0) for draw in DRAWS)
    is_fixed = ~known.any(axis=1)
    np.testing.assert_array_equal(labels[is_fixed], correct[is_fixed])
    for group in range(12):
        rows = (groups == group) & ~is_fixed
        assert Counter(labels[rows]) == Counter(correct[rows])
    for row in range(96):
        assert Counter(places[row, mask[row]]) == Counter(real[row, mask[row]])
    assert not places[~known].any()
    for got, was in ((labels[~is_fixed], correct[~is_fixed]), (places, real)):
        assert (got != was).sum() > 0.3 * np.count_nonzero(was)


@pytest.mark.parametrize("draw", DRAWS)
def test_draws_depend_on_the_seed_and_the_ids_alone(
    draw: Callable[..., np.ndarray], batch: Arrays
) -> None:
    expected = draw(*batch, seed=0)
    np.testing.assert_array_equal(draw(*batch, seed=0), expected)
    assert not np.array_equal(draw(*batch, seed=1), expected, equal_nan=True)
    ids, mask, correct, groups = batch
    # In another order, among others, with other padding, other dtypes and other names of groups.
    order = np.random.default_rng(2).permutation(96)
    order = order[np.isin(groups[order], [3, 5, 8])]
    garbage = np.where(mask, ids, -100)[order]
    padded = [np.pad(x, ((0, 2), (0, 3))) for x in (garbage.astype(np.int32), mask[order])]
    names = np.array([f"prompt {11 - group}" for group in [*groups[order], 3, 3]])
    got = draw(*padded, np.append(correct[order], [0, 1]), names, seed=0)[: len(order)]
    np.testing.assert_array_equal(got[:, :20] if got.ndim == 2 else got, expected[order])
    # Other tokens are drawn for anew, though the same credit belongs to them.
    renamed = draw(ids + 1, mask, correct, groups, seed=0)
    assert not np.array_equal(renamed, expected, equal_nan=True)


def number(token_ids: Any, mask: Any, correct: Any, groups: Any) -> Any:
    """Credit that tells where it comes from."""
    return token_ids


def test_draws_are_those_of_the_first_version() -> None:
    """So that a published control can be computed again. Origin: ktae at commit 7672ff8."""
    ids, groups = np.array([[1, 2, 3], [4, 5, 1], [6, 2, 7], [8, 3, 9]]), [0] * 4
    labels = label_permutations(ids, ids > 0, [1, 1, 0, 0], groups, seeds=range(4))
    expected = [[0, 1, 1, 0], [1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert [drawn.tolist() for drawn in labels] == expected
    places = [[2, 3, 1], [4, 1, 5], [2, 7, 6], [8, 3, 9]]
    got = ktae.token_credit(ids, ids > 0, [1, 0, 1, 0], groups, RandomPlaces(Function(number), 3))
    assert got.tolist() == places


def test_draws_of_equal_rollouts_empty_batches_and_tensors(batch: Arrays) -> None:
    """Which of equal rollouts has which label says nothing; their number stays."""
    ids, mask = np.zeros((4, 2), dtype=int), np.ones((4, 2))
    assert permuted_labels(ids, mask, [1, 1, 1, 0], [0] * 4, seed=5).sum() == 3
    for draw in DRAWS:
        assert len(draw(ids[:0], mask[:0], np.zeros(0), np.zeros(0, dtype=int), seed=0)) == 0
    for control in (PermutedLabels, RandomPlaces):
        got = ktae.token_credit(*map(torch.from_numpy, batch), control(KTAE(), 3))
        np.testing.assert_array_equal(got.numpy(), ktae.token_credit(*batch, control(KTAE(), 3)))
    with pytest.raises(InputError, match=r"^correct "):
        permuted_labels(ids, mask, [1], [0] * 4, seed=0)
