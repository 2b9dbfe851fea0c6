"""The reward function that verl calls."""

import sys
import types

import pytest

from ktae.demo import LANGUAGES, SUMS
from ktae.demo.language import EOS
from ktae.errors import InputError
from ktae.verl.reward import compute_score, demo_source


def demo(response, answer="7", limit=8, language="sums"):
    source = demo_source(language)
    return compute_score(source, response, answer, {"index": 0}, max_response_length=limit)


def outcome(**ones):
    names = ("score", "acc", "unanswered", "undecided")
    return {name: float(ones.get(name, 0)) for name in names}


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("so box 7 }", outcome(score=1, acc=1)),
        ("so box 8 }", outcome()),
        ("box 7 } box 8 }", outcome()),
        ("so box 7", outcome(unanswered=1)),
        ("", outcome(unanswered=1)),
        ("a a a a box 7 }", outcome(score=1, acc=1)),
        ("a a a a a box 7 }", outcome()),  # at the limit: it never came to its end
    ],
)
def test_the_demo(response, expected):
    assert demo(response) == expected


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)
def test_the_demo_s_check_is_the_one_that_trl_uses(language):
    import random

    rng = random.Random(0)
    verdicts = set()
    for problem in language.train_problems(200, seed=3):
        response = language.worked_solution(problem, rng)
        text = response.removesuffix(EOS).strip()
        for limit in (16, 64):
            finished = len(response.split()) <= limit
            cut = " ".join(text.split()[:limit])
            expected = language.is_correct(cut, problem.answer, finished)
            verdicts.add(expected)
            assert demo(cut, str(problem.answer), limit, language.name)["acc"] == expected
    assert verdicts == {True, False}


def test_the_demo_needs_its_limit():
    with pytest.raises(InputError, match=r"reward_kwargs\.max_response_length"):
        compute_score(demo_source(SUMS.name), "box 7 }", "7")


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        ("correct", outcome(score=1, acc=1)),
        ("incorrect", outcome()),
        ("unanswered", outcome(unanswered=1)),
        ("undecided", outcome(undecided=1)),
    ],
)
def test_mathematics_has_four_outcomes(monkeypatch, verdict, expected):
    asked = []

    def grade(response, answer):
        asked.append((response, answer))
        return types.SimpleNamespace(outcome=verdict)

    monkeypatch.setitem(sys.modules, "ktae.grading", types.SimpleNamespace(grade=grade))
    assert compute_score("math12k", "\\boxed{7}", "7", {}) == expected
    assert asked == [("\\boxed{7}", "7")]


def test_without_its_libraries_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ktae.grading", None)
    with pytest.raises(InputError, match=r"ktae\[eval\]"):
        compute_score("math12k", "\\boxed{7}", "7", {})
