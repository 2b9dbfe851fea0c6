"""The calibrated statistic: silent where the data are silent, for verdicts and graded scores."""

import itertools
import math

import numpy as np
import pytest
from by_backend import credit_table, token_advantages, token_credit
from scipy.special import gammaln

from ktae import InputError, statistics
from ktae.estimators import KTAE, Estimator, Ignoring, PresenceZ, preset

Z = PresenceZ()
GRADED_Z = PresenceZ(graded_rewards=True)
GRADED = KTAE(graded_rewards=True)

N, T = 6, 7
IDS = np.random.default_rng(3).integers(0, 9, (N, T))
MASK = np.arange(T) < np.array([7, 5, 7, 3, 6, 7])[:, None]
GROUPS = np.zeros(N, dtype=int)


def assignments(values: list[float]) -> list[tuple[float, ...]]:
    return sorted(set(itertools.permutations(values)))


@pytest.mark.parametrize(
    "estimator",
    [Z, PresenceZ(sharp=True), preset("calibrated"), preset("trigrams"), preset("sharp-trigrams")],
    ids=["z", "sharp z", "calibrated", "trigrams", "sharp-trigrams"],
)
@pytest.mark.parametrize("n_true", range(1, N))
def test_mean_over_all_permuted_labels_is_zero(
    backend: str, n_true: int, estimator: Estimator
) -> None:
    """Whatever the group's accuracy and the token's frequency; KTAE's own is not zero, below."""
    labels = assignments([1.0] * n_true + [0.0] * (N - n_true))
    credit = [token_credit(IDS, MASK, y, GROUPS, estimator, backend=backend) for y in labels]
    np.testing.assert_allclose(np.mean(credit, axis=0, dtype=np.float64), 0, atol=1e-7)  # float32
    assert np.abs(credit).max() > 0.01


@pytest.mark.parametrize("n", [2, 3, 4, 9, 30])
def test_sharpened_is_bounded_as_z_is_and_fades_where_z_is_small(n: int) -> None:
    for n_true, m in itertools.product(range(1, n), range(1, n + 1)):
        mean = n_true / n
        for a in range(max(0, m + n_true - n), min(m, n_true) + 1):
            moments = (m, n, mean, mean * (1 - mean))
            z = statistics.presence_z(a, *moments)
            sharp = statistics.sharpened(z, *moments)
            assert abs(sharp) <= math.sqrt(n - 1) + 1e-9
            if n_true * 2 == n:  # symmetric: nothing to take off
                assert math.isclose(sharp, z**3 / (n - 1), abs_tol=1e-9)


def test_sharp_takes_verdicts_alone() -> None:
    with pytest.raises(InputError, match="verdicts"):
        PresenceZ(sharp=True, graded_rewards=True)


