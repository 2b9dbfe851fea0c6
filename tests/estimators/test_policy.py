"""Weights by probability and by entropy: beside plain loops, and what follows from the formulas."""

import itertools
import math
import statistics

import numpy as np
import pytest

from ktae import InputError, token_advantages, token_credit
from ktae.estimators import (
    AdvantageReweighting,
    EntropyWeights,
    Ignoring,
    PermutedLabels,
    Scaled,
    WithinRollout,
    from_section,
    to_section,
)

N, T = 6, 7
RNG = np.random.default_rng(3)
IDS = RNG.integers(0, 9, (N, T))
MASK = np.arange(T) < np.array([7, 5, 7, 3, 6, 2])[:, None]
MASK[2, 3] = False  # a tool's token
GROUPS = np.zeros(N, dtype=int)
RIGHT = np.array([1, 0, 0, 1, 0, 1])
LOG_PROBS = np.log(RNG.uniform(0.01, 1, (N, T)))
ENTROPIES = RNG.uniform(0.1, 3, (N, T))


def credit(estimator, correct=RIGHT, **options):
    given = {"log_probs": LOG_PROBS, "entropies": ENTROPIES} | options
    return token_credit(IDS, MASK, correct, GROUPS, estimator, policy=given)


def advantages(correct, scaled=True):
    std = statistics.stdev(map(float, correct)) + 1e-6 if scaled else 1
    return [(r - statistics.mean(map(float, correct))) / std for r in correct]


@pytest.mark.parametrize("scaled", [True, False])
def test_improbable_tokens_have_less_of_the_advantage(scaled):
    estimator = AdvantageReweighting(alpha=0.3, scale_by_std=scaled)
    got = credit(estimator)
    for i, a in enumerate(advantages(RIGHT, scaled)):
        for t in range(T):
            expected = -0.3 * (1 - math.exp(LOG_PROBS[i, t])) * a if MASK[i, t] else 0
            assert got[i, t] == pytest.approx(expected, abs=1e-6)
    base = "grpo" if scaled else "dr_grpo"
    whole = token_advantages(
        RIGHT, IDS, MASK, GROUPS, estimator=estimator, base=base, policy={"log_probs": LOG_PROBS}
    )
    weights = 0.7 + 0.3 * np.exp(LOG_PROBS)
    expected = weights * np.array(advantages(RIGHT, scaled))[:, None] * MASK
    np.testing.assert_allclose(whole, expected, atol=1e-6)


def test_reweightings_mean_over_all_permuted_labels_is_zero():
    verdicts = [np.isin(range(N), right) for right in itertools.combinations(range(N), 2)]
    found = np.array([credit(AdvantageReweighting(), correct) for correct in verdicts])
    np.testing.assert_allclose(found.mean(axis=0, dtype=np.float64), 0, atol=1e-7)


def plain_entropy_weights(level, normalize, alpha2):
    """GTPO's and GRPO-S's rewards in loops, normalised; {(row, column): advantage}."""
    rows = {i: [t for t in range(T) if MASK[i, t]] for i in range(N)}
    values = {
        i: [ENTROPIES[i, t] for t in own] if level == "token"
        else [statistics.mean(ENTROPIES[i, t] for t in own)]
        for i, own in rows.items()
    }  # fmt: skip
    rewards = {}
    for i, own in values.items():
        same = [k for k in rows if RIGHT[k] == RIGHT[i]]
        for place, h in enumerate(own):
            there = [values[k][place] for k in same if len(values[k]) > place]
            if RIGHT[i]:
                rewards[i, place] = 1 + alpha2 * len(there) * h / sum(there)
            else:
                share = (1 / h) / sum(1 / other for other in there)
                rewards[i, place] = -1 - alpha2 * len(there) * share
    found = {}
    for (i, place), reward in rewards.items():
        among = [r for (k, _), r in rewards.items() if normalize == "group" or RIGHT[k] == RIGHT[i]]
        own = (reward - statistics.mean(among)) / (statistics.stdev(among) + 1e-6)
        for t in rows[i] if level == "rollout" else [rows[i][place]]:
            found[i, t] = own
    return found


