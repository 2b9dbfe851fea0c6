"""Anchor states: by hand, against plain loops, under permuted labels, and on held-out pairs."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ktae
from ktae import InputError
from ktae.batch import make_batch
from ktae.estimators import (
    KTAE,
    AnchorStates,
    Centred,
    GroupMean,
    Ignoring,
    OverUnits,
    PermutedLabels,
    RolloutMean,
    WithinRollout,
    from_section,
    preset,
    to_section,
)
from ktae.validity import held_out

Rollout = tuple[tuple[int, int], ...]
"""(observation, action) of each turn; the first observation is the prompt, and not looked at."""


def arrays(rollouts):
    """Two tokens a turn, its action and 1; an observation is one token of 100 and more."""
    rows = [
        [
            token
            for n, (seen, done) in enumerate(rollout)
            for token in ([100 + seen] if n else []) + [done, 1]
        ]
        for rollout in rollouts
    ]
    width = max(map(len, rows))
    ids = np.array([row + [0] * (width - len(row)) for row in rows])
    mask = (ids > 0) & (ids < 100)
    return ids, mask


def naive(rollouts, rewards, groups, *, gamma, omega=1.0, scale_by_std=True):
    """The credit of each turn of each rollout, set by set, as the paper's equations have it."""
    sets = defaultdict(list)
    by_group = defaultdict(set)
    for i, rollout in enumerate(rollouts):
        if not math.isnan(rewards[i]):
            by_group[groups[i]].add(rewards[i])
        for t, (seen, _) in enumerate(rollout):
            if not math.isnan(rewards[i]):
                state = seen if t else "prompt"
                after = gamma ** (len(rollout) - 1 - t) * rewards[i]
                sets[groups[i], state].append((i, t, after))
    credit = [[0.0] * len(rollout) for rollout in rollouts]
    for (group, _), members in sets.items():
        returns = [after for *_, after in members]
        mean = sum(returns) / len(returns)
        spread = 1.0
        if scale_by_std:
            n = max(1, len(returns) - 1)
            spread = math.sqrt(sum((x - mean) ** 2 for x in returns) / n) + 1e-6
        for i, t, after in members:
            if len(by_group[group]) > 1:
                credit[i][t] = omega * (after - mean) / spread
    return credit


def of_turns(credit_bt, mask_bt):
    """Each turn's credit, which has to be the same at its two tokens, and 0 outside."""
    assert not credit_bt[~mask_bt].any()
    rows = []
    for credit, mask in zip(credit_bt, mask_bt, strict=True):
        pairs = credit[mask].reshape(-1, 2)
        assert (pairs[:, 0] == pairs[:, 1]).all()
        rows.append(pairs[:, 0].tolist())
    return rows


def credit_of(rollouts, rewards, groups, estimator):
    ids, mask = arrays(rollouts)
    return of_turns(ktae.token_credit(ids, mask, rewards, groups, estimator), mask)


ROOMS: list[Rollout] = [
    ((0, 2), (1, 3), (2, 4)),
    ((0, 2), (1, 5), (3, 4)),
    ((0, 6), (3, 4)),
    ((0, 2), (1, 3), (1, 3)),
]


def test_by_hand():
    """States: the prompt (4 rollouts), 1 (three rollouts, one of them twice), 2 alone, 3 twice."""
    rewards, half = [1.0, 0.0, 0.0, 1.0], 0.5
    got = credit_of(
        ROOMS, rewards, [0] * 4, AnchorStates(gamma=half, scale_by_std=False, omega=2.0)
    )
    prompt, one = (0.25 + 0.25) / 4, (0.5 + 0.5 + 1.0) / 4
    expected = [
        [0.25 - prompt, 0.5 - one, 0.0],
        [-prompt, -one, 0.0],
        [-prompt, 0.0],
        [0.25 - prompt, 0.5 - one, 1.0 - one],
    ]
    for row, wanted in zip(got, expected, strict=True):
        np.testing.assert_allclose(row, np.array(wanted) * 2, atol=1e-6)
    # With the deviation: the prompt's four returns are 1/4, 0, 0, 1/4.
    scaled = credit_of(ROOMS, rewards, [0] * 4, AnchorStates(gamma=half))
    spread = math.sqrt(4 * (1 / 8) ** 2 / 3)
    assert scaled[0][0] == pytest.approx(1 / 8 / spread, rel=1e-4)


turns = st.lists(st.tuples(st.integers(0, 2), st.integers(2, 4)), min_size=1, max_size=4)
batches = st.lists(
    st.tuples(turns, st.sampled_from([0.0, 1.0, 0.25, math.nan]), st.integers(0, 1)),
    min_size=1,
    max_size=7,
)


@given(batches, st.sampled_from([0.0, 0.5, 0.95, 1.0]), st.booleans())
def test_against_plain_loops(batch, gamma, scale_by_std):
    rollouts, rewards, groups = zip(*batch, strict=True)
    settings = {"gamma": gamma, "scale_by_std": scale_by_std, "omega": 0.7}
    estimator = AnchorStates(graded_rewards=True, **settings)
    got = credit_of(rollouts, rewards, groups, estimator)
    for row, wanted in zip(got, naive(rollouts, rewards, groups, **settings), strict=True):
        np.testing.assert_allclose(row, wanted, atol=2e-5)


def mean_over_labels(rollouts, n_right, estimator):
    """Each turn's mean credit over all ways to label the rollouts."""
    total = 0.0
    labels = list(itertools.combinations(range(len(rollouts)), n_right))
    for right in labels:
        rewards = [float(i in right) for i in range(len(rollouts))]
        rows = credit_of(rollouts, rewards, [0] * len(rollouts), estimator)
        total = total + np.concatenate(rows).astype(np.float64)
    return total / len(labels)


