"""The numbers stay what they were, and `released` gives what the authors' code gave.

Credit and advantages are frozen at commit 7672ff8, the first version's last one. Its backends made
`expected/frozen.npz` from two random batches, with the same credit on naive, cpu and torch. Its
settings were fields of one class; here they are estimators and transforms.
"""

from pathlib import Path

import numpy as np
import pytest
from by_backend import token_advantages, token_credit

from ktae.estimators import (
    KTAE,
    Ignoring,
    OverUnits,
    PermutedLabels,
    PresenceZ,
    RandomPlaces,
    RolloutMean,
    Scaled,
    ShuffledValues,
    WithinRollout,
    preset,
)

CALIBRATED = OverUnits(PresenceZ(), ("token", "bigram"))
ESTIMATORS = {
    "mixed/paper": preset("paper"),
    "mixed/released": Scaled(Ignoring(KTAE(h2=1.0, normalize=True), (2, 5, 151643)), 2.0),
    "small/no-fisher": preset("no-fisher"),
    "small/no-ig": preset("no-ig"),
    "small/no-tf": preset("no-tf"),
    "mixed/calibrated": preset("calibrated"),
    "mixed/trigrams": preset("trigrams"),
    "mixed/odd": KTAE(h1=0.3, h2=1.7, h3=0.01, k1=1.2, b_len=0.75, eps=1e-3),
    "small/point": Ignoring(KTAE(fisher="point"), (1,)),
    "small/graded": Ignoring(KTAE(graded_rewards=True), (2,)),
    "small/graded-calibrated": Scaled(
        OverUnits(PresenceZ(graded_rewards=True), ("token", "bigram")), 0.3
    ),
    "small/three-units": Scaled(OverUnits(PresenceZ(), ("token", "bigram", "position")), 0.3),
    "small/paper/permuted-labels": PermutedLabels(KTAE(), seed=3),
    "small/paper/shuffled-values": ShuffledValues(KTAE(), seed=3),
    "small/calibrated/random-tokens": Scaled(RandomPlaces(CALIBRATED, seed=5), 0.3),
    "small/calibrated/rollout-mean": Scaled(RolloutMean(CALIBRATED), 0.3),
    "small/calibrated/within-rollout": Scaled(WithinRollout(CALIBRATED), 0.3),
}
TOLERANCE = 1e-6
"""float32 of credit and advantages up to about 2."""


@pytest.fixture(scope="module")
def frozen():
    with np.load(Path(__file__).parent / "expected" / "frozen.npz") as file:
        return dict(file)


@pytest.mark.parametrize("case", ESTIMATORS)
def test_numbers_are_those_of_the_first_version(frozen, case, backend):
    batch, estimator = case.split("/")[0], ESTIMATORS[case]
    ids, mask, groups, rewards = (
        frozen[f"{batch}/{name}"] for name in ("ids", "mask", "groups", "rewards")
    )
    correct = frozen[f"{case}/correct"]
    credit = token_credit(ids, mask, correct, groups, estimator, backend=backend)
    assert np.abs(credit).max() > 0.01
    advantages = token_advantages(
        rewards, ids, mask, groups, correct=correct, estimator=estimator, backend=backend
    )
    expected = frozen[f"{case}/credit"], frozen[f"{case}/advantages"]
    for got, before in zip((credit, advantages), expected, strict=True):
        assert got.dtype == before.dtype
        np.testing.assert_allclose(got, before, rtol=0, atol=TOLERANCE)


def test_released_is_what_the_authors_code_computes(backend):
    """Origin: `ComputeKeyTokens` of the released code on nine random groups of 2 to 16 rollouts."""
    with np.load(Path(__file__).parent / "expected" / "authors.npz") as file:
        authors = dict(file)
    expected = authors.pop("credit")
    got = token_credit(**authors, estimator=preset("released"), backend=backend)
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE)
    assert np.count_nonzero(expected) > 1000
    exact = token_credit(**authors, estimator=preset("released", fisher="two-sided"))
    assert np.abs(exact - expected).max() > 0.2


def test_every_frozen_case_is_looked_at(frozen):
    assert {name.removesuffix("/credit") for name in frozen if name.endswith("/credit")} == set(
        ESTIMATORS
    )
