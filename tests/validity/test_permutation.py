"""What permuted labels give, against plain counting and against all labellings of small groups."""

import itertools
import math

import numpy as np
import oracle
import pyarrow as pa
import pytest
import scipy.stats

from ktae import padding
from ktae.errors import InputError
from ktae.estimators import preset
from ktae.tables import largest_credit
from ktae.validity.permutation import ACCURACIES, FREQUENCIES, permutation_test


def make_record(ids, correct, groups, masks=None):
    columns = {
        "group": pa.array(list(map(str, groups)), pa.string()),
        "token_ids": pa.array(ids, pa.list_(pa.int32())),
        "reward": [0.0] * len(ids),
        "correct": pa.array(correct, pa.float64()),
    }
    if masks is not None:
        columns["mask"] = pa.array(masks, pa.list_(pa.bool_()))
    return pa.table(columns)


def random_rollouts(seed=0, groups=6, size=5):
    rng = np.random.default_rng(seed)
    ids = [rng.integers(0, 12, rng.integers(1, 15)).tolist() for _ in range(groups * size)]
    correct = rng.integers(0, 2, groups * size).astype(float)
    return ids, correct.tolist(), np.repeat(np.arange(groups), size).tolist()


def naive_statistics(ids, correct, groups, estimator):
    """Loops over groups, rollouts and tokens; SciPy's test."""
    absolute, p_values, credit = [], [], []
    for group in sorted(set(groups)):
        rows = [r for r, g in enumerate(groups) if g == group and correct[r] is not None and ids[r]]
        true = [r for r in rows if correct[r] == 1]
        false = [r for r in rows if correct[r] == 0]
        if not true or not false:
            continue
        padded = np.full((len(rows), max(len(ids[r]) for r in rows)), -1)
        for place, r in enumerate(rows):
            padded[place, : len(ids[r])] = ids[r]
        labels = [correct[r] for r in rows]
        values = oracle.token_credit(padded, padded >= 0, labels, [0] * len(rows), estimator)
        absolute += np.abs(values[padded >= 0]).tolist()
        for token in sorted({token for r in rows for token in ids[r]}):
            a, b = (sum(token in ids[r] for r in side) for side in (true, false))
            table = [[a, b], [len(true) - a, len(false) - b]]
            p_values.append(scipy.stats.fisher_exact(table)[1])
            credit.append((len(true) / len(rows), a + b, len(rows), values[padded == token][0]))
    return np.array(absolute), np.array(p_values), credit


@pytest.mark.parametrize(("estimator", "size"), [(preset("paper"), 5), (preset("released"), 8)])
def test_the_real_side_is_plain_counting(estimator, size):
    """Two of eight rollouts are exactly a quarter, and six three quarters."""
    ids, correct, groups = random_rollouts(size=size)
    correct[3], ids[8] = None, []
    found = permutation_test(make_record(ids, correct, groups), estimator, permutations=2)
    absolute, p_values, credit = naive_statistics(ids, correct, groups, estimator)
    assert (found.tokens, found.pairs) == (len(absolute), len(p_values))
    assert found.real.credit_abs == pytest.approx(absolute.mean(), abs=1e-6)
    assert found.real.saturated == pytest.approx(
        (absolute > 0.9 * largest_credit(estimator, 8)).mean()
    )
    assert found.real.significant == (p_values < 0.05).mean()
    assert found.real.no_evidence == pytest.approx((p_values > 1 - 1e-9).mean())
    as_dict = found.as_dict()
    assert set(as_dict["under_permutation"]["credit_abs"]) == {"mean", "q05", "q95"}
    assert len(as_dict["permuted"]) == 2 and as_dict["bins"][0]["frequency"] in FREQUENCIES
    for one in found.bins:
        inside = [t for accuracy, m, n, t in credit if bin_of(accuracy, m, n) == key(one)]
        assert one.pairs == len(inside)
        assert one.credit == pytest.approx(np.mean(inside), abs=1e-6)
    assert sum(one.pairs for one in found.bins) == found.pairs


def key(one):
    return one.accuracy[1], one.frequency


