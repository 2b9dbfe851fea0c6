import random
import re

import pytest
from every_language import EveryLanguage
from hypothesis import given
from hypothesis import strategies as st

from ktae.demo.language import Problem
from ktae_lab.languages import lists
from ktae_lab.languages.lists import LETTERS, LISTS, Operation, problem_of

ROTATING = problem_of(("c", "a", "f"), Operation("append", "d"), Operation("right"))

problems = st.integers(0, 2**32).map(lambda seed: lists.random_problem(random.Random(seed)))


class TestLists(EveryLanguage):
    language = LISTS
    frozen = ("1", "ae36ed048484cf88")


def interpreted(prompt: str) -> str:
    """The answer from the prompt's words alone: another program than the language's own."""
    begin, *things, end = prompt.split(" . ")
    assert begin.startswith("<bos> list ")
    assert end == "result ? <sol>"
    letters = begin.split()[2:]
    for thing in things:
        match thing.split():
            case ["reverse"]:
                letters.reverse()
            case ["sort"]:
                letters.sort()
            case ["behead"]:
                letters.pop(0)
            case ["curtail"]:
                letters.pop()
            case ["left"]:
                letters.append(letters.pop(0))
            case ["right"]:
                letters.insert(0, letters.pop())
            case ["append", letter]:
                letters.append(letter)
            case ["prepend", letter]:
                letters.insert(0, letter)
            case ["swap"]:
                letters[0], letters[-1] = letters[-1], letters[0]
            case ["echo"]:
                letters.append(letters[-1])
            case other:
                raise AssertionError(other)
    return " ".join(letters)


def test_prompt_and_answer() -> None:
    assert ROTATING.prompt == "<bos> list c a f . append d . right . result ? <sol>"
    assert ROTATING.answer == "d c a f"


@given(problems)
def test_answers_are_those_of_another_interpreter(problem: Problem) -> None:
    assert problem.answer == interpreted(problem.prompt)


def test_answers_of_the_test_problems() -> None:
    test_problems = LISTS.test_problems(1024)
    assert [p.answer for p in test_problems] == [interpreted(p.prompt) for p in test_problems]
    # frozen: results on other machines and in other years are about the same problems
    assert (
        test_problems[0].prompt
        == "<bos> list b h g f . curtail . swap . prepend d . result ? <sol>"
    )
    assert sum(len(p.answer.split()) for p in test_problems) == 3371


@given(problems)
def test_random_problems_are_of_the_language(problem: Problem) -> None:
    items, operations = problem.story
    assert 3 <= len(items) == len(set(items)) <= 4
    assert 2 <= len(operations) <= 4
    for operation in operations:
        assert (operation.letter in LETTERS) == (operation.verb in ("append", "prepend"))
        items = operation.result(items)
        assert 2 <= len(items) <= 4


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("answer [ a b ] <eos>", "a b"),
        ("answer [ a b ] hold on , finally [ b a a ] <eos>", "b a a"),
        ("answer [ a b ] hold on , finally [ b a", "a b"),
        ("answer [ a b ] hold on , finally [ ]", "a b"),
        ("[ a , b ]", None),
        ("[ c [ a b ]", "a b"),
        ("a b ]", None),
        ("[", None),
        ("", None),
    ],
)
def test_the_answer_is_the_last_whole_list(response: str, answer: str | None) -> None:
    assert lists.extract_answer(response) == answer


def test_order_and_repetition_count() -> None:
    assert LISTS.is_correct("answer [ d c a f ]", ROTATING.answer, finished=True)
    for wrong in ("c d a f", "d c a", "d c a f f", "d c a g"):
        assert not LISTS.is_correct(f"answer [ {wrong} ]", ROTATING.answer, finished=True)


@given(problems, st.integers(0, 2**32))
def test_the_box_is_what_the_chain_arrived_at(problem: Problem, seed: int) -> None:
    """Unlike a guess, a chain without second thoughts boxes its last list."""
    solution = lists.worked_solution(problem, random.Random(seed))
    if solution.startswith("guess") or solution.count("[") > 1:
        return
    chain, box = solution.split(" [ ")
    steps = re.findall(r"(?:\b\w+(?: [a-h])?|far) : ((?:[a-h] ?)+)(?:;|oops)", chain)
    if steps:
        assert box.split(" ]")[0] == steps[-1].strip()
