"""The calibrated statistic, and graded scores: what follows from the formulas, and edges."""

import math

import numpy as np
import pytest
from by_backend import token_advantages, token_credit
from small_group import IDS, MASK, N

from ktae import InputError
from ktae.estimators import PresenceZ

Z = PresenceZ()
GRADED_Z = PresenceZ(graded_rewards=True)

GROUPS = np.zeros(N, dtype=int)


def test_one_rollouts_token_has_its_rollouts_advantage(backend: str) -> None:
    ids = np.arange(12).reshape(4, 3)  # every token in one rollout
    rewards = np.array([0.2, 0.9, 0.4, 0.1])
    z = token_credit(ids, ids >= 0, rewards, [0] * 4, GRADED_Z, backend=backend)
    advantage = (rewards - rewards.mean()) / rewards.std()
    np.testing.assert_allclose(z, np.repeat(advantage[:, None], 3, axis=1), atol=1e-6)
    assert np.abs(z).max() <= math.sqrt(3)


@pytest.mark.parametrize(
    "scores",
    [
        [1e17, 2e17, 3e17, 0, 5e17, 1],
        [1e30, 2, 3, 4, 5, 6],
        [1e-200, 0, 0, 0, 3e-200, 0],
        [1e4, 1e4 + 1, 1e4 + 2, 1e4, 1e4 + 5, 1e4 + 3],
        [-1e30, 1e30, 0, 0, 0, 0],
    ],
)
def test_scores_of_any_size_and_sign(backend: str, scores: list[float]) -> None:
    """As good as the same ones near 0, and never beyond the bound."""
    small = (np.array(scores) - min(scores)) / (max(scores) - min(scores))
    got = token_credit(IDS, MASK, scores, GROUPS, GRADED_Z, backend=backend)
    near_0 = token_credit(IDS, MASK, -small, GROUPS, GRADED_Z, backend=backend)
    np.testing.assert_allclose(got, -near_0, atol=1e-5)
    assert np.abs(got).max() <= math.sqrt(N - 1) + 1e-6


def test_rounding_is_no_credit(backend: str) -> None:
    for scores in ([np.float32(0.1) + np.float32(0.2)] + [0.3] * 5, [1e16] * 5 + [1e16 + 2]):
        assert not token_credit(IDS, MASK, scores, GROUPS, GRADED_Z, backend=backend).any()


def test_advantages_take_graded_rewards() -> None:
    rewards = [1.0, 0.5, 0.0, 0.25, 1.0, 0.0]
    got = token_advantages(rewards, IDS, MASK, GROUPS, credit=GRADED_Z)
    expected = token_advantages(rewards, IDS, MASK, GROUPS, correct=rewards, credit=GRADED_Z)
    np.testing.assert_array_equal(got, expected)
    with pytest.raises(InputError) as error:
        token_advantages([1.0, 1e31], IDS[:2], MASK[:2], [0, 0], credit=GRADED_Z)
    assert "rewards[1]" in str(error.value)
