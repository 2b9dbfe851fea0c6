"""The demo's sums: what they say stays the same in a version, and is learnable."""

import hashlib
import random

import pytest

from ktae.experiments.demo import sums
from ktae.experiments.demo.model import make_tokenizer

FROZEN = ("1", "6c2d3e3b5612054a")
"""The version, and the digest of what is said in it."""


def test_another_version_says_other_things_and_only_another_version_does() -> None:
    """Base models are kept by the version: raise it with what is said, and freeze it here."""
    rng = random.Random("spoken")
    problems = [*sums.held_out_problems(64), *sums.train_problems(512, seed=3)]
    lines = [" ".join(sums.VOCABULARY), str(sums.MAX_RESPONSE_LENGTH)]
    for problem in problems:
        lines += [problem.prompt, str(problem.answer), sums.worked_solution(problem, rng)]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    assert (sums.VERSION, digest) == FROZEN


def test_held_out_problems_are_distinct_always_the_same_and_not_trained_on() -> None:
    problems = sums.held_out_problems(sums.HELD_OUT)
    held_out = {p.story for p in problems}
    assert len(held_out) == len(problems) == sums.HELD_OUT
    assert sums.held_out_problems(3) == problems[:3]
    trained_on = sums.train_problems(8000, seed=0)
    assert len(trained_on) == 8000
    assert not any(p.story in held_out for p in trained_on)
    assert sums.train_problems(20, seed=0) == trained_on[:20] != sums.train_problems(20, seed=2)


def test_every_word_is_one_token_of_the_vocabulary_and_solutions_end() -> None:
    tokenizer, rng = make_tokenizer(), random.Random(0)
    words: set[str] = set()
    for problem in sums.train_problems(3000, seed=0):
        text = f"{problem.prompt} {sums.worked_solution(problem, rng)}"
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.decode(ids) == text and len(ids) == len(text.split())
        assert text.split().index("<eos>") == len(ids) - 1
        words.update(text.split())
    assert words == set(sums.VOCABULARY) - {"<pad>"} and len(tokenizer) == len(sums.VOCABULARY)


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("so box 7 } but wait , total box 12 } <eos>", 12),
        ("so box 7 } but wait , total box 12", 7),
        ("box 20 }", None),
        ("box 7 8 }", None),
        ("lunchbox 7 }", None),
        ("", None),
    ],
)
def test_the_answer_is_the_last_whole_box_and_counts_only_if_finished(response, answer) -> None:
    assert sums.extract_answer(response) == answer
    outcome = "unanswered" if answer is None else "correct"
    assert sums.grade(response, str(answer), finished=True).outcome == outcome
    assert sums.grade(response, str(answer), finished=False).outcome != "correct"
