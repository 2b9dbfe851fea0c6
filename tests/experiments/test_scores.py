"""The figures, against direct counts and exact enumerations."""

import itertools
import math

import numpy as np
import pytest

from ktae.experiments.outputs import Output
from ktae.experiments.scores import majority, pass_at_k, score
from ktae.grading import Outcome, Verdict

RIGHT = Verdict(Outcome.CORRECT, "1")
WRONG = Verdict(Outcome.INCORRECT, "2")
SILENT = Verdict(Outcome.UNANSWERED)
UNKNOWN = Verdict(Outcome.UNDECIDED)


def outputs(
    benchmark: str, samples: list[int], verdicts: list[Verdict], **fields: object
) -> list[Output]:
    """One problem for each number of samples."""
    places = [(str(problem), i) for problem, n in enumerate(samples) for i in range(n)]
    return [
        Output(benchmark, problem, i, "", ("1",), verdict=verdict, **fields)  # type: ignore[arg-type]
        for (problem, i), verdict in zip(places, verdicts, strict=True)
    ]


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_pass_at_k_is_the_mean_over_all_subsets(n: int) -> None:
    for c in range(n + 1):
        results = [1] * c + [0] * (n - c)
        for k in range(1, n + 1):
            subsets = [any(subset) for subset in itertools.combinations(results, k)]
            assert math.isclose(pass_at_k(n, c, k), np.mean(subsets), abs_tol=1e-12)


def test_one_greedy_response_each() -> None:
    verdicts = [RIGHT, WRONG, SILENT, RIGHT, UNKNOWN]
    scores = score(outputs("x", [1] * 5, verdicts, tokens=10, finished=True))
    (only,) = scores.scores
    assert only.accuracy.value == scores.mean.value == 0.5  # of the four decided ones
    assert (only.unanswered, only.undecided, only.truncated) == (0.2, 0.2, 0.0)
    assert (only.problems, only.samples, only.length) == (5, 1, (10, 10, 10))
    assert (only.pass_at, only.majority) == ({}, None)
    assert 0 <= only.accuracy.low < 0.5 < only.accuracy.high <= 1


def test_several_samples() -> None:
    """avg@4 (.5 + 0 + 1) / 3; the second problem's majority is right by half, on a tie."""
    verdicts = [RIGHT, RIGHT, WRONG, SILENT] + [WRONG] * 4 + [RIGHT] * 4
    (scores,) = score(outputs("x", [4, 4, 4], verdicts)).scores
    assert math.isclose(scores.accuracy.value, 0.5)
    values = {k: estimate.value for k, estimate in scores.pass_at.items()}
    assert values == pytest.approx({1: 0.5, 2: (5 / 6 + 0 + 1) / 3, 4: 2 / 3})
    assert scores.majority is not None and math.isclose(scores.majority.value, 2 / 3)


def test_an_undecided_sample_changes_no_k() -> None:
    """pass@4 over the two problems with four decided samples, pass@2 and maj@k over all three."""
    verdicts = [RIGHT, RIGHT, WRONG, UNKNOWN] + [WRONG] * 4 + [RIGHT] * 4
    (scores,) = score(outputs("x", [4, 4, 4], verdicts)).scores
    assert (scores.problems, scores.samples) == (3, 4)
    assert {k: x.problems for k, x in scores.pass_at.items()} == {1: 3, 2: 3, 4: 2}
    assert math.isclose(scores.pass_at[2].value, (1 + 0 + 1) / 3)
    assert math.isclose(scores.pass_at[4].value, (0 + 1) / 2)
    assert scores.majority is not None
    assert (scores.majority.value, scores.majority.problems) == (2 / 3, 3)


def test_a_k_without_any_problem_is_said_to_have_none() -> None:
    (scores,) = score(outputs("x", [3, 3], [RIGHT, WRONG, UNKNOWN] * 2)).scores
    assert {k: x.problems for k, x in scores.pass_at.items()} == {1: 2, 2: 2, 3: 0}
    assert math.isnan(scores.pass_at[3].value)
    (nothing,) = score(outputs("x", [1, 1], [UNKNOWN, UNKNOWN])).scores
    assert math.isnan(nothing.accuracy.value) and nothing.undecided == 1


@pytest.mark.parametrize(
    ("answers", "correct", "expected"),
    [
        (["1/2", "0.5", "2"], [1, 1, 0], 1.0),
        ([r"\frac12", "0.5", "2", "2", "2"], [1, 1, 0, 0, 0], 0.0),
        (["1", "2"], [1, 0], 0.5),
        (["1", "2", None, None, None], [1, 0, 0, 0, 0], 0.5),
        ([None, None], [0, 0], 0.0),
        ([r"\text{East}", "east", "west"], [1, 1, 0], 1.0),
    ],
)
def test_majority(answers: list[str | None], correct: list[float], expected: float) -> None:
    assert majority([*zip(answers, correct, strict=True)]) == expected


def test_the_mean_weighs_benchmarks_alike() -> None:
    of_a, of_b = outputs("a", [1] * 2, [RIGHT] * 2), outputs("b", [1] * 30, [WRONG] * 30)
    scores = score(of_a + of_b)
    assert [s.benchmark for s in scores.scores] == ["a", "b"]
    assert scores.mean == (0.5, 0.5, 0.5)


def test_the_interval_covers_as_often_as_it_says() -> None:
    """100 draws of 60 problems at 40 %: the 95 % interval covers 40 % in 88 of them at least."""
    rng = np.random.default_rng(1)
    covered = 0
    for seed in range(100):
        verdicts = [RIGHT if right else WRONG for right in rng.random(60) < 0.4]
        low, high = score(outputs("x", [1] * 60, verdicts), seed=seed).mean[1:]
        covered += low <= 0.4 <= high
    assert 88 <= covered < 100


def test_no_majority_where_no_answer_is_known() -> None:
    right, wrong = Verdict(Outcome.CORRECT, None), Verdict(Outcome.INCORRECT, None)
    (only,) = score(outputs("x", [3, 3], [right, right, *[wrong] * 4])).scores
    assert only.majority is None
    (silent,) = score(outputs("x", [3], [SILENT] * 3)).scores
    assert silent.majority is not None and silent.majority.value == 0