@pytest.mark.parametrize("normalize", ["group", "class"])
@pytest.mark.parametrize("level", ["token", "rollout"])
@pytest.mark.parametrize("alpha2", [0.1, 0.7])
def test_entropy_weights_are_the_papers_in_loops(level, normalize, alpha2):
    estimator = EntropyWeights(level=level, normalize=normalize, alpha2=alpha2)
    expected = np.zeros((N, T))
    for (i, t), value in plain_entropy_weights(level, normalize, alpha2).items():
        expected[i, t] = value
    whole = token_advantages(
        RIGHT, IDS, MASK, GROUPS, estimator=estimator, policy={"entropies": ENTROPIES}
    )
    np.testing.assert_allclose(whole, expected, atol=1e-5)


def test_uncertain_tokens_of_correct_rollouts_gain_and_certain_ones_of_incorrect_lose():
    ids, mask, groups = np.zeros((4, 2), int), np.ones((4, 2)), np.zeros(4, int)
    correct = np.array([1, 1, 0, 0])
    entropies = np.array([[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [2.0, 1.0]])
    got = token_credit(
        ids, mask, correct, groups, EntropyWeights(), policy={"entropies": entropies}
    )
    assert got[0, 1] > got[0, 0] and got[1, 0] > got[1, 1]
    assert got[2, 0] < got[2, 1] and got[3, 1] < got[3, 0]


def test_without_the_entropys_weight_correct_ones_are_above_incorrect_ones():
    whole = token_advantages(
        RIGHT,
        IDS,
        MASK,
        GROUPS,
        estimator=EntropyWeights(alpha2=0),
        policy={"entropies": ENTROPIES},
    )
    assert np.all((whole > 0) == (MASK & (RIGHT == 1)[:, None]))


@pytest.mark.parametrize("estimator", [AdvantageReweighting(), EntropyWeights()], ids=repr)
def test_what_wraps_them_and_edges(estimator):
    own = credit(estimator)
    np.testing.assert_allclose(credit(Scaled(estimator, 0.5)), own / 2, atol=1e-6)
    within = credit(WithinRollout(estimator)).sum(axis=1)
    np.testing.assert_allclose(within, 0, atol=1e-5)
    assert not np.allclose(credit(PermutedLabels(estimator, 1)), own)
    assert np.all(credit(Ignoring(estimator, (int(IDS[0, 0]),)))[IDS[0, 0] == IDS] == 0)
    assert np.all(credit(estimator, np.ones(N)) == 0)
    unknown = credit(estimator, np.where(np.arange(N) == 2, np.nan, RIGHT))
    assert np.all(unknown[2] == 0) and np.any(unknown != own)


def infinite_at(row, column):
    entropies = np.zeros(IDS.shape)
    entropies[row, column] = np.inf
    return entropies


@pytest.mark.parametrize(
    ("estimator", "given", "message"),
    [
        (AdvantageReweighting(), {"log_probs": None}, "needs the log-probability of .*give policy"),
        (AdvantageReweighting(), {"log_probs": -LOG_PROBS}, r"log_probs\[0, 0\] is .*; expected a"),
        (EntropyWeights(), {"entropies": np.full((N, T), np.nan)}, r"entropies\[0, 0\] is nan"),
        (EntropyWeights(), {"entropies": np.ones(N)}, r"expected numbers of shape \(6, 7\)"),
        (EntropyWeights(), {"entropies": infinite_at(1, 2)}, r"entropies\[1, 2\] is inf; expected"),
    ],
)
def test_what_is_missing_or_wrong_is_named(estimator, given, message):
    with pytest.raises(InputError, match=message):
        credit(estimator, **given)


def test_a_bad_token_id_is_named():
    ids = IDS.copy()
    ids[1, 2] = -1
    with pytest.raises(InputError, match=r"token_ids\[1, 2\] is -1"):
        token_credit(
            ids, MASK, RIGHT, GROUPS, AdvantageReweighting(), policy={"log_probs": LOG_PROBS}
        )


def test_a_probability_may_be_0():
    log_probs = np.where(infinite_at(1, 2) > 0, -np.inf, LOG_PROBS)
    assert np.isfinite(credit(AdvantageReweighting(), log_probs=log_probs)).all()


def test_settings():
    for estimator in (AdvantageReweighting(alpha=0.5), EntropyWeights(level="rollout")):
        assert from_section(to_section(Scaled(estimator, 2.0))) == Scaled(estimator, 2.0)
    for kind, name, value in (
        (AdvantageReweighting, "alpha", 2),
        (EntropyWeights, "level", "line"),
        (EntropyWeights, "normalize", "all"),
        (EntropyWeights, "alpha1", 0),
    ):
        with pytest.raises(InputError, match="expected"):
            kind(**{name: value})
