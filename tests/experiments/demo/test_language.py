"""The language of sums: what it says stays the same in a version, and is learnable."""

import hashlib
import random

import pytest

from ktae.errors import InputError
from ktae.experiments.demo import SUMS
from ktae.experiments.demo.language import HELD_OUT, SPECIAL_TOKENS

SEEDS = range(60)
FROZEN = ("1", "6c2d3e3b5612054a")
"""The version, and the digest of what is said in it."""


def test_another_version_says_other_things_and_only_another_version_does() -> None:
    """Base models are kept by the version: raise it with what is said, and freeze it here."""
    rng = random.Random("spoken")
    problems = [*SUMS.test_problems(64), *SUMS.train_problems(512, seed=3)]
    lines = [" ".join(SUMS.vocabulary), str(SUMS.max_response_length)]
    for problem in problems:
        lines += [problem.prompt, str(problem.answer), SUMS.worked_solution(problem, rng)]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    assert (SUMS.version, digest) == FROZEN


def test_test_problems_are_distinct_and_always_the_same() -> None:
    problems = SUMS.test_problems(HELD_OUT)
    assert len({p.story for p in problems}) == len(problems) == HELD_OUT >= 512
    assert SUMS.test_problems() == problems[:512]
    assert SUMS.test_problems(3) == problems[:3]
    for n in (0, HELD_OUT + 1):
        with pytest.raises(InputError):
            SUMS.test_problems(n)


def test_no_training_problem_is_a_test_problem() -> None:
    held_out = {p.story for p in SUMS.test_problems(HELD_OUT)}
    rng = random.Random(0)
    anywhere = [SUMS.random_problem(rng) for _ in range(8000)]
    assert any(p.story in held_out for p in anywhere), "so it takes care to avoid them"
    trained_on = SUMS.train_problems(8000, seed=0)
    assert len(trained_on) == 8000
    assert not any(p.story in held_out for p in trained_on)


def test_fewer_training_problems_are_the_first_ones_and_other_seeds_give_others() -> None:
    few = SUMS.train_problems(20, seed=1)
    assert few == SUMS.train_problems(30, seed=1)[:20]
    assert few != SUMS.train_problems(20, seed=2)


def test_solutions_are_of_the_vocabulary_and_end() -> None:
    vocabulary = SUMS.vocabulary
    assert len(set(vocabulary)) == len(vocabulary) <= 180
    assert vocabulary[:3] == SPECIAL_TOKENS
    rng = random.Random(0)
    words: set[str] = set()
    for problem in SUMS.train_problems(3000, seed=0):
        solution = SUMS.worked_solution(problem, rng).split()
        assert solution.index("<eos>") == len(solution) - 1
        words.update(solution)
        words.update(problem.prompt.split())
    assert words == set(vocabulary) - {"<pad>"}


def test_worked_solutions_are_noisy_but_not_hopeless() -> None:
    rng = random.Random(0)
    problems = SUMS.train_problems(2000, seed=0)
    solutions = [SUMS.worked_solution(p, rng) for p in problems]
    fit = [len(text.split()) <= SUMS.max_response_length for text in solutions]
    right = [
        SUMS.is_correct(text, p.answer, finished)
        for p, text, finished in zip(problems, solutions, fit, strict=True)
    ]
    assert 0.6 < sum(fit) / len(fit) < 0.95
    assert 0.25 < sum(right) / len(right) < 0.6


def test_the_last_answer_counts_and_only_if_finished() -> None:
    """The answers of whole worked solutions, written one after the other."""
    for seed in SEEDS:
        rng = random.Random(seed)
        problem = SUMS.random_problem(rng)
        first, last = (SUMS.worked_solution(problem, rng) for _ in range(2))
        both = f"{first.removesuffix('<eos>')}{last}"
        found = SUMS.extract_answer(last)
        right = found == problem.answer
        assert SUMS.extract_answer(both) == found is not None
        assert SUMS.is_correct(both, problem.answer, finished=True) == right
        assert SUMS.is_correct(both, str(problem.answer), finished=True) == right
        assert not SUMS.is_correct(both, problem.answer, finished=False)


def test_every_word_is_one_token() -> None:
    from ktae.experiments.demo.model import make_tokenizer

    tokenizer, n = make_tokenizer(SUMS), len(SUMS.vocabulary)
    assert tokenizer(list(SUMS.vocabulary))["input_ids"] == [[i] for i in range(n)]
    assert len(tokenizer) == n
    rng = random.Random(0)
    for problem in SUMS.train_problems(1000, seed=0):
        text = f"{problem.prompt} {SUMS.worked_solution(problem, rng)}"
        ids = tokenizer(text)["input_ids"]
        assert len(ids) == len(text.split())
        assert tokenizer.decode(ids) == text


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
    assert SUMS.extract_answer(response) == answer