ONCE: list[Rollout] = [*ROOMS[:3], ((0, 2), (1, 3))]
"""No rollout comes back to a state."""


@pytest.mark.parametrize(
    ("rollouts", "n_right", "settings", "is_zero"),
    [
        (ROOMS, 1, {"gamma": 1.0, "scale_by_std": False}, True),
        (ONCE, 1, {"gamma": 1.0}, True),
        (ROOMS, 1, {"gamma": 1.0}, False),  # one rollout is in a state twice
        (ONCE, 2, {}, False),  # what is near to the end is favoured
    ],
)
def test_mean_under_permuted_labels(rollouts, n_right, settings, is_zero):
    mean = mean_over_labels(rollouts, n_right, AnchorStates(**settings))
    assert (np.abs(mean).max() < 1e-6) == is_zero


def test_of_rollouts_of_one_turn_it_is_grpos_advantage():
    rollouts = [((0, 2),), ((0, 3),), ((0, 2),)]
    ids, mask = arrays(rollouts)
    rewards = [1.0, 0.0, 0.0]
    doubled = ktae.token_advantages(rewards, ids, mask, [0] * 3, estimator=AnchorStates())
    once = ktae.token_advantages(rewards, ids, mask, [0] * 3, estimator=Ignoring(KTAE(), range(5)))
    np.testing.assert_allclose(doubled, 2 * once, atol=1e-5)


@pytest.mark.parametrize("correct", [[1, 1, 1, 1], [0, 0, 0, 0], [1, np.nan, np.nan, np.nan]])
def test_a_group_without_contrast_has_none(correct):
    assert not np.any(np.concatenate(credit_of(ROOMS, correct, [0] * 4, AnchorStates())))


def test_what_wraps_it():
    ids, mask = arrays(ROOMS)
    batch = ids, mask, [1, 0, 0, 1], [0] * 4
    plain = ktae.token_credit(*batch, AnchorStates())
    parts = [ktae.token_credit(*batch, kind(AnchorStates())) for kind in (Centred, GroupMean)]
    np.testing.assert_allclose(sum(parts), plain, atol=1e-6)
    parts = [ktae.token_credit(*batch, k(AnchorStates())) for k in (RolloutMean, WithinRollout)]
    np.testing.assert_allclose(sum(parts), plain, atol=1e-6)
    assert ktae.token_credit(*batch, PermutedLabels(AnchorStates(), 3)).any()
    # An ignored token has none, and does not end its turn.
    ignoring = ktae.token_credit(*batch, Ignoring(AnchorStates(), (2,)))
    np.testing.assert_array_equal(ignoring, np.where(ids == 2, 0, plain))


def test_held_out_rollouts_get_what_the_same_turn_in_the_same_state_has():
    batch = make_batch(*arrays(ROOMS), [1, 0, np.nan, 0], [0] * 4)._replace(look_up_unknown=True)
    estimator = AnchorStates(gamma=1.0, scale_by_std=False)
    got = of_turns(estimator.credit(batch), arrays(ROOMS)[1])
    # No known one did 6 at first; in state 3 the second rollout did the same, and was alone.
    assert got[2] == [0.0, 0.0]
    known = make_batch(*arrays(ROOMS), [1, 0, np.nan, np.nan], [0] * 4)
    looked_up = known._replace(look_up_unknown=True)
    got = of_turns(estimator.credit(looked_up), arrays(ROOMS)[1])
    assert got[3] == pytest.approx([0.0, 0.5, 0.5])


def test_held_out_pairs_are_told_apart_by_a_good_turn():
    """Whoever does 3 in state 1 is right. By chance, over all labels, it is one half."""
    rollouts = [((0, 2), (1, 3 if i < 4 else 4)) for i in range(8)]
    ids, mask = arrays(rollouts)
    correct = np.arange(8) < 4
    pairs = np.array(list(itertools.product(range(4), range(4, 8))))
    assert held_out.wins(ids, mask, correct, pairs, AnchorStates()).mean() == 1
    shares = []
    for right in itertools.combinations(range(6), 3):
        labels = np.isin(np.arange(6), right)
        some = np.array(list(itertools.product(np.flatnonzero(labels), np.flatnonzero(~labels))))
        shares.append(held_out.wins(ids[1:7], mask[1:7], labels, some, AnchorStates()).mean())
    assert np.mean(shares) == pytest.approx(0.5) and np.std(shares) > 0


def test_as_a_section_and_its_errors():
    assert preset("anchor-states", gamma=1) == AnchorStates(gamma=1.0)
    turns = from_section({"estimator": "paper", "transforms": [{"over-units": ["state-turn"]}]})
    assert turns == OverUnits(KTAE(), ("state-turn",))
    assert repr(AnchorStates(normalise=str.lower)) == "AnchorStates(normalise=str.lower)"
    own = {"normalise": str.lower}
    for estimator in (AnchorStates(**own), OverUnits(KTAE(), ("state",), **own)):
        with pytest.raises(InputError, match="which no recipe could hold"):
            to_section(estimator)
    with pytest.raises(InputError, match="expected no OverUnits of it"):
        OverUnits(Centred(AnchorStates()), ("turn",))
    for name, value in (("gamma", 1.1), ("omega", 0), ("normalise", 3), ("scale_by_std", 1)):
        with pytest.raises(InputError, match=name):
            AnchorStates(**{name: value})
