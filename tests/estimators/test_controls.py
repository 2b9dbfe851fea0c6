"""Controls: what they keep, and what their draws depend on."""

import itertools
from collections import Counter

import numpy as np
import pytest

import ktae
from ktae.estimators import KTAE, Estimator, PermutedLabels, RandomPlaces, ShuffledValues
from ktae.estimators.controls import label_permutations

CONTROLS = {"shuffled-values": ShuffledValues, "random-places": RandomPlaces}


def permuted_labels(ids, mask, correct, groups, seed):
    return next(label_permutations(ids, mask, correct, groups, seeds=[seed]))


class Given(Estimator):
    """Credit that is there already."""

    def __init__(self, values):
        self.values = values

    def credit(self, batch):
        return np.array(self.values)


@pytest.fixture
def batch():
    """Twelve groups of eight, mixed up, some rollouts unknown, one empty."""
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 30, (96, 20))
    mask = (np.arange(20) < rng.integers(1, 21, (96, 1))) & (rng.random((96, 20)) < 0.9)
    mask[7] = False
    correct = rng.choice([0.0, 1.0, np.nan], 96, p=[0.45, 0.45, 0.1])
    return ids, mask, correct, rng.permutation(np.repeat(np.arange(12), 8))


def multiset(values):
    return Counter(np.asarray(values).tolist())


def each_group(groups):
    return [np.flatnonzero(groups == group) for group in np.unique(groups)]


def run(name, batch, seed=0):
    if name == "permuted-labels":
        return permuted_labels(*batch, seed)
    return ktae.token_credit(*batch, CONTROLS[name](KTAE(), seed))


def test_permuted_labels_keep_each_groups_labels(batch):
    ids, mask, correct, groups = batch
    found = permuted_labels(ids, mask, correct, groups, seed=0)
    fixed = np.isnan(correct) | ~mask.any(axis=1)
    np.testing.assert_array_equal(found[fixed], correct[fixed])
    for rows in each_group(groups):
        rows = rows[~fixed[rows]]
        assert multiset(found[rows]) == multiset(correct[rows])
    assert (found[~fixed] != correct[~fixed]).mean() > 0.3


def test_permuted_labels_are_every_arrangement_equally_often():
    """Two correct of four: six arrangements, each 1000 times of 6000 on average, deviation 29."""
    ids, mask = np.arange(8).reshape(4, 2), np.ones((4, 2))
    found = Counter(
        tuple(permuted_labels(ids, mask, [1, 1, 0, 0], [0] * 4, seed=seed).tolist())
        for seed in range(6000)
    )
    assert set(found) == set(itertools.permutations([1, 1, 0, 0]))
    assert max(abs(n - 1000) for n in found.values()) < 150


def test_shuffled_values_keep_the_values_of_the_distinct_tokens(batch):
    ids, mask, correct, groups = batch
    credit = ktae.token_credit(ids, mask, correct, groups)
    found = run("shuffled-values", batch)
    assert not found[~mask].any() and not found[np.isnan(correct)].any()
    known = mask & ~np.isnan(correct)[:, None]
    for rows in each_group(groups):
        before = dict(zip(ids[rows][known[rows]], credit[rows][known[rows]], strict=True))
        pairs = zip(ids[rows][known[rows]], found[rows][known[rows]], strict=True)
        after = dict(set(pairs))
        assert before.keys() == after.keys()
        assert multiset(list(before.values())) == multiset(list(after.values()))
        np.testing.assert_array_equal(
            found[rows][known[rows]], [after[token] for token in ids[rows][known[rows]]]
        )
    assert (found != credit)[known].mean() > 0.3


def test_random_places_keep_each_rollouts_credit(batch):
    ids, mask, correct, groups = batch
    credit = ktae.token_credit(ids, mask, correct, groups)
    found = run("random-places", batch)
    assert not found[~mask].any()
    for row in range(len(ids)):
        assert multiset(found[row, mask[row]]) == multiset(credit[row, mask[row]])
    assert (found != credit)[mask].mean() > 0.3


