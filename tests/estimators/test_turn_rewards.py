"""Credit of turn rewards: against loops, by hand, over all permutations, and the true gradient."""

import itertools
import math
import statistics
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ktae
from ktae import InputError
from ktae.estimators import MTGRPO, TurnRewards
from ktae.padding import pad
from ktae.turns import find_turns

SEEN = 90
"""Token ids from here on are an environment's."""


def arrays(responses):
    """Token ids and mask of responses, each a list of turns, with an observation between two."""
    rows = [
        [t for k, turn in enumerate(turns) for t in ([SEEN + k, *turn] if k else turn)]
        for turns in responses
    ]
    ids, inside = pad(rows)
    return ids, inside & (ids < SEEN)


def naive(ids, mask, rewards, groups, estimator):
    """(B, T) in plain loops, turn by turn and set by set, as the docstrings have it."""
    turns = find_turns(mask)
    by_row = defaultdict(list)
    for row, number, seen, start, stop in zip(
        turns.row, turns.number, turns.seen, turns.start, turns.stop, strict=True
    ):
        unit = number if estimator.unit == "turn" else tuple(ids[row, seen:start])
        by_row[row].append((slice(start, stop), (groups[row], unit)))

    def returns(values):
        n = len(values)
        return [sum(estimator.gamma ** (m - k) * values[m] for m in range(k, n)) for k in range(n)]

    def compared(values):
        sets = defaultdict(list)
        for row, spans in by_row.items():
            for (_, unit), value in zip(spans, values[row], strict=True):
                sets[unit].append(value)
        result = {}
        for row, spans in by_row.items():
            result[row] = []
            for (_, unit), value in zip(spans, values[row], strict=True):
                members = sets[unit]
                std = statistics.stdev(members) if len(members) > 1 else 0.0
                scale = std + 1e-6 if estimator.scale_by_std else 1.0
                result[row].append((value - statistics.mean(members)) / scale)
        return result

    values = {row: list(rewards[row]) for row in by_row}
    if isinstance(estimator, MTGRPO):
        values = {row: returns(row_values) for row, row_values in compared(values).items()}
    else:
        values = compared({row: returns(row_values) for row, row_values in values.items()})
    credit = np.zeros(ids.shape)
    for row, spans in by_row.items():
        for (span, _), value in zip(spans, values[row], strict=True):
            credit[row, span] = estimator.omega * value
    return credit


settings = st.fixed_dictionaries(
    {
        "unit": st.sampled_from(["turn", "state"]),
        "gamma": st.sampled_from([1.0, 0.9, 0.0]),
        "omega": st.sampled_from([1.0, 0.3]),
        "scale_by_std": st.booleans(),
    }
)


@given(
    st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=4), min_size=1, max_size=7),
    st.sampled_from([TurnRewards, MTGRPO]),
    settings,
    st.integers(0, 2**32 - 1),
)
def test_it_is_what_plain_loops_give(lengths, kind, settings, seed):
    rng = np.random.default_rng(seed)
    responses = [[rng.integers(1, 5, n).tolist() for n in turns] for turns in lengths]
    ids, mask = arrays(responses)
    groups = rng.integers(0, 2, len(ids))
    rewards = [rng.normal(size=len(turns)).round(2).tolist() for turns in responses]
    estimator = kind(**settings)
    credit = ktae.token_credit(
        ids, mask, np.zeros(len(ids)), groups, estimator, turn_rewards=rewards
    )
    np.testing.assert_allclose(credit, naive(ids, mask, rewards, groups, estimator), atol=1e-5)


TWO = [[[1, 2], [3]], [[1], [4, 5]]]


def test_the_papers_two_turns():
    """A^T + A^O for the first turn and A^O for the second (arXiv:2505.11821)."""
    ids, mask = arrays([[[1], [2]], [[1], [3]], [[4], [2]], [[5], [3]]])
    turn, outcome = np.array([1.0, 0.5, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 1.0])
    advantages = ktae.token_advantages(
        outcome, ids, mask, [0] * 4, credit=MTGRPO(), turn_rewards=[[x] for x in turn]
    )

    def scaled(x):
        return (x - x.mean()) / (x.std(ddof=1) + 1e-6)

    np.testing.assert_allclose(advantages[:, 0], scaled(turn) + scaled(outcome), rtol=1e-5)
    np.testing.assert_allclose(advantages[:, 2], scaled(outcome), rtol=1e-5)


