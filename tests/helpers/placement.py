"""One proof for every engine: the credit of token i is at token i."""

import numpy as np
import oracle
import pytest

from ktae.padding import pad

UNIT = 1 / 1024
"""Exact in single precision, with ids below 2**14."""


def by_id(token_ids, mask, correct, groups):
    """An estimator whose credit tells which token it was computed for."""
    return token_ids * UNIT


def assert_placed(token_ids, written, advantages, rollout_advantage):
    """One training sample, as the engine has it.

    Each token that the policy wrote has its rollout's advantage and the credit that `by_id` gave to
    that token; every other position has 0. No two written tokens have the same id, so that none can
    be taken for another.
    """
    ids = [int(x) for x in token_ids]
    own = [x for x, counts in zip(ids, written, strict=True) if counts]
    assert own and len(set(own)) == len(own) and 0 not in own
    expected = [
        rollout_advantage + x * UNIT if counts else 0.0
        for x, counts in zip(ids, written, strict=True)
    ]
    assert [float(x) for x in advantages] == pytest.approx(expected, abs=1e-5)


def reference(rollouts, correct, groups, credit="paper"):
    """The credit of lists of token ids, as the reference implementation has it."""
    ids, mask = pad(rollouts)
    found = oracle.token_credit(ids, mask, np.array(correct), groups, credit)
    return [found[i, : len(row)].tolist() for i, row in enumerate(rollouts)]
