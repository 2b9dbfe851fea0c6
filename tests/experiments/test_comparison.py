"""Paired tests, against scipy and exhaustive enumeration."""

import itertools

import numpy as np
import pytest
from saved_outputs import graded

from ktae.errors import InputError
from ktae.experiments import comparison
from ktae.experiments.comparison import in_words
from ktae.inference import pooled_p_value


def paired_tests(*sides, partial=False):
    """Of models that are called A, B and so on."""
    return comparison.paired_tests(dict(zip("ABCD", sides, strict=False)), partial=partial)


def test_a_difference_is_shown():
    a = graded({"x": [[0]] * 40 + [[1]] * 60})
    b = graded({"x": [[1]] * 30 + [[0]] * 10 + [[1]] * 60})
    (row,) = paired_tests(a, b)
    assert (row.name, row.problems, row.up, row.down) == ("x", 100, 30, 0)
    assert row.flips == {f"x/{i}": (0, 1) for i in range(30)}
    assert row.difference.value == pytest.approx(0.3)
    assert row.p_value == row.corrected == pytest.approx(2**-29)
    assert row.difference.low == pytest.approx(0.21, abs=0.02)
    assert row.shown and paired_tests(b, a)[0].difference.value == pytest.approx(-0.3)
    assert not row._replace(corrected=0.06).shown, "corrected for all comparisons"
    assert in_words(row).startswith("B ") and in_words(paired_tests(b, a)[0]).startswith("A ")


def test_benchmarks_pooled_and_corrected():
    a = graded({"x": [[0]] * 9 + [[1]] * 11, "y": [[1]] * 10})
    x, y, pooled = paired_tests(a, graded({"x": [[1]] * 20, "y": [[1]] * 10}))
    assert (x.name, y.name, pooled.name, pooled.problems) == ("x", "y", "pooled", 30)
    assert x.p_value == pooled.p_value == pytest.approx(2**-8)
    assert (x.corrected, y.corrected) == (pytest.approx(3 * 2**-8), 1.0)


def test_several_samples_and_undecided_ones():
    """Shares 1/2, 1 (of one decided), none, against 1, 0, 1: differences 1/2 and -1."""
    a = graded({"x": [[1, 0], [1, None], [None, None]]})
    (row,) = paired_tests(a, graded({"x": [[1, 1], [0, 0], [1, 1]]}))
    assert (row.problems, row.up, row.down) == (2, 1, 1)
    assert row.flips == {"x/0": (0.5, 1), "x/1": (1, 0)}
    assert row.difference.value == pytest.approx(-0.25)
    assert row.p_value == pytest.approx(2 / 3, abs=0.01)


def test_other_problems_are_an_error():
    a, b = graded({"x": [[1], [1]]}), graded({"x": [[1]]})
    with pytest.raises(InputError, match="x/1"):
        paired_tests(a, b)
    (row,) = paired_tests(a, b, partial=True)
    assert row.problems == 1
    sets = [graded({"x": [[1]]}, answers=[answers]) for answers in (["2", "1"], ["1", "3"])]
    with pytest.raises(InputError, match="x/0"):
        paired_tests(*sets)
    with pytest.raises(InputError, match="x/0"):
        paired_tests(b, graded({"y": [[1]]}), partial=True)
    with pytest.raises(InputError):
        paired_tests(*[graded({"x": [[None]]})] * 2)


def test_random_deals_come_close_to_all_deals():
    """Three problems of several sizes: each deal of their samples has the same probability."""
    sides = [(0, 3, 1, 1), (1, 2, 3, 3), (1, 4, 2, 2)]
    observed = sum(b / n_b - a / n_a for a, n_a, b, n_b in sides)
    sums = [0.0]
    for a, n_a, b, n_b in sides:
        verdicts = [1] * (a + b) + [0] * (n_a + n_b - a - b)
        deals = [sum(deal) for deal in itertools.combinations(verdicts, n_b)]
        sums = [x + right / n_b - (a + b - right) / n_a for x in sums for right in deals]
    share = np.mean(np.abs(sums) >= observed - 1e-9)
    assert pooled_p_value(sides) == pytest.approx(share, abs=0.005)


def test_different_numbers_of_samples_are_dealt_anew():
    """One problem, correct in 0 of 3 against 1 of 1: that deal has probability 1/4."""
    (row,) = paired_tests(graded({"x": [[0, 0, 0]]}), graded({"x": [[1]]}))
    assert row.p_value == pytest.approx(1 / 4, abs=0.01)
    (alike,) = paired_tests(graded({"x": [[1, 1, 1]]}), graded({"x": [[1]]}))
    assert alike.p_value == 1


def test_lengths_are_tested_beside_accuracies():
    """Undecided responses have a length, too; samples of a problem are averaged."""
    outcomes = {"x": [[1, 0]] * 9 + [[None, None]]}
    a, b = graded(outcomes, tokens=[30, 50] * 10), graded(outcomes, tokens=[20, 30] * 10)
    accuracy, length = paired_tests(a, b)
    assert (accuracy.measure, accuracy.problems, accuracy.up) == ("accuracy", 9, 0)
    assert (length.measure, length.problems, length.up, length.down) == ("length", 10, 0, 10)
    assert (length.mean_a, length.mean_b, length.difference) == (40, 25, (-15, -15, -15))
    assert length.p_value == length.corrected == 2**-9
    assert length.shown and not length.flips
    unknown = graded(outcomes, tokens=[None, *[9] * 19])
    assert [row.measure for row in paired_tests(a, unknown)] == ["accuracy"]


def test_several_models_are_compared_with_the_first():
    """p-values of all comparisons of a measure are corrected together."""
    a, b = (graded({"x": [[kind]] * 8}, tokens=10) for kind in (0, 1))
    rows = paired_tests(a, b, a, b)
    assert [(row.a, row.b, row.measure, row.up) for row in rows] == [
        ("A", model, measure, up)
        for model, better in (("B", 8), ("C", 0), ("D", 8))
        for measure, up in (("accuracy", better), ("length", 0))
    ]
    corrected = [row.corrected for row in rows if row.measure == "accuracy"]
    assert corrected == [3 * 2**-7, 1, 3 * 2**-7]


def test_one_side_is_of_one_step():
    side = graded({"x": [[1], [1]]})
    with pytest.raises(InputError, match=r"^C "):
        paired_tests(side, side, graded({"x": [[1], [1]]}, step=[1, 2]))
