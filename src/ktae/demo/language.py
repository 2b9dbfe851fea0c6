"""What a demo language is: problems, worked solutions to learn from, and a checker of answers.

A language is one record; tokenizer, model, pretraining and training are the same for all of them.
Every word is one token, and prompts spell `<bos>` themselves.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Container, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ktae.errors import InputError
from ktae.grading.verdict import Outcome, Verdict

PAD, BOS, EOS = SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>")

HELD_OUT = 1024
"""Test problems that each language has; no training or pretraining problem is one of them."""


@dataclass(frozen=True)
class Size:
    """The shape of a base model and the settings that it is pretrained with."""

    name: str
    """As folders of base models are called by it."""
    hidden_size: int
    layers: int
    heads: int
    intermediate_size: int
    initializer_range: float
    """Standard deviation of the first weights."""
    batch: int
    """Worked solutions in a step of pretraining."""
    learning_rate: float
    """Of pretraining with AdamW, at its highest."""


TINY = Size(
    "tiny",
    hidden_size=64,
    layers=2,
    heads=4,
    intermediate_size=160,
    initializer_range=0.07,  # transformers' 0.02 suits wider models; here it learns far slower
    batch=32,
    learning_rate=4e-3,
)
"""About 99,000 parameters, for a CPU: pretrained in about a minute."""


class Problem(Protocol):
    """A problem of some language."""

    @property
    def prompt(self) -> str:
        """The text that the model is given."""

    @property
    def answer(self) -> int | str:
        """The right answer, as the language's `extract_answer` gives it."""

    @property
    def story(self) -> Hashable:
        """What is asked: two problems of the same story differ in no way that matters."""


class Environment(Protocol):
    """Where an agent acts, turn by turn, from a prompt on."""

    solved: bool
    """Whether the agent has done what was asked."""

    def act(self, move: str) -> str | None:
        """The observation after a turn, as text of the language; None: there is no next turn."""


P = TypeVar("P", bound=Problem)


@dataclass(frozen=True)
class Language(Generic[P]):
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
    random_problem: Callable[[random.Random], P]
    """Any problem, held out or not."""
    worked_solution: Callable[[P, random.Random], str]
    """A response as the base model learns it: noisy, often wrong, at its end `<eos>`."""
    extract_answer: Callable[[str], int | str | None]
    """The answer that a response arrives at, or None if it has none."""
    environment: Callable[[str], Environment] | None = None
    """Of a prompt, for problems that take several turns: each ends with `<eos>`, and what the
    environment says stands before the next (`ktae.demo.episodes`). None: there is one response."""
    size: Size = TINY
    """How large its base model is."""

    def test_problems(self, n: int = 512) -> list[P]:
        """The first `n` test problems, always the same ones; no two tell the same story.

        Raises:
            InputError: `n` is not in 1..1024.
        """
        if not 1 <= n <= HELD_OUT:
            raise InputError(
                f"{n} test problems of the language {self.name} asked for; expected 1 to {HELD_OUT}"
            )
        return list(_held_out(self).values())[:n]

    def train_problems(self, n: int, seed: int) -> list[P]:
        """`n` random problems for a seed, none of which tells a test problem's story."""
        rng = random.Random(f"{self.salt} problems {seed}")
        held_out = _held_out(self)
        problems: list[P] = []
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
def _held_out(language: Language[P]) -> dict[Hashable, P]:
    rng = random.Random(f"{language.salt} test problems")
    problems: dict[Hashable, P] = {}
    # The first problem of a story stays: later ones that tell the same are no new test.
    while len(problems) < HELD_OUT:
        problem = language.random_problem(rng)
        problems.setdefault(problem.story, problem)
    return problems


def geometric(phrases: Sequence[str], more: float, rng: random.Random) -> list[str]:
    """Geometrically many of the phrases: one more with probability `more` each time."""
    chosen = []
    while rng.random() < more:
        chosen.append(rng.choice(phrases))
    return chosen


def last_box(response: str, numbers: Container[str]) -> int | None:
    """The number in the last `box X }`, or None if there is no such box."""
    words = response.split()
    # From the end: a later box takes back an earlier one.
    for i in range(len(words) - 3, -1, -1):
        box, number, close = words[i : i + 3]
        if box == "box" and close == "}" and number in numbers:
            return int(number)
    return None


@dataclass(frozen=True)
class Manner:
    """How solvers write: perhaps a guess, else an opener and an attempt; then second thoughts,
    which are another attempt or a ramble that comes to nothing."""

    guess: float
    """Probability of a guess in the place of the first attempt."""
    opener: float
    another_opener: float
    """Probability of one more, each time."""
    openers: tuple[str, ...]
    rate: float
    """Probability of a doubt after each answer."""
    at_most: int
    doubts: tuple[str, ...]
    ramble_rate: float
    """Probability that a doubt leads to a ramble, and not to another attempt."""
    ramble: tuple[str, ...]
    """Its phrases."""
    ramble_lengths: tuple[int, int]
    """Fewest and most phrases of it."""

    def response(
        self,
        guess: Callable[[], list[str]],
        first: Callable[[], list[str]],
        again: Callable[[], list[str]],
        rng: random.Random,
    ) -> str:
        """A whole one, at its end `<eos>`; the functions give the phrases of a guess, of a first
        attempt and of another, each with its answer."""
        phrases: list[str] = []
        if rng.random() < self.guess:
            phrases += guess()
        else:
            if rng.random() < self.opener:
                phrases.append(rng.choice(self.openers))
                phrases += geometric(self.openers, self.another_opener, rng)
            phrases += first()
        for _ in range(self.at_most):
            if rng.random() >= self.rate:
                break
            phrases.append(rng.choice(self.doubts))
            # A ramble comes to nothing: it ends the response without another answer.
            if rng.random() < self.ramble_rate:
                n = rng.randint(*self.ramble_lengths)
                phrases += [rng.choice(self.ramble) for _ in range(n)]
                break
            phrases += again()
        return " ".join([*phrases, EOS])
