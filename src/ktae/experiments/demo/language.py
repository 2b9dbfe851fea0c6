"""What a demo language is: problems, worked solutions to learn from, and a checker of answers.

A language is one record; tokenizer, model, pretraining and training are the same for all of them.
Every word is one token, and prompts spell `<bos>` themselves.
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
    """What is asked, hashable: two problems of the same story differ in no way that matters."""


class Environment(Protocol):
    """Where an agent acts, turn by turn, from a prompt on."""

    solved: bool
    """Whether the agent has done what was asked."""

    paid: float
    """The reward of the last turn, beside the outcome."""

    def act(self, move: str) -> str | None:
        """The observation after a turn, as text of the language; None: there is no next turn."""


@dataclass(frozen=True)
class Language:
    """A demo language. Importing one costs no torch."""

    name: str
    """As recipes and commands call it."""
    version: str
    """To be raised with every change of what it says for a seed: base models are kept by it."""
    vocabulary: tuple[str, ...]
    """Every token, in the order of its id; the special tokens come first."""
    max_response_length: int
    """The limit in tokens, `<eos>` included, that its base model is meant for."""
    pretraining_steps: int
    """Steps of pretraining after which its base model solves some problems, and not most."""
    salt: str
    """Begins every seed of its problems, so that no two languages draw alike."""
    random_problem: Callable[[random.Random], Problem]
    """Any problem, held out or not."""
    worked_solution: Callable[[Problem, random.Random], str]
    """A response as the base model learns it: noisy, often wrong, at its end `<eos>`."""
    extract_answer: Callable[[str], int | str | None]
    """The answer that a response arrives at, or None if it has none."""
    environment: Callable[[str], Environment] | None = None
    """The environment of a prompt, for problems of several turns: each ends with `<eos>`, and
    what the environment says stands before the next. None: there is one response."""

    def test_problems(self, n: int = 512) -> list[Problem]:
        """The first `n` test problems, always the same ones; no two tell the same story.

        Raises:
            InputError: `n` is not in 1..1024.
        """
        if not 1 <= n <= HELD_OUT:
            raise InputError(
                f"{n} test problems of the language {self.name} asked for; expected 1 to {HELD_OUT}"
            )
        return list(_held_out(self).values())[:n]

    def train_problems(self, n: int, seed: int) -> list[Problem]:
        """`n` random problems for a seed, none of which tells a test problem's story."""
        rng = random.Random(f"{self.salt} problems {seed}")
        held_out = _held_out(self)
        problems: list[Problem] = []
        while len(problems) < n:
            problem = self.random_problem(rng)
            # A test problem under another name would be the same one.
            if problem.story not in held_out:
                problems.append(problem)
        return problems

    def is_correct(self, response: str, answer: int | str, finished: bool) -> bool:
        """Whether the answer is right and the response came to its `<eos>` within the limit."""
        return self.verdict(response, answer, finished).outcome is Outcome.CORRECT

    def verdict(self, response: str, answer: int | str, finished: bool) -> Verdict:
        """The same with the stated answer: correct, incorrect or unanswered.

        Answers are compared as they are written: one read from a file may be text.
        """
        stated = self.extract_answer(response)
        if stated is None:
            return Verdict(Outcome.UNANSWERED)
        right = finished and str(stated) == str(answer)
        outcome = Outcome.CORRECT if right else Outcome.INCORRECT
        return Verdict(outcome, str(stated), "the last answer" if finished else "cut off")


@functools.cache
def _held_out(language: Language) -> dict[Hashable, Problem]:
    rng = random.Random(f"{language.salt} test problems")
    problems: dict[Hashable, Problem] = {}
    # The first problem of a story stays: later ones that tell the same are no new test.
    while len(problems) < HELD_OUT:
        problem = language.random_problem(rng)
        problems.setdefault(problem.story, problem)
    return problems
