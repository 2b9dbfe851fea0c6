"""Paired tests, against scipy and exhaustive enumeration."""

import itertools
import math
import random
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from ktae.errors import InputError
from ktae.evaluation.comparison import compare, holm, in_words, sign_flip_p_value
from ktae.evaluation.outputs import Output
from ktae.grading import Outcome, Verdict

OUTCOMES = {1: Outcome.CORRECT, 0: Outcome.INCORRECT, None: Outcome.UNDECIDED}


def side(benchmarks: dict[str, list[list[int | None]]]) -> tuple[list[Output], list[Verdict]]:
    """Outputs and verdicts from results per benchmark, problem and sample."""
    rows = [
        (Output(name, str(i), j, "", ("1",)), Verdict(OUTCOMES[result]))
        for name, problems in benchmarks.items()
        for i, results in enumerate(problems)
        for j, result in enumerate(results)
    ]
    return [output for output, _ in rows], [verdict for _, verdict in rows]


@pytest.mark.parametrize(("better", "worse"), [(0, 0), (1, 0), (5, 1), (3, 3), (20, 8), (0, 12)])
def test_with_one_sample_it_is_mcnemars_exact_test(better: int, worse: int) -> None:
    differences = [1] * better + [-1] * worse + [0] * 7
    expected = stats.binomtest(better, better + worse).pvalue if better + worse else 1.0
    assert math.isclose(sign_flip_p_value(differences), expected, rel_tol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_share_of_all_sign_patterns(seed: int) -> None:
    rng = random.Random(seed)
    differences = [rng.randint(-4, 5) for _ in range(10)]
    sums = [
        sum(sign * d for sign, d in zip(signs, differences, strict=True))
        for signs in itertools.product((-1, 1), repeat=10)
    ]
    expected = np.mean([abs(x) >= abs(sum(differences)) for x in sums])
    assert math.isclose(sign_flip_p_value(differences), expected, rel_tol=1e-9)


def test_random_patterns_beyond_the_exact_span() -> None:
    differences = [3, 5, -4, 8, 2, 7, -1, 6, 4, 5]
    exact = sign_flip_p_value(differences)
    estimated = sign_flip_p_value([1_000_000 * d for d in differences])
    assert abs(exact - estimated) < 0.005


def test_random_patterns_are_drawn_in_parts() -> None:
    """Not gigabytes at once, and the same p as of all patterns."""
    differences = [3_000 + i % 7 - 6_000 * (i % 2) for i in range(400)]
    few = [1_000_000 * d for d in (3, 5, -4, 8, 2)]
    signs = np.random.default_rng(0).choice([-1, 1], size=(100_000, 5))
    whole = (1 + np.sum(np.abs(signs @ np.abs(few)) >= abs(sum(few)))) / 100_001
    assert sign_flip_p_value(few) == whole
    tracemalloc.start()
    try:
        assert 0 < sign_flip_p_value(differences) <= 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100e6  # bytes


def test_holm_is_as_statsmodels_documents_it() -> None:
    """By hand: sorted .01 .02 .03 .2 times 4 3 2 1, made non-decreasing."""
    assert holm([0.03, 0.01, 0.2, 0.02]) == pytest.approx([0.06, 0.04, 0.2, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


def test_a_difference_is_shown() -> None:
    a = side({"x": [[0]] * 40 + [[1]] * 60})
    b = side({"x": [[1]] * 30 + [[0]] * 10 + [[1]] * 60})
    (found,) = compare(a, b)
    assert (found.name, found.problems, found.better, found.worse) == ("x", 100, 30, 0)
    assert found.difference.value == pytest.approx(0.3)
    assert found.p_value == found.corrected == pytest.approx(2**-29)
    assert found.difference.low == pytest.approx(0.21, abs=0.02)
    assert in_words(found).startswith("B is better than A by 30.0 points (95 % interval +2")
    (back,) = compare(b, a)
    assert in_words(back, "new", "old").startswith("new is better than old by 30.0 points")


def test_no_difference_can_be_shown() -> None:
    a = side({"x": [[0]] * 15 + [[1]] * 15})
    b = side({"x": [[0]] * 13 + [[1]] * 17})
    (found,) = compare(a, b)
    assert not found.shown
    assert in_words(found).startswith("no difference can be shown with 30 problems (+6.7 points")


def test_benchmarks_pooled_and_corrected() -> None:
    a = side({"x": [[0]] * 9 + [[1]] * 11, "y": [[1]] * 10})
    b = side({"x": [[1]] * 20, "y": [[1]] * 10})
    x, y, pooled = compare(a, b)
    assert (x.name, y.name, pooled.name, pooled.problems) == ("x", "y", "pooled", 30)
    assert x.p_value == pooled.p_value == pytest.approx(2**-8)
    assert (x.corrected, y.corrected) == (pytest.approx(3 * 2**-8), 1.0)


def test_several_samples_and_undecided_ones() -> None:
    """Shares 1/2, 1 (of one decided), none, against 1, 0, 1: differences 1/2 and -1."""
    a = side({"x": [[1, 0], [1, None], [None, None]]})
    b = side({"x": [[1, 1], [0, 0], [1, 1]]})
    (found,) = compare(a, b)
    assert (found.problems, found.better, found.worse) == (2, 1, 1)
    assert found.difference.value == pytest.approx(-0.25)
    assert found.p_value == sign_flip_p_value([1, -2]) == 1.0


def test_other_problems_are_an_error() -> None:
    a, b = side({"x": [[1], [1]]}), side({"x": [[1]]})
    with pytest.raises(InputError, match="1 problems are in one of the two only, such as x/1"):
        compare(a, b)
    (found,) = compare(a, b, partial=True)
    assert found.problems == 1
    other = ([output._replace(answers=("2",)) for output in b[0]], b[1])
    with pytest.raises(InputError, match="problem x/0 has the answer '1' in A and '2' in B"):
        compare(b, other)
    sets = [([b[0][0]._replace(answers=answers)], b[1]) for answers in (("2", "1"), ("1", "3"))]
    with pytest.raises(InputError, match="has the answer '1' or '2' in A and '1' or '3' in B: "):
        compare(*sets)
    unknown = side({"x": [[None]]})
    with pytest.raises(InputError, match="nothing to compare"):
        compare(unknown, unknown)


def unnamed(name: str, results: list[int]) -> tuple[list[Output], list[Verdict]]:
    """As from a file of that name which names no benchmark."""
    outputs, verdicts = side({name: [[result] for result in results]})
    return [output._replace(named=False) for output in outputs], verdicts


@pytest.mark.parametrize(
    ("a", "b", "name"),
    [
        (unnamed("old", [0] * 9), unnamed("new", [1] * 9), "problems"),
        (unnamed("same", [0] * 9), unnamed("same", [1] * 9), "same"),
        (unnamed("old", [0] * 9), side({"x": [[1]] * 9}), "x"),
        (side({"x": [[0]] * 9}), unnamed("new", [1] * 9), "x"),
    ],
)
def test_a_files_name_is_no_benchmark_to_compare(
    a: tuple[list[Output], list[Verdict]], b: tuple[list[Output], list[Verdict]], name: str
) -> None:
    (found,) = compare(a, b)
    assert (found.name, found.problems, found.better) == (name, 9, 9)


def test_unnamed_problems_are_none_of_a_named_benchmark_in_the_same_file() -> None:
    """Where a file has both, `x/0` and `0` stay two problems."""
    sides = []
    for name, result in (("old", 0), ("new", 1)):
        (outputs, verdicts), (more, others) = unnamed(name, [result] * 9), side({"x": [[1]] * 5})
        sides.append((outputs + more, verdicts + others))
    found = {one.name: one.problems for one in compare(*sides)}
    assert found == {"problems": 9, "x": 5, "pooled": 14}


def test_nothing_in_common_is_not_to_be_had_with_partial() -> None:
    with pytest.raises(InputError, match="A and B have no problem in common: x/0 is one of A, y/0"):
        compare(side({"x": [[1]]}), side({"y": [[1]]}))
