"""docs/estimators.md, edges: every edge case that the specification names, on every backend.

Most expectations are equivalences (the result without the odd rollout, with the token masked, …)
or exact zeros, so that no number here depends on the formulas.
"""

import numpy as np
import pytest
import torch
from by_backend import credit_table, token_advantages, token_credit

from ktae.estimators import KTAE, Estimator, preset

UNKNOWN = np.nan

# Two correct and two incorrect rollouts; token 1 is in all of them, 2 and 6 speak for a side.
IDS = np.array([[1, 2, 3, 4], [1, 2, 2, 5], [1, 6, 5, 5], [1, 6, 7, 3]])
MASK = np.ones((4, 4), dtype=bool)
CORRECT = np.array([1.0, 1.0, 0.0, 0.0])
GROUPS = np.zeros(4, dtype=int)
REWARDS = np.array([1.0, 0.5, 0.0, -0.5])

MEMO_BREAKER = 160
"""Rollouts in a class for which (n_correct + 1) · (n_incorrect + 1) pairs are beyond any memo."""


@pytest.fixture(scope="module")
def credit(backend: str) -> np.ndarray:
    """The credit of the group above, nonzero where a test relies on it."""
    got = token_credit(IDS, MASK, CORRECT, GROUPS, backend=backend)
    assert np.all(got[:, 0] == 0)
    assert np.all(got[:2, 1] > 0.2)
    assert np.all(got[2:, 1] < -0.2)
    return got


# --- group all correct, all incorrect, or of one rollout: credit 0 everywhere


@pytest.mark.parametrize(
    "correct",
    [[1, 1, 1], [0, 0, 0], [1], [0], [1, UNKNOWN, UNKNOWN], [0, UNKNOWN], [UNKNOWN, UNKNOWN]],
    ids=str,
)
def test_group_with_nothing_to_compare(
    backend: str, credit: np.ndarray, correct: list[float]
) -> None:
    n = len(correct)
    ids = np.concatenate([IDS[:n], IDS])
    groups = np.repeat([5, 3], [n, 4])  # beside a group that has something to compare
    batch = (ids, np.ones_like(ids), np.concatenate([correct, CORRECT]), groups)
    got = token_credit(*batch, backend=backend)
    assert np.all(got[:n] == 0)
    np.testing.assert_array_equal(got[n:], credit)
    table = credit_table(*batch, backend=backend)
    degenerate = table.group == 5
    assert np.all(table.p_value[degenerate] == 1)
    for column in ("fisher_score", "information_gain", "direction", "value", "credit"):
        assert np.all(getattr(table, column)[degenerate] == 0), column
    assert degenerate.sum() == len(np.unique(ids[:n][np.isfinite(correct)]))
    in_true = [np.any(IDS[:n][np.equal(correct, 1)] == t, axis=1).sum() for t in range(8)]
    assert table.a[degenerate].tolist() == [in_true[t] for t in table.token_id[degenerate]]


# --- a token in every rollout of the group: exactly 0


@pytest.mark.parametrize("n_correct", [1, 7, MEMO_BREAKER])
@pytest.mark.parametrize("n_incorrect", [2, MEMO_BREAKER])
@pytest.mark.parametrize(
    "estimator", [preset("released"), KTAE(fisher="point"), KTAE(h1=1e6, h2=1e6, h3=1e6)], ids=repr
)
def test_token_of_every_rollout(
    backend: str, n_correct: int, n_incorrect: int, estimator: Estimator
) -> None:
    """It occurs three times as often in correct rollouts, yet its credit is 0."""
    n = n_correct + n_incorrect
    ids = np.full((n, 4), 7)
    ids[:, 3] = 100 + np.arange(n)  # one token of its own in each rollout
    correct = np.arange(n) < n_correct
    mask = np.ones((n, 4), dtype=bool)
    mask[~correct, :2] = False
    batch = (ids, mask, correct, np.zeros(n, dtype=int), estimator)
    got = token_credit(*batch, backend=backend)
    assert np.all(got[:, :3] == 0)
    assert np.any(got[:, 3] != 0)
    table = credit_table(*batch, backend=backend)
    assert table.token_id[0] == 7
    assert abs(table.direction[0]) > 1e-4
    assert (table.p_value[0], table.fisher_score[0], table.information_gain[0]) == (1, 0, 0)
    assert (table.value[0], table.credit[0]) == (0, 0)


# --- correctness from rewards


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "list"])
@pytest.mark.parametrize("threshold", [0.1, 0.7, -0.3, np.float32(0.5)])
def test_correct_where_the_reward_is_above_the_threshold(dtype: str, threshold: float) -> None:
    """As numbers of the rewards' own dtype: a reward of the threshold is not above it."""
    rewards = [threshold + 0.2, threshold, threshold, threshold - 0.2]
    kinds = [rewards] if dtype == "list" else [torch.tensor(rewards, dtype=getattr(torch, dtype))]
    if dtype.startswith("float"):
        kinds.append(np.array(rewards, dtype))
    expected = token_credit(IDS, MASK, [1, 0, 0, 0], GROUPS)
    assert np.any(expected != 0)
    for values in kinds:
        got = token_advantages(values, IDS, MASK, GROUPS, threshold=threshold, base=np.zeros(4))
        np.testing.assert_array_equal(got, expected)
