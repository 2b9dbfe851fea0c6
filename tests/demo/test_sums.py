"""The language itself: what it means. `test_language` freezes what it says, word by word."""

import pytest

from ktae.demo import sums
from ktae.demo.sums import Operation, problem_of


def test_prompt_and_answer() -> None:
    tripling = problem_of("tom", 7, Operation("gets", 5), Operation("triples"))
    assert tripling.prompt == "<bos> tom has 7 . gets 5 . triples . how many ? <sol>"
    assert tripling.answer == 16  # (7 + 5) * 3 = 36


@pytest.mark.parametrize(
    ("operation", "result", "written"),
    [
        (Operation("gets", 9), 3, "14 + 9 = 3"),
        (Operation("finds", 1), 15, "14 + 1 = 15"),
        (Operation("loses", 9), 5, "14 - 9 = 5"),
        (Operation("gives", 4), 10, "14 - 4 = 10"),
        (Operation("doubles"), 8, "14 * 2 = 8"),
        (Operation("triples"), 2, "14 * 3 = 2"),
        (Operation("flips"), 6, "0 - 14 = 6"),
    ],
)
def test_what_each_verb_means(operation: Operation, result: int, written: str) -> None:
    assert operation.sum.result(14) == result
    assert operation.sum.written(14, result) == written


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("so box 7 } but wait , total box 12 } <eos>", 12),
        ("so box 7 } but wait , total box 12", 7),
        ("so box 7 } but wait , total box } <eos>", 7),
        ("box 20 }", None),
        ("box 7 8 }", None),
        ("box", None),
        ("lunchbox 7 }", None),
        ("", None),
    ],
)
def test_the_answer_is_the_last_whole_box(response: str, answer: int | None) -> None:
    assert sums.extract_answer(response) == answer
