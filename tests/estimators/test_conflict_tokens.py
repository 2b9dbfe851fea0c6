"""Conflict tokens: by hand, with the advantages that they change, and both ends alike."""

import itertools

import numpy as np
import pytest
from by_backend import token_advantages, token_credit
from hypothesis import given
from hypothesis import strategies as st

from ktae import InputError
from ktae.estimators import ConflictTokens, Ignoring, preset
from ktae.rollouts import record

ROLLOUTS = [[1, 2, 3, 9], [1, 4, 3, 9], [1, 2, 8], [5, 2, 3, 9]]
RIGHT = [1, 0, 0, 1]
A = 0.5 / (np.sqrt(1 / 3) + 1e-6)
"""The advantage of the correct ones; the others' is its opposite."""

batches = st.lists(
    st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.integers(0, 1)),
    min_size=2,
    max_size=7,
)


def credit(rollouts, correct, estimator=None, **options):
    """By rollout, without the padding."""
    ids, mask = record.pad(rollouts)
    groups = np.zeros(len(rollouts), dtype=int)
    got = token_credit(ids, mask, correct, groups, estimator or ConflictTokens(), **options)
    return [row[own].tolist() for row, own in zip(got, mask, strict=True)]


@pytest.mark.parametrize("backend", ["naive", "cpu", "torch"])
def test_by_hand(backend):
    """Token 1 in the first place, and then 2, which rollout 1 ends with 4; from the end 9 and 3,
    which rollout 2 does not have. Token 2 of the last rollout is in conflict, but 5 before is not.
    """
    expected = [[A, A, A, A], [A, 0, A, A], [A, A, 0], [0, 0, A, A]]
    got = credit(ROLLOUTS, RIGHT, backend=backend)
    for row, wanted in zip(got, expected, strict=True):
        np.testing.assert_allclose(row, wanted, atol=1e-6)
    everywhere = credit(ROLLOUTS, RIGHT, ConflictTokens(runs=False), backend=backend)
    np.testing.assert_allclose(everywhere[3], [0, A, A, A], atol=1e-6)
    assert everywhere[:3] == got[:3]


@pytest.mark.parametrize(("base", "scaled"), [("grpo", True), ("dr_grpo", False)])
@pytest.mark.parametrize("amplify", [0.0, 1.0, 2.0, 3.5])
def test_negative_updates_are_skipped_and_positive_ones_amplified(base, scaled, amplify):
    ids, mask = record.pad(ROLLOUTS)
    estimator = ConflictTokens(amplify=amplify, scale_by_std=scaled)
    rewards, groups = np.array(RIGHT, dtype=float), np.zeros(4, dtype=int)
    plain = token_advantages(rewards, ids, mask, groups, base=base, estimator=lambda i, *_: 0 * i)
    got = token_advantages(rewards, ids, mask, groups, base=base, estimator=estimator)
    conflict = np.array(
        [[1, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]], dtype=bool
    )  # fmt: skip
    factor = np.where(conflict, np.where(plain > 0, amplify, 0.0), 1.0)
    np.testing.assert_allclose(got, plain * factor, atol=1e-6)


@given(batches)
def test_it_is_an_offset_that_is_nowhere_negative(batch):
    rollouts, correct = zip(*batch, strict=True)
    got, all_of_them = (
        np.concatenate(credit(rollouts, correct, ConflictTokens(runs=runs)))
        for runs in (True, False)
    )
    assert got.min() >= 0
    assert np.all((got == 0) | (got == all_of_them))


@given(batches)
def test_both_ends_are_alike(batch):
    rollouts, correct = zip(*batch, strict=True)
    backwards = credit([row[::-1] for row in rollouts], correct)
    assert [row[::-1] for row in backwards] == credit(rollouts, correct)


def test_its_mean_under_permuted_labels_is_above_zero():
    """So it presses every shared beginning upwards, whatever the labels."""
    verdicts = [np.isin(range(4), right) for right in itertools.combinations(range(4), 2)]
    first = np.mean([credit(ROLLOUTS, correct)[0][0] for correct in verdicts])
    assert first == pytest.approx(A, abs=1e-6), "two of three share it whatever is drawn"


def test_unknown_and_average_rollouts_take_no_part():
    correct = [1, 0, np.nan, 1]
    got = credit(ROLLOUTS, correct)
    assert got[2] == [0, 0, 0]
    rest = [0, 1, 3]
    assert [got[i] for i in rest] == credit([ROLLOUTS[i] for i in rest], [1, 0, 1])
    average = ConflictTokens(graded_rewards=True)
    assert credit([[1], [1], [1]], [0.0, 0.5, 1.0], average)[1] == [0]
    assert credit([[1], [2], [1]], [0.0, 0.5, 0.5], average)[1] == [0]


def test_places_count_tokens_that_are_not_ignored():
    longer = [[7, *row] if i % 2 else row for i, row in enumerate(ROLLOUTS)]
    got = credit(longer, RIGHT, Ignoring(ConflictTokens(), (7,)))
    assert [row[-len(old) :] for row, old in zip(got, ROLLOUTS, strict=True)] == credit(
        ROLLOUTS, RIGHT
    )
    assert got[1][0] == 0


def test_settings():
    with pytest.raises(InputError, match="amplify is -1; expected a number from 0"):
        preset("conflict-tokens", amplify=-1)
    with pytest.raises(InputError, match="runs is 0; expected true or false"):
        preset("conflict-tokens", runs=0)