@pytest.mark.parametrize("name", ["permuted-labels", *CONTROLS])
def test_draws_depend_on_the_seed_and_the_ids_alone(name, batch):
    expected = run(name, batch)
    np.testing.assert_array_equal(run(name, batch), expected)
    assert not np.array_equal(run(name, batch, seed=1), expected, equal_nan=True)
    ids, mask, correct, groups = batch
    # In another order, among others, with other padding, other dtypes and other names of groups.
    order = np.random.default_rng(2).permutation(96)
    order = order[np.isin(groups[order], [3, 5, 8])]
    garbage = np.where(mask, ids, -100)[order]
    padded = [np.pad(x, ((0, 2), (0, 3))) for x in (garbage.astype(np.int32), mask[order])]
    names = np.array([f"prompt {11 - group}" for group in [*groups[order], 3, 3]])
    found = run(name, (*padded, np.append(correct[order], [0, 1]), names))[: len(order)]
    found = found[:, : ids.shape[1]] if found.ndim == 2 else found
    np.testing.assert_array_equal(found, expected[order])


@pytest.mark.parametrize("name", ["permuted-labels", *CONTROLS])
def test_other_ids_are_drawn_for_anew(name, batch):
    ids, mask, correct, groups = batch
    one = next(rows for rows in each_group(groups) if not np.isnan(correct[rows]).any())
    ids, mask, correct, groups = ids[one], np.ones_like(mask[one]), [0, 1] * 4, groups[one]
    draws = set()
    values = np.tile(np.arange(20.0), (8, 1))
    for step in range(8):  # renamed tokens: the same credit, and other rollouts
        renamed = (ids + step, mask, correct, groups)
        if name == "random-places":
            found = ktae.token_credit(*renamed, RandomPlaces(Given(values)))
        else:
            found = run(name, renamed)
        draws.add(found.tobytes())
    assert len(draws) >= 6  # 70 labellings: two of eight draws are often equal


@pytest.mark.parametrize("control", [PermutedLabels, ShuffledValues, RandomPlaces])
def test_tensors_give_tensors_of_the_same_numbers(control, batch):
    torch = pytest.importorskip("torch")
    estimator = control(KTAE(), 3)
    found = ktae.token_credit(*map(torch.from_numpy, batch), estimator)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), ktae.token_credit(*batch, estimator))


def test_graded_and_boolean_labels():
    ids, mask, groups = np.arange(6)[:, None], np.ones((6, 1)), [0] * 6
    graded = np.array([0.25, 1.0, np.nan, 0.5, 0.0, 0.75])
    found = permuted_labels(ids, mask, graded, groups, seed=3)
    assert np.isnan(found[2]) and sorted(found[[0, 1, 3, 4, 5]]) == [0, 0.25, 0.5, 0.75, 1]
    boolean = permuted_labels(ids, mask, graded > 0.4, groups, seed=3)
    assert boolean.dtype == bool and boolean.sum() == 3


def test_permuted_labels_of_equal_rollouts_keep_their_number():
    """Equal rollouts are one another's copies: which of them has which label says nothing."""
    ids, mask = np.zeros((4, 2), dtype=int), np.ones((4, 2))
    assert permuted_labels(ids, mask, [1, 1, 1, 0], [0] * 4, seed=5).sum() == 3


def test_empty_batches():
    ids, labels, groups = np.zeros((0, 4), dtype=int), np.zeros(0), np.zeros(0, dtype=int)
    assert permuted_labels(ids, ids, labels, groups, seed=0).shape == (0,)
    for control in CONTROLS.values():
        assert ktae.token_credit(ids, ids, labels, groups, control(KTAE())).shape == (0, 4)


IDS, MASK = [[1, 2], [3, 4]], [[1, 1], [1, 1]]
DIFFERENT = np.array([[0.0, 0.5], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: permuted_labels(IDS, MASK, [1], [0, 0], seed=0), "correct is .*shape"),
        (lambda: permuted_labels(IDS, MASK, [1, 0], [0], seed=0), "groups is .*shape"),
        (lambda: permuted_labels(IDS, [[1, 1]], [1, 0], [0, 0], seed=0), "mask is .*the shape"),
        (
            lambda: ktae.token_credit(
                [[1, 1], [2, 2]], MASK, [1, 0], [0, 0], ShuffledValues(Given(DIFFERENT))
            ),
            "two values for token 1 in group 0; expected one",
        ),
    ],
)
def test_bad_input(call, says):
    with pytest.raises(ktae.InputError, match=says):
        call()
