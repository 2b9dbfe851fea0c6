"""Paired tests, against scipy and exhaustive enumeration."""

import itertools
from typing import Any

import numpy as np
import pytest

from ktae.errors import InputError
from ktae.evaluation.comparison import compare, in_words
from ktae.evaluation.outputs import Output
from ktae.grading import Outcome, Verdict
from ktae.inference import pooled_p_value

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


def test_a_difference_is_shown() -> None:
    a = side({"x": [[0]] * 40 + [[1]] * 60})
    b = side({"x": [[1]] * 30 + [[0]] * 10 + [[1]] * 60})
    (found,) = compare(a, b)
    assert (found.name, found.problems, found.up, found.down) == ("x", 100, 30, 0)
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
    assert (found.problems, found.up, found.down) == (2, 1, 1)
    assert found.difference.value == pytest.approx(-0.25)
    assert found.p_value == pytest.approx(2 / 3, abs=0.01)


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
    with pytest.raises(
        InputError, match="A and B have no problem in common: 'x/0' is one of A, 'y/0'"
    ):
        compare(b, side({"y": [[1]]}), partial=True)
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
    assert (found.name, found.problems, found.up) == (name, 9, 9)


def test_unnamed_problems_are_none_of_a_named_benchmark_in_the_same_file() -> None:
    """Where a file has both, `x/0` and `0` stay two problems."""
    sides = []
    for name, result in (("old", 0), ("new", 1)):
        (outputs, verdicts), (more, others) = unnamed(name, [result] * 9), side({"x": [[1]] * 5})
        sides.append((outputs + more, verdicts + others))
    found = {one.name: one.problems for one in compare(*sides)}
    assert found == {"problems": 9, "x": 5, "pooled": 14}


def test_random_deals_come_close_to_all_deals() -> None:
    """Three problems of several sizes: each deal of their verdicts has the same probability."""
    sides = [(0, 3, 1, 1), (1, 2, 3, 3), (1, 4, 2, 2)]
    observed = sum(b / n_b - a / n_a for a, n_a, b, n_b in sides)
    sums = [0.0]
    for a, n_a, b, n_b in sides:
        verdicts = [1] * (a + b) + [0] * (n_a + n_b - a - b)
        deals = [sum(deal) for deal in itertools.combinations(verdicts, n_b)]
        sums = [x + right / n_b - (a + b - right) / n_a for x in sums for right in deals]
    share = np.mean(np.abs(sums) >= observed - 1e-9)
    assert pooled_p_value(sides) == pytest.approx(share, abs=0.005)


def test_different_numbers_of_samples_are_dealt_anew() -> None:
    """One problem, right in 0 of 3 against 1 of 1: that deal has probability 1/4."""
    (found,) = compare(side({"x": [[0, 0, 0]]}), side({"x": [[1]]}))
    assert found.p_value == pytest.approx(1 / 4, abs=0.01)
    (alike,) = compare(side({"x": [[1, 1, 1]]}), side({"x": [[1]]}))
    assert alike.p_value == 1


def numbered(prompts: list[str], right: set[str]) -> tuple[list[Output], list[Verdict]]:
    """A file without labels: problems have the numbers of their prompts."""
    outputs = [
        Output("x", str(i), 0, "", ("yes",), prompt=prompt, named=False, numbered=True)
        for i, prompt in enumerate(prompts)
    ]
    return outputs, [Verdict(OUTCOMES[prompt in right]) for prompt in prompts]


def test_problems_without_labels_are_paired_by_their_prompts() -> None:
    prompts = [f"q{i}" for i in range(12)]
    a = numbered(prompts, set(prompts[:6]))
    (found,) = compare(a, numbered(prompts[::-1], set(prompts[:6])))
    assert (found.problems, found.up, found.down) == (12, 0, 0)
    (some,) = compare(a, numbered(["other", *prompts[:3]], {"other"}), partial=True)
    assert (some.problems, some.up, some.down) == (3, 0, 3)
    with pytest.raises(InputError, match="in one of the two only"):
        compare(a, numbered(["other", *prompts[:3]], set()))


@pytest.mark.parametrize(
    ("label", "prompt", "answer", "problems"),
    [
        ("{i}", "q{i} of {step}", "1", 6),  # labels that begin anew with each step
        ("{i} {step}", "q{i}", "1", 2),  # a new label for the same prompt
        ("{i}", None, "1", 2),
        ("{i}", None, "{step}", 6),
    ],
)
def test_what_is_one_problem_at_three_steps(
    label: str, prompt: str | None, answer: str, problems: int
) -> None:
    outputs = [
        Output(
            "x",
            f"{label.format(i=i, step=step)} of step {step}",
            sample,
            "",
            (answer.format(step=step),),
            prompt=None if prompt is None else prompt.format(i=i, step=step),
            step=str(step),
        )
        for step in range(3)
        for i in range(2)
        for sample in range(2)
    ]
    wrong, right = ([Verdict(OUTCOMES[kind])] * len(outputs) for kind in (0, 1))
    one_undecided = [Verdict(Outcome.UNDECIDED), *right[1:]]
    for verdicts in (right, one_undecided):
        (found,) = compare((outputs, wrong), (outputs, verdicts))
        assert (found.problems, found.up) == (problems, problems)
        if verdicts is right or problems == 2:  # of six, samples are dealt anew
            assert found.p_value == 2 / 2**problems, "steps are no more evidence"


