"""The figures, against direct counts and exact enumerations."""

import itertools
import math

import numpy as np
import pytest
from saved_outputs import graded

from ktae.experiments.scores import pass_at_k, score


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_pass_at_k_is_the_mean_over_all_subsets(n):
    for c in range(n + 1):
        results = [1] * c + [0] * (n - c)
        for k in range(1, n + 1):
            subsets = [any(subset) for subset in itertools.combinations(results, k)]
            assert math.isclose(pass_at_k(n, c, k), np.mean(subsets), abs_tol=1e-12)


def test_one_greedy_response_each():
    outcomes = [[1], [0], ["unanswered"], [1], [None]]
    scores = score(graded({"x": outcomes}, tokens=10, finished=True))
    (only,) = scores.scores
    assert only.accuracy.value == scores.mean.value == 0.5  # of the four decided ones
    assert (only.unanswered, only.undecided, only.truncated) == (0.2, 0.2, 0.0)
    assert (only.problems, only.samples, only.length) == (5, 1, (10, 10, 10))
    assert only.pass_at == {}
    assert 0 <= only.accuracy.low < 0.5 < only.accuracy.high <= 1
    tokens = [10, 10, None, 10, 10]
    assert score(graded({"x": outcomes}, tokens=tokens)).mean_length is None


def test_several_samples():
    """avg@4 (.5 + 0 + 1) / 3."""
    table = graded({"x": [[1, 1, 0, "unanswered"], [0] * 4, [1] * 4]})
    (scores,) = score(table).scores
    assert math.isclose(scores.accuracy.value, 0.5)
    values = {k: estimate.value for k, estimate in scores.pass_at.items()}
    assert values == pytest.approx({1: 0.5, 2: (5 / 6 + 0 + 1) / 3, 4: 2 / 3})


def test_an_undecided_sample_changes_no_k():
    """pass@4 is over the two problems with four decided samples, pass@2 over all three."""
    (scores,) = score(graded({"x": [[1, 1, 0, None], [0] * 4, [1] * 4]})).scores
    assert (scores.problems, scores.samples) == (3, 4)
    assert {k: x.problems for k, x in scores.pass_at.items()} == {1: 3, 2: 3, 4: 2}
    assert scores.pass_at[4].value == 0.5
    (none,) = score(graded({"x": [[1, 0, None]] * 2})).scores
    assert none.pass_at[3].problems == 0 and math.isnan(none.pass_at[3].value)
    (nothing,) = score(graded({"x": [[None]] * 2})).scores
    assert math.isnan(nothing.accuracy.value) and nothing.undecided == 1


def test_the_mean_weighs_benchmarks_alike_and_known_ones_come_first():
    scores = score(graded({"b": [[0]] * 30, "a": [[1]] * 2, "amc": [[1]], "aime24": [[0]]}))
    assert [s.benchmark for s in scores.scores] == ["aime24", "amc", "b", "a"]
    assert scores.mean == (0.5, 0.5, 0.5)