@pytest.mark.parametrize("graded", [True, False])
def test_mean_over_all_permuted_scores_is_zero(backend: str, graded: bool) -> None:
    scores = [0.1, 0.1, 0.45, 2.0, -3.0, 0.0] if graded else [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    credit = [
        token_credit(IDS, MASK, r, GROUPS, GRADED_Z, backend=backend) for r in assignments(scores)
    ]
    np.testing.assert_allclose(np.mean(credit, axis=0, dtype=np.float64), 0, atol=1e-6)  # float32


def test_ktae_has_another_mean() -> None:
    """What the statistic is for: the paper's credit of a rare token depends on accuracy."""
    labels = assignments([1.0] * 1 + [0.0] * (N - 1))
    credit = [token_credit(IDS, MASK, y, GROUPS) for y in labels]
    assert np.abs(np.mean(credit, axis=0)).max() > 0.1


def test_variance_over_permutations_is_one() -> None:
    labels = assignments([1.0] * 2 + [0.0] * (N - 2))
    credit = np.array([token_credit(IDS, MASK, y, GROUPS, Z) for y in labels], dtype=np.float64)
    holds = np.array([np.any((v == IDS) & MASK, axis=1) for v in range(9)])  # (token, rollout)
    tells = ~holds.all(axis=1)[IDS] & MASK
    np.testing.assert_allclose(np.mean(credit**2, axis=0)[tells], 1, rtol=1e-6)  # float32


def test_one_rollouts_token_has_its_rollouts_advantage(backend: str) -> None:
    ids = np.arange(12).reshape(4, 3)  # every token in one rollout
    rewards = np.array([0.2, 0.9, 0.4, 0.1])
    z = token_credit(ids, ids >= 0, rewards, [0] * 4, GRADED_Z, backend=backend)
    advantage = (rewards - rewards.mean()) / rewards.std()
    np.testing.assert_allclose(z, np.repeat(advantage[:, None], 3, axis=1), atol=1e-6)
    assert np.abs(z).max() <= math.sqrt(3)


def test_scale_and_origin_of_scores_do_not_matter(backend: str) -> None:
    rewards = np.array([0.2, 0.9, 0.4, 0.1, 0.1, 0.7])
    one = token_credit(IDS, MASK, rewards, GROUPS, GRADED_Z, backend=backend)
    other = token_credit(IDS, MASK, 1e4 * rewards - 3e3, GROUPS, GRADED_Z, backend=backend)
    np.testing.assert_allclose(one, other, atol=1e-6)  # float32
    flipped = token_credit(IDS, MASK, -rewards, GROUPS, GRADED_Z, backend=backend)
    np.testing.assert_allclose(one, -flipped, atol=1e-7)


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
def test_scores_of_any_size(backend: str, scores: list[float]) -> None:
    """As good as the same ones near 0, and never beyond the bound."""
    small = (np.array(scores) - min(scores)) / (max(scores) - min(scores))
    got = token_credit(IDS, MASK, scores, GROUPS, GRADED_Z, backend=backend)
    near_0 = token_credit(IDS, MASK, small, GROUPS, GRADED_Z, backend=backend)
    np.testing.assert_allclose(got, near_0, atol=1e-5)
    assert np.abs(got).max() <= math.sqrt(N - 1) + 1e-6


def test_rounding_is_no_credit(backend: str) -> None:
    for scores in ([np.float32(0.1) + np.float32(0.2)] + [0.3] * 5, [1e16] * 5 + [1e16 + 2]):
        got = token_credit(IDS, MASK, scores, GROUPS, GRADED_Z, backend=backend)
        assert np.all(got == 0)


def test_an_empty_rollouts_score_changes_nothing(backend: str) -> None:
    mask = MASK.copy()
    mask[3] = False
    scores = np.array([0.1, 0.7, 0.3, 1e20, 0.2, 0.4])
    got = token_credit(IDS, mask, scores, GROUPS, GRADED_Z, backend=backend)
    scores[3] = 0.5
    np.testing.assert_array_equal(
        got, token_credit(IDS, mask, scores, GROUPS, GRADED_Z, backend=backend)
    )


def test_token_of_all_rollouts_and_equal_scores_tell_nothing(backend: str) -> None:
    ids = np.array([[1, 2], [1, 3], [1, 4]])
    for config in (GRADED, GRADED_Z):
        credit = token_credit(ids, ids > 0, [0.1, 0.7, 0.3], [0] * 3, config, backend=backend)
        assert np.all(credit[:, 0] == 0)
        equal = token_credit(ids, ids > 0, [0.1] * 3, [0] * 3, config, backend=backend)
        assert np.all(equal == 0)


def fisher_by_gamma(a: float, b: float, n_true: float, n_false: float) -> float:
    """The same test with the log-gamma function of SciPy."""
    k = a + b
    steps = np.arange(-100, 101)
    x = a + steps[(a + steps >= max(0, k - n_false) - 1e-9) & (a + steps <= min(k, n_true) + 1e-9)]
    cells = np.stack([x, n_true - x, k - x, n_false - k + x]).clip(0)
    weight = np.exp(-gammaln(cells + 1).sum(axis=0))
    own = np.argmin(np.abs(x - a))
    return float(weight[weight <= weight[own] * (1 + 1e-7)].sum() / weight.sum())


@pytest.mark.parametrize("seed", range(20))
def test_fisher_of_fractional_tables(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.random(12).round(rng.integers(1, 4))
    held = scores[: rng.integers(1, 12)]
    a, b = held.sum(), len(held) - held.sum()
    n_true, n_false = scores.sum(), 12 - scores.sum()
    got = statistics.fisher_p_value(a, b, n_true, n_false, False)
    np.testing.assert_allclose(got, fisher_by_gamma(a, b, n_true, n_false), rtol=1e-9)


def test_graded_table_counts_shares() -> None:
    ids = np.array([[1, 1, 2], [1, 3, 3], [4, 2, 2]])
    table = credit_table(ids, ids > 0, [0.75, 0.5, 0.0], [0] * 3, GRADED)
    first = {name: column[0] for name, column in table._asdict().items()}
    assert first["token_id"] == 1
    cells = [first[name] for name in "abcd"]
    np.testing.assert_allclose(cells, [1.25, 0.75, 0.0, 1.0])
    np.testing.assert_allclose(first["tf_true"], (2 * 0.75 + 0.5) / (3 * 1.25))
    np.testing.assert_allclose(first["tf_false"], (2 * 0.25 + 0.5) / (3 * 1.75))


def test_graded_verdicts_are_verdicts(backend: str) -> None:
    """Beside a group of other scores, which makes the whole batch go the graded way."""
    y = [1, 0, 0, 1, 1, 0]
    two = np.concatenate([GROUPS, GROUPS + 1])
    ids, mask = np.concatenate([IDS, IDS]), np.concatenate([MASK, MASK])
    for plain, config in ((KTAE(), GRADED), (Z, GRADED_Z)):
        expected = token_credit(IDS, MASK, y, GROUPS, plain, backend=backend)
        scores = [*y, 0.1, 0.2, 0.9, 0.5, 0.3, 0.4]
        got = token_credit(ids, mask, scores, two, config, backend=backend)
        np.testing.assert_allclose(got[:N], expected, atol=1e-7)
        assert not np.allclose(got[N:], expected)


def test_scores_near_verdicts_have_nearly_their_credit(backend: str) -> None:
    """The fractional formulas go over into the whole ones. (Frequencies jump where a class has
    none of a token, and information gain has a steep slope there: hence h3 and the tolerance.)"""
    y = np.array([1, 0, 0, 1, 1, 0])
    config, graded = KTAE(h3=0.0), KTAE(graded_rewards=True, h3=0.0)
    expected = token_credit(IDS, MASK, y, GROUPS, config, backend=backend)
    near = token_credit(IDS, MASK, y * (1 - 1e-10), GROUPS, graded, backend=backend)
    np.testing.assert_allclose(near, expected, atol=1e-4)


def test_advantages_take_graded_rewards() -> None:
    rewards = [1.0, 0.5, 0.0, 0.25, 1.0, 0.0]
    given = token_advantages(rewards, IDS, MASK, GROUPS, estimator=GRADED_Z)
    expected = token_advantages(rewards, IDS, MASK, GROUPS, correct=rewards, estimator=GRADED_Z)
    np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize(
    ("estimator", "score", "message"),
    [
        (KTAE(), 0.5, r"correct\[1\] is 0\.5; expected 0, 1 or NaN.*graded"),
        (GRADED, 1.5, r"correct\[1\] is 1\.5; expected a number from 0 to 1, or NaN"),
        (GRADED_Z, np.inf, r"correct\[1\] is inf; expected a number from -1e\+30 to 1e\+30"),
    ],
)
def test_scores_out_of_range(estimator: Estimator, score: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        token_credit(IDS[:2], MASK[:2], [1.0, score], [0, 0], estimator)


def test_rewards_out_of_range_are_named() -> None:
    with pytest.raises(
        InputError, match=r"rewards\[1\] is -1\.0; with KTAE\(graded_rewards=True\) and no"
    ):
        token_advantages([1.0, -1.0], IDS[:2], MASK[:2], [0, 0], estimator=GRADED)


def test_mean_is_zero_with_unknown_empty_and_ignored(backend: str) -> None:
    mask = MASK.copy()
    mask[1] = False
    estimator = Ignoring(Z, (int(IDS[0, 0]),))
    total = 0
    for y in assignments([1.0, 1.0, 0.0, 0.0]):
        correct = [y[0], 1.0, y[1], np.nan, y[2], y[3]]
        total = total + token_credit(IDS, mask, correct, GROUPS, estimator, backend=backend)
    np.testing.assert_allclose(total, 0, atol=1e-6)  # float32