def test_prompts_that_differ_are_an_error() -> None:
    """What is shown of two long ones is where they differ."""
    system = "Please reason step by step, and put your final answer within a box. " * 2
    a, b = numbered([f"{system}What is 1+1?"], set()), numbered([f"{system}What is 2+1?"], set())
    message = r"no problem in common: .*is 1\+1\?' is one of A, .*is 2\+1\?' one of B"
    with pytest.raises(InputError, match=message):
        compare(a, b)
    labelled = ([o._replace(numbered=False) for o in b[0]], b[1])
    with pytest.raises(InputError, match=r"prompt .*What is 1\+1\?' in A and .*is 2\+1\?' in B"):
        compare(a, labelled)


def of_steps(prompts: list[str], right: dict[str, set[str]]) -> tuple[list[Output], list[Verdict]]:
    """The same prompts at each step, as verl's validation dumps have them."""
    outputs, verdicts = [], []
    for step, right_then in right.items():
        of_step = numbered(prompts, right_then)
        outputs += [
            o._replace(problem=f"{o.problem} of step {step}", step=step) for o in of_step[0]
        ]
        verdicts += of_step[1]
    return outputs, verdicts


def test_the_same_prompts_at_several_steps_are_paired_step_by_step() -> None:
    prompts = [f"q{i}" for i in range(10)]
    a = of_steps(prompts, {"1": set(prompts[:5]), "2": set(prompts[:5])})
    b = of_steps(prompts[::-1], {"2": set(prompts), "1": set(prompts[:7])})
    (found,) = compare(a, b)
    assert (found.problems, found.up, found.down) == (10, 5, 0)
    assert found.difference.value == pytest.approx(0.35) and found.p_value == 2 / 2**5
    (first,) = compare(a, of_steps(prompts, {"1": set(prompts[:7])}), partial=True)
    assert (first.problems, first.up, first.down) == (10, 2, 0)
    again = [of_steps(prompts, {str(s): set(prompts[:n]) for s in range(3)}) for n in (5, 7)]
    once = compare(numbered(prompts, set(prompts[:5])), numbered(prompts, set(prompts[:7])))
    assert compare(*again) == once, "the same problems three times over are no more evidence"
    with pytest.raises(InputError, match="10 problems are in one of the two only, such as q0 of"):
        compare(a, of_steps(prompts, {"1": set()}))
    for other in (of_steps(prompts, {"3": set()}), numbered(prompts, set())):
        with pytest.raises(InputError, match="no problem in common"):
            compare(a, other, partial=True)


def with_lengths(graded: tuple[list[Output], list[Verdict]], lengths: list[int | None]) -> Any:
    return [o._replace(tokens=n) for o, n in zip(graded[0], lengths, strict=True)], graded[1]


def test_lengths_are_tested_beside_accuracies() -> None:
    """Undecided responses have a length, too; samples of a problem are averaged."""
    graded = side({"x": [[1, 0]] * 9 + [[None, None]]})
    a, b = with_lengths(graded, [30, 50] * 10), with_lengths(graded, [20, 30] * 10)
    accuracy, length = compare(a, b)
    assert (accuracy.measure, accuracy.problems, accuracy.up) == ("accuracy", 9, 0)
    assert (length.measure, length.problems, length.up, length.down) == ("length", 10, 0, 10)
    assert (length.mean_a, length.mean_b, length.difference) == (40, 25, (-15, -15, -15))
    assert length.p_value == length.corrected == 2**-9
    assert in_words(length).startswith("B is shorter than A by 15.0 tokens (95 % interval -15.0")
    for unknown in (with_lengths(graded, [None, *[9] * 19]), graded):
        assert [c.measure for c in compare(a, unknown)] == ["accuracy"]


def test_several_models_are_compared_with_the_first() -> None:
    """p-values of all comparisons of a measure are corrected together."""
    a = with_lengths(side({"x": [[0]] * 8}), [10] * 8)
    b = with_lengths(side({"x": [[1]] * 8}), [10] * 8)
    rows = compare(a, b, a, b)
    assert [(c.model, c.measure, c.up) for c in rows] == [
        (model, measure, up)
        for model, better in ((0, 8), (1, 0), (2, 8))
        for measure, up in (("accuracy", better), ("length", 0))
    ]
    assert [c.corrected for c in rows if c.measure == "accuracy"] == [3 * 2**-7, 1, 3 * 2**-7]