def bin_of(accuracy, m, n):
    upper = next(bound for bound in (*ACCURACIES, 1.0) if accuracy <= bound)
    if m == n:
        return upper, FREQUENCIES[4]
    names = [(1 / n, 0), (1 / 4, 1), (math.nextafter(3 / 4, 0), 2), (1, 3)]
    return upper, FREQUENCIES[next(number for bound, number in names if m / n <= bound)]


def test_permuted_labels_give_the_mean_over_all_labellings():
    """Two groups of five, 10 x 5 labellings: 600 permutations come near the exact means."""
    ids, _, groups = random_rollouts(groups=2)
    correct = [1.0, 1, 0, 0, 0, 1, 1, 1, 1, 0]
    found = permutation_test(make_record(ids, correct, groups), permutations=600)
    absolute, significant = [], []
    for labels in itertools.product(
        set(itertools.permutations(correct[:5])), set(itertools.permutations(correct[5:]))
    ):
        values, p_values, _ = naive_statistics(ids, sum(labels, ()), groups, preset("paper"))
        absolute.append(values.mean())
        significant.append((p_values < 0.05).mean())
    mean, low, high = found.quantiles("credit_abs")
    assert mean == pytest.approx(np.mean(absolute), abs=5 * np.std(absolute) / math.sqrt(600))
    assert [low, high] == pytest.approx(np.quantile(absolute, (0.05, 0.95)), abs=0.02)
    assert found.quantiles("significant")[0] == pytest.approx(np.mean(significant), abs=0.01)


def numbers_of(found):
    """Every number of a result; sums may round otherwise in another order."""
    statistics = [x for one in (found.real, *found.permuted) for x in vars(one).values()]
    bins = [(*one.accuracy, one.pairs, one.credit, one.credit_permuted) for one in found.bins]
    return [float(x) for x in np.hstack([*statistics, *np.ravel(bins), found.pairs, found.tokens])]


def test_chunks_and_row_order_do_not_matter(monkeypatch):
    ids, correct, groups = random_rollouts()
    whole = make_record(ids, correct, groups)
    expected = permutation_test(whole, permutations=3, seed=5)
    monkeypatch.setattr(padding, "MAX_POSITIONS", 1)
    in_chunks = permutation_test(whole, permutations=3, seed=5)
    assert numbers_of(in_chunks) == pytest.approx(numbers_of(expected))
    order = np.random.default_rng(0).permutation(len(ids))
    shuffled = make_record(*([column[row] for row in order] for column in (ids, correct, groups)))
    other = permutation_test(shuffled, permutations=3, seed=5)
    assert numbers_of(other) == pytest.approx(numbers_of(expected))
    assert permutation_test(whole, permutations=3, seed=6).permuted != expected.permuted


def test_testable_is_what_a_token_could_reach_and_not_what_it_reaches():
    """Token 1 is in three correct and two incorrect of ten responses; five of one kind would give
    2/252. Token 2 is in the one correct of 20, which is exactly .05 and so not below it."""
    ids = [[1] if row in (0, 1, 2, 5, 6) else [9] for row in range(10)]
    ids = [[*tokens, 100 + row] for row, tokens in enumerate(ids)]
    result = permutation_test(make_record(ids, [1] * 5 + [0] * 5, "a" * 10), permutations=1)
    assert result.real.significant == 0
    assert result.testable == 2 / 12  # tokens 1 and 9; the others are in one response each
    ids = [[2 if row == 0 else 3, 100 + row] for row in range(20)]
    result = permutation_test(make_record(ids, [1] + [0] * 19, "a" * 20), permutations=1)
    assert result.smallest_p == pytest.approx(0.05) and result.testable == 0


def test_repeated_rollouts_count_once():
    """Identical rollouts share a verdict: copies are no evidence."""
    ids, correct, groups = random_rollouts()
    expected = permutation_test(make_record(ids, correct, groups), permutations=2)
    again = [*range(len(ids)), *range(len(ids)), 0]
    rows = ([column[row] for row in again] for column in (ids, correct, groups))
    three = make_record(*rows)
    found = permutation_test(three, permutations=2)
    assert numbers_of(found) == pytest.approx(numbers_of(expected))
    assert sum(found.left_out.values()) == sum(expected.left_out.values()) + len(ids) + 1
    with pytest.raises(InputError, match="identical rollouts with different verdicts"):
        permutation_test(make_record([[1], [1], [1]], [1.0, 0, 0], [0] * 3))
