"""A demo language: problems, worked solutions to learn from, and a checker of answers.

Tokenizer, model, pretraining and training are the same for all languages. Every word is one token,
and prompts spell `<bos>` themselves.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ktae.errors import InputError
from ktae.grading.verdict import Outcome, Verdict

PAD, BOS, EOS = SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>")

HELD_OUT = 1024
"""Test problems that each language has; no training or pretraining problem is one of them."""


class Problem(NamedTuple):
    """A problem of some language."""

    prompt: str
    """The text that the model is given."""
    answer: int | str
    """The right answer, as the language's `extract_answer` gives it."""
    story: Any
    """What is asked, hashable: problems of one story differ only in names."""


class Environment(Protocol):
    """The world in which an agent acts turn by turn."""

    solved: bool
    """Whether the agent has done what was asked."""

    paid: float
    """The reward of the last turn, beside the outcome."""

    def act(self, move: str) -> str | None:
        """The observation after a turn, in words of the language; None: there is no next turn."""


@dataclass(frozen=True)
class Language:
    """A demo language. Importing one costs no torch."""

    name: str
    """Its name in recipes and commands."""
    version: str
    """Raise it whenever the texts for a seed change: cached base models are named after it."""
    vocabulary: tuple[str, ...]
    """Every token, in the order of its id; the special tokens come first."""
    max_response_length: int
    """The limit in tokens, `<eos>` included, that its base model is meant for."""
    pretraining_steps: int
    """Steps of pretraining after which its base model solves some problems, but not most."""
    salt: str
    """Part of every seed, so that no two languages draw alike."""
    random_problem: Callable[[random.Random], Problem]
    """Any problem, held out or not."""
    worked_solution: Callable[[Problem, random.Random], str]
    """A response for pretraining: noisy, often incorrect, with `<eos>` at its end."""
    extract_answer: Callable[[str], int | str | None]
    """The answer that a response states, or None."""
    environment: Callable[[str], Environment] | None = None
    """The environment of a prompt, for problems of several turns. Each turn ends with `<eos>` and
    is followed by an observation. None: there is one response."""

    def test_problems(self, n: int = 512) -> list[Problem]:
        """The first `n` test problems, always the same ones; no two tell the same story.

        Raises:
            InputError: `n` is not in 1..1024.
        """
        if not 1 <= n <= HELD_OUT:
            raise InputError(
                f"{n} test problems of the language {self.name}; expected 1 to {HELD_OUT}"
            )
        return list(_held_out(self).values())[:n]

    def train_problems(self, n: int, seed: int) -> list[Problem]:
        """`n` random problems for a seed, none of which tells a test problem's story."""
        rng = random.Random(f"{self.salt} problems {seed}")
        held_out = _held_out(self)
        problems: list[Problem] = []
        while len(problems) < n:
            problem = self.random_problem(rng)
            if problem.story not in held_out:
                problems.append(problem)
        return problems

    def is_correct(self, response: str, answer: int | str, finished: bool) -> bool:
        """Whether the answer is correct and the response ended with `<eos>` within the limit."""
        return self.verdict(response, answer, finished).outcome is Outcome.CORRECT

    def verdict(self, response: str, answer: int | str, finished: bool) -> Verdict:
        """Whether a response is correct, incorrect or unanswered, with the stated answer."""
        stated = self.extract_answer(response)
        if stated is None:
            return Verdict(Outcome.UNANSWERED)
        correct = finished and str(stated) == str(answer)  # one read from a file is text
        outcome = Outcome.CORRECT if correct else Outcome.INCORRECT
        return Verdict(outcome, str(stated), "the last answer" if finished else "cut off")


@functools.cache
def _held_out(language: Language) -> dict[Hashable, Problem]:
    rng = random.Random(f"{language.salt} test problems")
    problems: dict[Hashable, Problem] = {}
    while len(problems) < HELD_OUT:
        problem = language.random_problem(rng)
        problems.setdefault(problem.story, problem)
    return problems
