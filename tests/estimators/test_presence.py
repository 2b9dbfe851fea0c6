"""The calibrated statistic: silent where the data are silent, for verdicts and graded scores."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import gammaln

from ktae import (
    InputError,
    Estimator,
    class_credit,
    credit_table,
    token_credit,
    statistics,
    token_advantages,
)
from ktae.estimators.controls import PARTS, permuted_labels
from ktae.estimators import KTAE, Estimator, preset

Z = KTAE(statistic="z")
GRADED_Z = KTAE(statistic="z", graded=True)
GRADED = KTAE(graded=True)

N, T = 6, 7
IDS = np.random.default_rng(3).integers(0, 9, (N, T))
MASK = np.arange(T) < np.array([7, 5, 7, 3, 6, 7])[:, None]
GROUPS = np.zeros(N, dtype=int)


def assignments(values: list[float]) -> list[tuple[float, ...]]:
    return sorted(set(itertools.permutations(values)))


@pytest.mark.parametrize("config", [Z, preset("calibrated")], ids=["z", "calibrated"])
@pytest.mark.parametrize("n_true", range(1, N))
def test_mean_over_all_permuted_labels_is_zero(
    backend: str, n_true: int, estimator: Estimator
) -> None:
    """Whatever the group's accuracy and the token's frequency; KTAE's own is not zero, below."""
    labels = assignments([1.0] * n_true + [0.0] * (N - n_true))
    credit = [token_credit(IDS, MASK, y, GROUPS, config, backend=backend) for y in labels]
    np.testing.assert_allclose(np.mean(credit, axis=0, dtype=np.float64), 0, atol=1e-7)  # float32
    assert np.abs(credit).max() > 0.1


