"""What holds for every demo language."""

import random
import subprocess
import sys
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktae import recipe
from ktae.demo import LANGUAGES, STORIES, Language, language_named
from ktae.demo.language import HELD_OUT, SPECIAL_TOKENS, geometric
from ktae.demo.sizes import MEDIUM, SIZES, TINY, size_named
from ktae.errors import InputError

each_language = pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)
languages = st.sampled_from(list(LANGUAGES.values()))


def test_recipes_know_the_languages_the_sizes_and_the_defaults() -> None:
    language = recipe.Demo.model_fields["language"]
    assert get_args(language.annotation) == tuple(LANGUAGES)
    assert language.default == next(iter(LANGUAGES)) == "sums"
    size = recipe.Model.model_fields["demo_size"]
    assert get_args(size.annotation) == tuple(SIZES)
    assert size.default == next(iter(SIZES)) == "tiny"


def test_languages_by_name() -> None:
    assert {name: language_named(name) for name in LANGUAGES} == LANGUAGES
    with pytest.raises(
        InputError, match="no demo language 'latin'; expected one of sums, lists, stories"
    ):
        language_named("latin")


def test_sizes_by_name() -> None:
    assert (size_named("tiny"), size_named("medium")) == (TINY, MEDIUM)
    with pytest.raises(InputError, match="no demo model size 'huge'; expected one of tiny, medium"):
        size_named("huge")


@each_language
def test_test_problems_are_distinct_and_always_the_same(language: Language[Any]) -> None:
    problems = language.test_problems(HELD_OUT)
    assert len({p.story for p in problems}) == len(problems) == HELD_OUT >= 512
    assert language.test_problems() == problems[:512]
    assert language.test_problems(3) == problems[:3]


@each_language
@pytest.mark.parametrize("n", [0, -1, HELD_OUT + 1])
def test_more_test_problems_than_there_are(language: Language[Any], n: int) -> None:
    message = f"{n} test problems of the language {language.name} asked for; expected 1 to 1024"
    with pytest.raises(InputError, match=message):
        language.test_problems(n)


@each_language
def test_no_training_problem_is_a_test_problem(language: Language[Any]) -> None:
    held_out = {p.story for p in language.test_problems(HELD_OUT)}
    if language is not STORIES:  # of which no two random ones are ever alike
        rng = random.Random(0)
        anywhere = [language.random_problem(rng) for _ in range(8000)]
        assert any(p.story in held_out for p in anywhere), "so it takes care to avoid them"
    trained_on = language.train_problems(8000, seed=0)
    assert len(trained_on) == 8000
    assert not any(p.story in held_out for p in trained_on)


@each_language
def test_training_problems_depend_on_the_seed_alone(language: Language[Any]) -> None:
    first = language.train_problems(20, seed=1)
    assert first == language.train_problems(20, seed=1) == language.train_problems(30, seed=1)[:20]
    assert first != language.train_problems(20, seed=2)


@each_language
def test_solutions_are_of_the_vocabulary_and_end(language: Language[Any]) -> None:
    assert len(set(language.vocabulary)) == len(language.vocabulary) <= 180
    assert language.vocabulary[:3] == SPECIAL_TOKENS
    rng = random.Random(0)
    words: set[str] = set()
    for problem in language.train_problems(3000, seed=0):
        solution = language.worked_solution(problem, rng).split()
        assert solution.index("<eos>") == len(solution) - 1
        words.update(solution)
        words.update(problem.prompt.split())
    assert words == set(language.vocabulary) - {"<pad>"}


@given(languages, st.integers(0, 2**32))
def test_solutions_depend_on_the_generator_alone(language: Language[Any], seed: int) -> None:
    problem = language.random_problem(random.Random(seed))
    one, other = random.Random(seed), random.Random(seed)
    first = [language.worked_solution(problem, one) for _ in range(10)]
    assert first == [language.worked_solution(problem, other) for _ in range(10)]
    assert len(set(first)) > 1


@each_language
def test_worked_solutions_are_noisy_but_not_hopeless(language: Language[Any]) -> None:
    rng = random.Random(0)
    problems = language.train_problems(2000, seed=0)
    solutions = [language.worked_solution(p, rng) for p in problems]
    fit = [len(text.split()) <= language.max_response_length for text in solutions]
    right = [
        language.is_correct(text, p.answer, finished)
        for p, text, finished in zip(problems, solutions, fit, strict=True)
    ]
    assert 0.6 < sum(fit) / len(fit) < 0.95
    assert 0.25 < sum(right) / len(right) < 0.6


@given(languages, st.integers(0, 2**32))
def test_the_last_answer_counts_and_only_if_finished(language: Language[Any], seed: int) -> None:
    """The answers of whole worked solutions, written one after the other."""
    rng = random.Random(seed)
    problem = language.random_problem(rng)
    first, last = (language.worked_solution(problem, rng) for _ in range(2))
    both = f"{first.removesuffix('<eos>')}{last}"
    found = language.extract_answer(last)
    assert language.extract_answer(both) == found is not None
    assert language.is_correct(both, problem.answer, finished=True) == (found == problem.answer)
    assert language.is_correct(both, str(problem.answer), True) == (found == problem.answer)
    assert not language.is_correct(both, problem.answer, finished=False)


@each_language
def test_no_answer_is_not_correct(language: Language[Any]) -> None:
    assert language.extract_answer("") is None
    assert not language.is_correct("", "None", finished=True)


def test_geometric() -> None:
    rng = random.Random(0)
    lengths = [len(geometric("ab", 0.25, rng)) for _ in range(4000)]
    assert sum(n >= 1 for n in lengths) / 4000 == pytest.approx(0.25, abs=0.03)
    assert sum(n >= 2 for n in lengths) / 4000 == pytest.approx(0.0625, abs=0.02)


def test_importing_the_demo_costs_no_torch() -> None:
    code = "import sys, ktae.demo; print('torch' in sys.modules, 'transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