@pytest.mark.parametrize(
    "estimator",
    [TurnRewards(), TurnRewards(gamma=0.5, scale_by_std=True), MTGRPO(), TurnRewards(unit="state")],
    ids=repr,
)
def test_the_mean_over_permuted_turn_rewards_is_0(estimator):
    ids, mask = arrays([[[1, 2], [3]], [[1], [4, 5]], [[2], [6]]])
    rewards = [[1.0, 0.25], [0.5, 4.0], [-1.0, 0.0]]
    credits = [
        ktae.token_credit(ids, mask, [0] * 3, [0] * 3, estimator, turn_rewards=list(order))
        for order in itertools.permutations(rewards)
    ]
    assert np.abs(credits[0]).max() > 0.1
    np.testing.assert_allclose(np.mean(credits, axis=0, dtype=np.float64), 0, atol=1e-7)


def gradient(estimator, go_on, group):
    """Expected gradient by the logit of `go on`, over all groups, of a policy that stops (token 1)
    or goes on (token 2) in each of up to three turns; each turn but the last is rewarded with 1."""
    episodes = [[1], [2, 1], [2, 2, 1], [2, 2, 2]]
    chance = [np.prod([go_on if a == 2 else 1 - go_on for a in x]) for x in episodes]
    total = 0.0
    for members in itertools.product(range(len(episodes)), repeat=group):
        chosen = [episodes[m] for m in members]
        ids, mask = arrays([[[action] for action in episode] for episode in chosen])
        rewards = [[1.0] * (len(episode) - 1) for episode in chosen]
        credit = ktae.token_credit(
            ids, mask, [0] * group, [0] * group, estimator, turn_rewards=rewards
        )
        score = np.where(ids == 2, 1 - go_on, -go_on) * mask
        weight = np.prod([chance[m] for m in members])
        total += weight * (credit.astype(np.float64) * score).sum() / group
    return total


def test_the_baseline_does_not_depend_on_when_the_policy_stops():
    """Going on is worth 1 and, in the first turn, p more: the chance to do so again.

    A turn's gradient is that times p (1 - p), the chance that the turn is reached, and m / (m + 1)
    where m others have reached it, since its own return is in the mean. MT-GRPO subtracts what the
    turns that follow are worth on average, so that nothing of it is left.
    """
    p, n = 0.6, 3

    def expected(worth):
        total = 0.0
        for k, value in enumerate(worth):
            reached = p**k
            shares = [
                math.comb(n - 1, m) * reached**m * (1 - reached) ** (n - 1 - m) * m / (m + 1)
                for m in range(n)
            ]
            total += reached * value * p * (1 - p) * sum(shares)
        return total

    assert gradient(TurnRewards(), p, n) == pytest.approx(expected([1 + p, 1, 0]), rel=1e-5)
    biased = gradient(MTGRPO(scale_by_std=False), p, n)
    assert biased == pytest.approx(expected([1, 1, 0]), rel=1e-5)


@pytest.mark.parametrize(
    ("rewards", "place"),
    [
        (None, "turn_rewards is None"),
        ([[1.0, 2.0]], "turn_rewards is of 1"),
        ([[1.0, 2.0], [1.0, 2.0, 3.0]], "turn_rewards[1]"),
        ([[], [1.0]], "turn_rewards[0]"),
        ([[1.0], None], "turn_rewards[1]"),
        ([[1.0, float("nan")], [1.0, 2.0]], "turn_rewards[0]"),
    ],
)
def test_rewards_that_do_not_fit_the_turns_are_refused(rewards, place):
    with pytest.raises(InputError) as error:
        ktae.token_credit(*arrays(TWO), [0, 1], [0, 0], TurnRewards(), turn_rewards=rewards)
    assert str(error.value).startswith(place)


def test_columns_of_other_kinds_are_the_same():
    torch = pytest.importorskip("torch")
    ids, mask = arrays([*TWO, [[7]]])
    padded = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, np.nan]])
    columns = [[1.0, 2.0], [3.0], [5.0]], padded, torch.tensor(padded)
    results = [
        ktae.token_credit(ids, mask, [1, 0, 1], [0] * 3, TurnRewards(), turn_rewards=column)
        for column in columns
    ]
    assert np.abs(results[0]).max() > 0
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_a_response_of_unknown_correctness_takes_no_part():
    ids, mask = arrays([*TWO, [[7], [8]]])
    rewards = [[1.0], [0.0, 4.0], [100.0, 100.0]]
    credit = ktae.token_credit(
        ids, mask, [0, 1, np.nan], [0] * 3, TurnRewards(), turn_rewards=rewards
    )
    alone = ktae.token_credit(*arrays(TWO), [0, 1], [0, 0], TurnRewards(), turn_rewards=rewards[:2])
    np.testing.assert_array_equal(credit[:2], alone)
    assert not credit[2].any()
