"""SALT: against plain loops, of held-out responses, and with ignored tokens."""

import itertools
import math
import statistics
from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import ktae
from ktae.batch import make_batch
from ktae.estimators import Ignoring, Salt
from ktae.padding import pad

SEEN = 90
"""Token ids from here on are an environment's."""


def arrays(responses):
    """Token ids and mask of responses, each a list of turns and observations in alternation."""
    rows = [[token for part in response for token in part] for response in responses]
    ids, inside = pad(rows)
    return ids, inside & (ids < SEEN)


def naive(responses, correct, groups, *, history, scale_by_std):
    """The credit of each turn, response by response: edges are tuples in a dictionary."""
    advantages, edges, names = {}, defaultdict(list), {}
    for group in set(groups):
        members = [i for i, g in enumerate(groups) if g == group and not math.isnan(correct[i])]
        rewards = [correct[i] for i in members]
        if len(set(rewards)) < 2:
            continue
        scale = statistics.stdev(rewards) + 1e-6 if scale_by_std else 1
        for i in members:
            advantages[i] = (correct[i] - statistics.mean(rewards)) / scale
    for i, response in enumerate(responses):
        parts = [tuple(part) for part in response] + ["end"] * (len(response) % 2)
        steps = list(zip(parts[::2], parts[1::2], strict=True))
        steps = [(turn if answer == "end" else "any", answer) for turn, answer in steps]
        for k, step in enumerate(steps):
            names[i, k] = (groups[i], tuple(["prompt", *steps[:k]][-history:] if history else ()))
            names[i, k] += (step,)
            if i in advantages:
                edges[names[i, k]].append(advantages[i])
    return [
        [
            statistics.mean(edges[names[i, k]]) - advantages[i] if i in advantages else 0.0
            for k in range((len(response) + 1) // 2)
        ]
        for i, response in enumerate(responses)
    ]


def per_turn(credit, mask):
    """Lists of each response's turns, whose tokens have to share one credit."""
    rows = []
    for credit_t, mask_t in zip(credit, mask, strict=True):
        runs = itertools.groupby(zip(mask_t, credit_t, strict=True), key=lambda pair: pair[0])
        values = [{value for _, value in run} for written, run in runs if written]
        assert all(len(of_turn) == 1 for of_turn in values)
        rows.append([of_turn.pop() for of_turn in values])
    return rows


def assert_equal(credit, expected):
    for row, expected_row in zip(credit, expected, strict=True):
        np.testing.assert_allclose(row, expected_row, atol=1e-5)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.fixed_dictionaries({"history": st.integers(0, 3), "scale_by_std": st.booleans()}),
    st.integers(0, 2**32 - 1),
)
def test_it_is_what_plain_loops_give(lengths, settings, seed):
    rng = np.random.default_rng(seed)
    responses = [
        [[int(rng.integers(1, 3) + SEEN * (part % 2))] for part in range(2 * n - 1)]
        for n in lengths
    ]
    correct = rng.choice([0.0, 0.3, 1.0, math.nan], len(responses))
    groups = rng.integers(0, 2, len(responses)).tolist()
    ids, mask = arrays(responses)
    credit = ktae.token_credit(ids, mask, correct, groups, Salt(**settings, graded_rewards=True))
    assert credit.dtype == np.float32 and not credit[~mask].any()
    assert_equal(per_turn(credit, mask), naive(responses, correct, groups, **settings))


def test_held_out_responses_and_ignored_tokens():
    ids, mask = arrays([[[1], [91], [2]], [[1], [91], [2]], [[3], [91], [2]], [[1], [92], [4]]])
    held_out = make_batch(ids, mask, [1, 0, math.nan, 1], [0] * 4)._replace(look_up_unknown=True)
    credit = per_turn(Salt().credit(held_out), mask)
    assert credit[2] == [0, 0] and credit[0][0] != 0
    # Two last turns that differ in token 3 alone are one edge without it.
    responses = [[[2, 3]], [[2]]]
    ids, mask = arrays(responses)
    assert not ktae.token_credit(ids, mask, [1, 0], [0, 0], Salt()).any()
    credit = ktae.token_credit(ids, mask, [1, 0], [0, 0], Ignoring(Salt(), (3,)))
    assert credit[0, 0] == -credit[1, 0] != 0 and credit[0, 1] == 0
