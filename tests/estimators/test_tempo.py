"""TEMPO: by hand, beside the advantage that its paper prints, and what follows from a tree."""

import itertools
import math

import numpy as np
import pytest
from by_backend import token_advantages, token_credit
from hypothesis import given
from hypothesis import strategies as st

from ktae import InputError
from ktae.estimators import OverUnits, Tempo, preset
from ktae.rollouts import record

ROLLOUTS = [[1, 2, 3], [1, 2, 4], [1, 5], [6, 6], [1, 2]]
RIGHT = [1, 0, 0, 1, 0]
STD = math.sqrt(0.3)
"""Of these rewards: Σ (r - 2/5)² = 6/5, divided by 4."""

batches = st.lists(
    st.tuples(st.lists(st.integers(0, 2), max_size=6), st.integers(0, 1)), min_size=2, max_size=7
)
"""Rollouts of three tokens, so that many begin alike, with their verdicts."""


def credit(rollouts, correct, estimator=None, **options):
    groups = np.zeros(len(rollouts), dtype=int)
    return token_credit(*record.pad(rollouts), correct, groups, estimator or Tempo(), **options)


@pytest.mark.parametrize("backend", ["naive", "cpu", "torch"])
def test_by_hand(backend):
    """V() = 2/5, V(1) = 1/4, V(1 2) = 1/3, V(1 2 3) = 1, V(6) = 1; the last rollout ends early."""
    to_1, to_12 = 1 / 4 - 2 / 5, 1 / 3 - 1 / 4
    expected = [
        [to_1, to_12, 2 / 3],
        [to_1, to_12, -1 / 3],
        [to_1, -1 / 4, 0],
        [3 / 5, 0, 0],
        [to_1, to_12, 0],
    ]
    got = credit(ROLLOUTS, RIGHT, backend=backend)
    np.testing.assert_allclose(got, np.array(expected) / (STD + 1e-6), atol=1e-6)
    raw = credit(ROLLOUTS, RIGHT, Tempo(scale_by_std=False), backend=backend)
    np.testing.assert_allclose(raw, expected, atol=1e-7)


def advantages_of_the_paper(rollouts, rewards):
    """(r_i - mean + V(s_{t+1}) - V(s_t)) / std, rollout by rollout and with sets of prefixes."""

    def value(prefix):
        n = len(prefix)
        return np.mean([r for row, r in zip(rollouts, rewards, strict=True) if row[:n] == prefix])

    std = np.std(rewards, ddof=1) + 1e-6
    return [
        [
            (reward - np.mean(rewards) + value(row[: t + 1]) - value(row[:t])) / std
            for t in range(len(row))
        ]
        for row, reward in zip(rollouts, rewards, strict=True)
    ]


@given(batches)
def test_with_grpos_advantage_it_is_what_the_paper_prints(batch):
    rollouts = [row for row, _ in batch if row]
    rewards = [float(reward) for row, reward in batch if row]
    if len(set(rewards)) < 2:
        return
    ids, mask = record.pad(rollouts)
    groups = np.zeros(len(rollouts), dtype=int)
    got = token_advantages(rewards, ids, mask, groups, estimator=Tempo())
    expected = np.concatenate(advantages_of_the_paper(rollouts, rewards))
    np.testing.assert_allclose(got[mask], expected, atol=1e-5)


def test_mean_over_all_permuted_labels_is_zero():
    verdicts = [np.isin(range(5), right) for right in itertools.combinations(range(5), 2)]
    found = np.array([credit(ROLLOUTS, correct) for correct in verdicts])
    np.testing.assert_allclose(found.mean(axis=0, dtype=np.float64), 0, atol=1e-7)
    assert np.abs(found).max() > 0.5


def test_mean_over_all_permuted_scores_is_zero():
    scores = [3.0, -1.0, 0.5, 0.5, 7.0]
    found = np.array(
        [credit(ROLLOUTS, order, Tempo(graded_rewards=True))
         for order in itertools.permutations(scores)]
    )  # fmt: skip
    np.testing.assert_allclose(found.mean(axis=0, dtype=np.float64), 0, atol=1e-6)


@given(batches)
def test_of_rollouts_that_part_the_credit_adds_up_to_the_advantage(batch):
    """A last token of its own makes each rollout part from the others."""
    rollouts = [[*row, 10 + i] for i, (row, _) in enumerate(batch)]
    rewards = np.array([float(reward) for _, reward in batch])
    got = credit(rollouts, rewards).sum(axis=1, dtype=np.float64)
    std = np.std(rewards, ddof=1)
    expected = (rewards - rewards.mean()) / (std + 1e-6) if std else 0 * rewards
    np.testing.assert_allclose(got, expected, atol=1e-5)


@given(batches)
def test_prefixes_of_bigrams_are_prefixes_of_tokens(batch):
    rollouts, correct = zip(*batch, strict=True)
    got = credit(rollouts, correct, OverUnits(Tempo(), ("bigram",)))
    np.testing.assert_array_equal(got, credit(rollouts, correct))


def test_graded_scores_that_are_moved_and_stretched_say_the_same():
    estimator, scores = Tempo(graded_rewards=True), np.array([0.1, 0.9, 0.4, 0.4, 0.0])
    got = credit(ROLLOUTS, 40 * scores - 7, estimator)
    np.testing.assert_allclose(got, credit(ROLLOUTS, scores, estimator), atol=1e-5)
    assert np.all(credit(ROLLOUTS, np.full(5, 0.1) + 1e-9 * scores, estimator) == 0)


def test_unknown_rollouts_are_in_no_tree():
    correct = [1, 0, np.nan, 1, 0]
    got = credit(ROLLOUTS, correct)
    assert np.all(got[2] == 0)
    rest = [0, 1, 3, 4]
    alone = credit([ROLLOUTS[i] for i in rest], [correct[i] for i in rest])
    np.testing.assert_array_equal(got[rest], alone)


def test_the_prefix_goes_on_after_a_hole_in_the_mask():
    ids, mask = record.pad([[9, *row] for row in ROLLOUTS])
    ids, mask = ids[:, [1, 0, *range(2, ids.shape[1])]], mask.copy()
    mask[:, 1] = False  # token 9, now the second one
    got = token_credit(ids, mask, RIGHT, np.zeros(5, int), Tempo())
    np.testing.assert_array_equal(np.delete(got, 1, axis=1), credit(ROLLOUTS, RIGHT))


def test_settings():
    with pytest.raises(InputError, match="scale_by_std is 1; expected true or false"):
        preset("tempo", scale_by_std=1)
    with pytest.raises(InputError, match="graded_rewards"):
        credit(ROLLOUTS, [0.5, 0, 0, 1, 0])