@pytest.mark.parametrize("graded", [True, False])
def test_mean_over_all_permuted_scores_is_zero(backend: str, graded: bool) -> None:
    scores = [0.1, 0.1, 0.45, 2.0, -3.0, 0.0] if graded else [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    credit = [
        token_credit(IDS, MASK, r, GROUPS, GRADED_Z, backend=backend)
        for r in assignments(scores)
    ]
    np.testing.assert_allclose(np.mean(credit, axis=0, dtype=np.float64), 0, atol=1e-6)  # float32


def test_key_token_terms_have_another_mean() -> None:
    """What the statistic is for: the paper's credit of a rare token depends on the accuracy alone."""
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


def test_scores_near_verdicts_have_nearly_their_terms(backend: str) -> None:
    """The fractional formulas go over into the whole ones. (Frequencies jump where a class has
    none of a token, and information gain has a steep slope there: hence h3 and the tolerance.)"""
    y = np.array([1, 0, 0, 1, 1, 0])
    config, graded = KTAE(h3=0.0), KTAE(graded=True, h3=0.0)
    expected = token_credit(IDS, MASK, y, GROUPS, config, backend=backend)
    near = token_credit(IDS, MASK, y * (1 - 1e-10), GROUPS, graded, backend=backend)
    np.testing.assert_allclose(near, expected, atol=1e-4)


def test_advantages_take_graded_rewards() -> None:
    rewards = [1.0, 0.5, 0.0, 0.25, 1.0, 0.0]
    given = token_advantages(rewards, IDS, MASK, GROUPS, config=GRADED_Z)
    expected = token_advantages(rewards, IDS, MASK, GROUPS, correct=rewards, config=GRADED_Z)
    np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize(
    ("config", "score", "message"),
    [
        (KTAE(), 0.5, r"correct\[1\] is 0\.5; expected 0, 1 or NaN.*graded"),
        (GRADED, 1.5, r"correct\[1\] is 1\.5; expected a number from 0 to 1, or NaN"),
        (GRADED_Z, np.inf, r"correct\[1\] is inf; expected a number from -1e\+30 to 1e\+30"),
    ],
)
def test_scores_out_of_range(estimator: Estimator, score: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        token_credit(IDS[:2], MASK[:2], [1.0, score], [0, 0], config)


def test_rewards_out_of_range_are_named() -> None:
    with pytest.raises(InputError, match=r"rewards\[1\] is -1\.0; with a graded config and no"):
        token_advantages([1.0, -1.0], IDS[:2], MASK[:2], [0, 0], config=GRADED)


def test_mean_is_zero_with_unknown_empty_and_ignored(backend: str) -> None:
    mask = MASK.copy()
    mask[1] = False
    config = KTAE(statistic="z", ignore_token_ids=(int(IDS[0, 0]),))
    total = 0
    for y in assignments([1.0, 1.0, 0.0, 0.0]):
        correct = [y[0], 1.0, y[1], np.nan, y[2], y[3]]
        total = total + token_credit(IDS, mask, correct, GROUPS, config, backend=backend)
    np.testing.assert_allclose(total, 0, atol=1e-6)  # float32


def test_units_are_averaged_and_controls_keep_the_base() -> None:
    y = [1, 0, 0, 1, 1, 0]
    config = KTAE(units=("token", "bigram", "position"), ignore_token_ids=(4,))
    parts = [
        token_credit(IDS, MASK, y, GROUPS, KTAE(units=(u,), ignore_token_ids=(4,)))
        for u in config.units
    ]
    got = token_credit(IDS, MASK, y, GROUPS, config)
    np.testing.assert_allclose(got, np.mean(parts, axis=0), atol=1e-7)
    assert np.all(got[(IDS == 4) | ~MASK] == 0)
    base = np.arange(N, dtype=float)
    with_base = token_advantages(y, IDS, MASK, GROUPS, estimator=estimator, base=base)
    np.testing.assert_allclose(with_base, (got + base[:, None]) * MASK, atol=1e-6)  # float32


class TestClasses:
    def test_two_classes_are_key_token_values(self) -> None:
        y = np.array([1, 0, 0, 1, -1, 0])
        expected = token_credit(IDS, MASK, np.where(y < 0, np.nan, y), GROUPS)
        got = class_credit(IDS, MASK, y, [0.0, 1.0], GROUPS)
        np.testing.assert_allclose(got, expected, atol=1e-7)

    def test_equal_rewards_tell_nothing(self) -> None:
        got = class_credit(IDS, MASK, [0, 1, 2, 2, 1, 0], [0.3] * 3, GROUPS)
        np.testing.assert_allclose(got, 0, atol=1e-7)

    def test_three_classes_are_each_against_the_rest(self) -> None:
        classes, rewards = np.array([0, 1, 2, 2, 1, 0]), np.array([0.0, 0.5, 1.0])
        expected = sum(
            (rewards[k] - 0.5) * token_credit(IDS, MASK, classes == k, GROUPS) for k in range(3)
        )
        got = class_credit(IDS, MASK, classes, rewards, GROUPS)
        np.testing.assert_allclose(got, expected, atol=1e-7)

    def test_empty_rollouts_do_not_count(self) -> None:
        classes, rewards = [0, 1, 2, 2, 1, 0], [0.0, 0.5, 1.0]
        got = class_credit(IDS, MASK, classes, rewards, GROUPS)
        ids, mask = np.concatenate([IDS, IDS[:3]]), np.concatenate([MASK, MASK[:3] & False])
        more = class_credit(ids, mask, [*classes, 2, 2, 2], rewards, [0] * 9)
        np.testing.assert_allclose(more[:N], got, atol=1e-7)

    def test_errors(self) -> None:
        with pytest.raises(InputError, match="class_rewards is empty"):
            class_credit(IDS, MASK, [-1] * 6, [], GROUPS)
        with pytest.raises(InputError, match="config is graded"):
            class_credit(IDS, MASK, [0] * 6, [1], GROUPS, GRADED)
        with pytest.raises(InputError, match=r"classes\[2\] is 3; expected 0 to 2"):
            class_credit(IDS, MASK, [0, 1, 3, 0, 0, 0], [0, 1, 2], GROUPS)
        with pytest.raises(InputError, match=r"class_rewards\[1\] is nan"):
            class_credit(IDS, MASK, [0] * 6, [0, np.nan], GROUPS)
        with pytest.raises(InputError, match="classes is float64"):
            class_credit(IDS, MASK, [0.5] * 6, [0, 1], GROUPS)


class TestControls:
    """Under the estimator's own signature."""

    Y = np.array([1, 0, np.nan, 1, 1, 0])

    @pytest.mark.parametrize(
        "control", ["permuted-labels", "shuffled-values", "random-tokens", *PARTS]
    )
    @pytest.mark.parametrize("units", [("token",), ("token", "bigram")])
    def test_other_terms_in_the_same_places(
        self, backend: str, control: str, units: tuple[str, ...]
    ) -> None:
        real = token_credit(IDS, MASK, self.Y, GROUPS, KTAE(units=units))
        config = KTAE(units=units, control=control, control_seed=5)
        got = token_credit(IDS, MASK, self.Y, GROUPS, config, backend=backend)
        assert got.dtype == np.float32 and not np.allclose(got, real)
        assert np.all(got[~MASK] == 0) and np.all(got[2] == 0)
        again = token_credit(IDS, MASK, self.Y, GROUPS, config, backend=backend)
        np.testing.assert_array_equal(got, again)

    def test_permuted_labels_are_what_they_say(self) -> None:
        config = KTAE(control="permuted-labels", control_seed=5)
        got = token_credit(IDS, MASK, self.Y, GROUPS, config)
        labels = permuted_labels(IDS, MASK, self.Y, GROUPS, seed=5)
        np.testing.assert_array_equal(got, token_credit(IDS, MASK, labels, GROUPS))

    def test_permuted_scores(self) -> None:
        scores = np.array([0.1, 0.9, np.nan, 0.4, 0.2, 0.7])
        config = preset("calibrated", graded=True, control="permuted-labels", units=("token",))
        got = token_credit(IDS, MASK, scores, GROUPS, config)
        labels = permuted_labels(IDS, MASK, scores, GROUPS, seed=0)
        plain = preset("calibrated", graded=True, units=("token",))
        np.testing.assert_array_equal(got, token_credit(IDS, MASK, labels, GROUPS, plain))

    def test_random_tokens_keep_each_rollouts_terms(self) -> None:
        real = token_credit(IDS, MASK, self.Y, GROUPS)
        got = token_credit(IDS, MASK, self.Y, GROUPS, KTAE(control="random-tokens"))
        np.testing.assert_array_equal(np.sort(got, axis=1), np.sort(real, axis=1))

    def test_parts_of_the_terms_add_up(self) -> None:
        for ignored in ((), (int(IDS[0, 0]),)):
            real, whole, rest = (
                token_advantages(
                    np.arange(6.0), IDS, MASK, GROUPS, correct=self.Y,
                    config=KTAE(control=control, ignore_token_ids=ignored),
                )
                for control in ("none", "rollout-mean", "within-rollout")
            )  # fmt: skip
            base = token_advantages(np.arange(6.0), IDS, MASK, GROUPS, correct=np.full(6, np.nan))
            np.testing.assert_allclose(whole + rest - base, real, atol=1e-6)

    def test_rollouts_of_ignored_tokens_take_no_label_away(self) -> None:
        ids = np.array([[9, 9], [9, 9], [1, 2], [1, 3], [4, 2], [5, 6]])
        for seed in range(10):
            config = KTAE(
                statistic="z", ignore_token_ids=(9,), control="permuted-labels", control_seed=seed
            )
            credit = token_credit(ids, ids > 0, [1, 0, 1, 1, 0, 0], [0] * 6, config)
            # Two of the four that count are correct, whatever was drawn: their z is ±√3 at most.
            assert np.abs(credit[2:]).max() == pytest.approx(math.sqrt(3), abs=0.75)
            single = credit[[3, 4, 5, 5], [1, 0, 0, 1]]  # tokens of one rollout: its advantage, ±1
            np.testing.assert_allclose(np.abs(single), 1, rtol=1e-6)

    def test_rollout_advantages_stay(self) -> None:
        y = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0]
        config = KTAE(control="permuted-labels")
        credit = token_credit(IDS, MASK, y, GROUPS, config)
        got = token_advantages(y, IDS, MASK, GROUPS, estimator=estimator, base="dr_grpo")
        np.testing.assert_allclose(got - credit, (np.array(y) - 0.5)[:, None] * MASK, atol=1e-6)
