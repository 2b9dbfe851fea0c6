"""Credit of rollouts with more than two outcomes."""

import numpy as np
import pytest
from small_group import IDS, MASK, N

from ktae import InputError, class_credit, token_credit
from ktae.estimators import KTAE

GROUPS = np.zeros(N, dtype=int)


def test_classes_are_each_against_the_rest() -> None:
    """By how far their rewards are from the group's mean reward, which is 6.5 / 6."""
    classes, rewards = np.array([0, 1, 2, 2, 2, 0]), np.array([0.0, 0.5, 2.0])
    expected = sum(
        (rewards[k] - 6.5 / 6) * token_credit(IDS, MASK, classes == k, GROUPS) for k in range(3)
    )
    got = class_credit(IDS, MASK, classes, rewards, GROUPS)
    np.testing.assert_allclose(got, expected, atol=1e-7)


@pytest.mark.parametrize(("has_tokens", "outcome"), [(False, 2), (True, -1)])
def test_empty_and_unknown_rollouts_do_not_count(has_tokens: bool, outcome: int) -> None:
    classes, rewards = [0, 1, 2, 2, 1, 0], [0.0, 0.5, 1.0]
    got = class_credit(IDS, MASK, classes, rewards, GROUPS)
    ids, mask = np.concatenate([IDS, IDS[:3]]), np.concatenate([MASK, MASK[:3] & has_tokens])
    more = class_credit(ids, mask, [*classes, *[outcome] * 3], rewards, [0] * 9)
    np.testing.assert_allclose(more[:N], got, atol=1e-7)


def test_errors() -> None:
    with pytest.raises(InputError, match="class_rewards is empty"):
        class_credit(IDS, MASK, [-1] * 6, [], GROUPS)
    with pytest.raises(InputError, match="is graded; expected one of verdicts"):
        class_credit(IDS, MASK, [0] * 6, [1], GROUPS, KTAE(graded_rewards=True))
    with pytest.raises(InputError, match=r"classes\[2\] is 3; expected 0 to 2"):
        class_credit(IDS, MASK, [0, 1, 3, 0, 0, 0], [0, 1, 2], GROUPS)
    with pytest.raises(InputError, match=r"classes is .* of shape \(1,\); expected shape \(6,\)"):
        class_credit(IDS, MASK, [0], [0, 1], GROUPS)
