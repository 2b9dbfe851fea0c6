"""Turns, what makes two states equal, and the table of what was done in a state."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

import ktae
from ktae.batch import Vocabulary
from ktae.estimators import KTAE, AnchorStates, Function, Ignoring, OverUnits, PresenceZ
from ktae.turns import find_turns, shared_states

WORDS = ["go", "take", "key", "door", "at", "9:00", "9:05", "hall", "<end>"]
TEXTS = Vocabulary(tuple(word.encode() + b" " for word in WORDS))

GO, TAKE, KEY, DOOR, AT, NINE, FIVE, HALL, END = range(len(WORDS))
ROLLOUTS = [
    ([GO, END], [HALL, AT, NINE], [TAKE, KEY, END]),
    ([GO, END], [HALL, AT, FIVE], [TAKE, KEY, END]),
    ([GO, END], [HALL, AT, NINE], [TAKE, DOOR, END]),
    ([TAKE, END], [HALL, AT, FIVE], [TAKE, DOOR, END]),
]
"""Turn, observation, turn; the observation has a time."""

CORRECT = np.array([1.0, 1.0, 0.0, 0.0])
GROUPS = np.zeros(4, dtype=int)


def arrays(rollouts=ROLLOUTS, prompt=()):
    """Ids and mask; the prompt is masked and stands before the first turn."""
    ids = np.array([[*prompt, *itertools.chain(*rollout)] for rollout in rollouts])
    mask = np.ones_like(ids)
    mask[:, : len(prompt)] = 0
    mask[:, len(prompt) + 2 : len(prompt) + 5] = 0
    return ids, mask


@given(hnp.arrays(np.bool_, hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=7)))
def test_turns_are_the_runs_of_the_mask(mask):
    turns = find_turns(mask)
    rebuilt = np.zeros_like(mask)
    for row, number, left, seen, start, stop in zip(*turns, strict=True):
        assert mask[row, start:stop].all() and start < stop
        assert not mask[row, seen:start].any() and (number == 0) == (seen == start)
        assert stop == mask.shape[1] or not mask[row, stop]
        of_row = turns.row == row
        assert number + left + 1 == of_row.sum()
        rebuilt[row, start:stop] = True
    np.testing.assert_array_equal(rebuilt, mask)
    # In the order of the tokens, so that a turn's value can be written at each of them.
    numbers = np.zeros(mask.shape, dtype=int)
    numbers[mask] = turns.per_token(np.arange(len(turns.row)))
    assert all(
        (numbers[row, start:stop] == n).all()
        for n, (row, start, stop) in enumerate(zip(turns.row, turns.start, turns.stop, strict=True))
    )


@pytest.mark.parametrize("estimator", [AnchorStates(), OverUnits(KTAE(), ("state-turn",))], ids=str)
def test_a_prompt_in_the_arrays_changes_nothing(estimator):
    """Some engines hand it over, padded on the left; others begin with the response."""
    ids, mask = arrays()
    expected = ktae.token_credit(ids, mask, CORRECT, GROUPS, estimator)
    ids, mask = arrays(prompt=(7, 5, 3))
    ids[2, :2] = 0  # as padding
    got = ktae.token_credit(ids, mask, CORRECT, GROUPS, estimator)
    np.testing.assert_array_equal(got[:, 3:], expected)
    assert expected.any() and not got[:, :3].any()


def no_times(text):
    return re.sub(r"\d+:\d+", "", text)


def test_normalise_makes_noisy_states_equal():
    exact, normalised = AnchorStates(gamma=1.0), AnchorStates(gamma=1.0, normalise=no_times)
    ids, mask = arrays()
    same, mask = arrays([(a, [HALL, AT, NINE], b) for a, _, b in ROLLOUTS])
    expected = ktae.token_credit(same, mask, CORRECT, GROUPS, exact)
    got = ktae.token_credit(ids, mask, CORRECT, GROUPS, normalised, vocabulary=TEXTS)
    np.testing.assert_allclose(got, expected, atol=1e-6)
    assert not np.allclose(ktae.token_credit(ids, mask, CORRECT, GROUPS, exact), expected)
    assert normalised.needs_vocabulary and not exact.needs_vocabulary
    with pytest.raises(ktae.InputError, match=r"^normalise .*vocabulary="):
        ktae.token_credit(ids, mask, CORRECT, GROUPS, normalised)


def test_an_ignored_token_ends_no_turn_and_is_no_part_of_it():
    """A rollout that was cut has no end token, and did the same."""
    ids, mask = arrays()
    cut = ids.copy()
    cut[0, 7] = HALL
    for rollouts in (ids, cut):
        rollouts[:, 2:5] = HALL
    inner = OverUnits(PresenceZ(), ("turn", "state-turn"))
    ignoring = Ignoring(inner, (END, HALL))
    credit = ktae.token_credit(cut, mask, CORRECT, GROUPS, ignoring)
    expected = ktae.token_credit(ids, mask, CORRECT, GROUPS, ignoring)
    np.testing.assert_array_equal(credit, expected)
    middle = np.array([[GO, END, KEY, HALL, TAKE], [GO, KEY, END, HALL, TAKE]])
    keys = []

    def seen(ids, mask, correct, groups):
        keys.append(ids)
        return np.zeros(ids.shape)

    estimator = Ignoring(OverUnits(Function(seen), ("turn",)), (END,))
    ktae.token_credit(middle, middle != HALL, [1, 0], [0, 0], estimator)
    assert keys[0][0, 0] == keys[0][0, 2] == keys[0][1, 0] != keys[0][0, 4]


def test_the_table_of_what_was_done_in_each_state():
    ids, mask = arrays([(a, [HALL, AT, NINE], b) for a, _, b in ROLLOUTS])
    estimator = AnchorStates(gamma=1.0, scale_by_std=False)
    credit = ktae.token_credit(ids, mask, CORRECT, GROUPS, estimator)
    unknown = np.array([1.0, 1.0, 0.0, np.nan])
    first, second = shared_states(ids, mask, unknown, ["a"] * 4, credit=credit)
    assert first.group == "a" and first.token_ids == () and first.rollouts == 4
    went, took = first.choices
    assert went.token_ids == (GO, END) and went.rollouts == (0, 1, 2)
    assert (went.known, went.correct) == (3, 2) and (took.known, took.correct) == (0, 0)
    assert went.credit == pytest.approx(np.mean(credit[:3, 0]))
    assert second.token_ids == (HALL, AT, NINE)
    assert [(c.token_ids, c.rollouts) for c in second.choices] == [
        ((TAKE, KEY, END), (0, 1)),
        ((TAKE, DOOR, END), (2, 3)),
    ]
    assert shared_states(*arrays(), CORRECT, [0, 1, 2, 3]) == []
    twice = np.array([[GO, HALL, GO, HALL, TAKE]])
    (again,) = [s for s in shared_states(twice, twice != HALL, [1], [0], at_least=1) if s.token_ids]
    assert again.rollouts == 1 and len(again.choices) == 2
