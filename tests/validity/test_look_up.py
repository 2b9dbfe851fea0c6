"""Rollouts of unknown correctness that get the credit of the group's tokens."""

import numpy as np
import pytest
from by_backend import computed_by

from ktae.batch import make_batch
from ktae.estimators import KTAE, Function, Ignoring, OverUnits, PresenceZ


def credit_of(estimator, arrays, backend, **changes):
    batch = make_batch(*arrays)
    with computed_by(backend):
        return estimator.credit(batch._replace(**changes))


@pytest.fixture
def arrays(rng):
    """Three groups of different sizes and frequent unknowns; the last has one class only."""
    ids = rng.integers(0, 12, (30, 9)).astype(np.int32)
    mask = np.arange(9) < rng.integers(0, 10, 30)[:, None]
    correct = rng.choice([0.0, 1.0, np.nan], 30)
    groups = np.repeat([0, 1, 2], [16, 8, 6])
    correct[groups == 2] = [1, 1, np.nan, 1, np.nan, 1]
    return ids, mask, correct, groups


@pytest.fixture
def rng():
    return np.random.default_rng(5)


ESTIMATORS = (KTAE(), PresenceZ(), Ignoring(KTAE(), (3, 4)), OverUnits(PresenceZ(), ("bigram",)))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_unknown_rollouts_get_the_reference_s_and_known_ones_what_they_always_get(
    estimator, arrays
):
    known = ~np.isnan(arrays[2])
    looked_up, plain = (
        credit_of(estimator, arrays, "cpu", look_up_unknown=flag) for flag in (True, False)
    )
    expected = credit_of(estimator, arrays, "naive", look_up_unknown=True)
    np.testing.assert_allclose(looked_up, expected, atol=1e-6)
    assert np.any(looked_up[~known] != 0)
    np.testing.assert_array_equal(looked_up[known], plain[known])
    assert not plain[~known].any()


def test_a_function_gives_unknown_rollouts_the_mean_of_equal_tokens():
    def places(token_ids, mask, correct, groups):
        return np.broadcast_to(np.arange(token_ids.shape[1]), token_ids.shape)

    ids = np.array([[7, 8, 7], [8, 8, 9], [7, 9, 5]])
    arrays = (ids, np.ones((3, 3), bool), np.array([1.0, 0.0, np.nan]), np.zeros(3, int))
    credit = credit_of(Function(places), arrays, "cpu", look_up_unknown=True)
    assert credit[2].tolist() == [1.0, 2.0, 0.0]
