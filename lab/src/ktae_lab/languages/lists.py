"""A language of short lists of letters and of people who rearrange them noisily.

A problem gives a list and two to four operations on it:

    <bos> list c a f . reverse . append d . right . result ? <sol>

A worked solution writes the whole list anew after each step, copying it from the step before:

    let us see . reverse : f a c ; and append d : f a c d ; right : d f a c ; answer [ d f a c ]

It differs from the sums in kind: answers are sequences, every step copies, and other things go
wrong. Letters get lost, doubled or exchanged on the way; four operations are taken for others
(right for left, prepend for append, curtail for behead, and swap for reverse, which is the same on
a list of three); and two operations done at once are half of the time only one of them. The answer
is the last list in brackets. Every word and every letter is one token.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from ktae.demo.language import SPECIAL_TOKENS, Language, Manner, Problem, geometric

LETTERS = tuple("abcdefgh")
SHORTEST, LONGEST = 2, 4
N_OPERATIONS = (2, 2, 3, 3, 4)  # each as likely: the base model rarely solves four

Items = tuple[str, ...]

MEANINGS: dict[str, Callable[[Items, str], Items]] = {
    "reverse": lambda items, _: items[::-1],
    "sort": lambda items, _: tuple(sorted(items)),
    "behead": lambda items, _: items[1:],
    "curtail": lambda items, _: items[:-1],
    "left": lambda items, _: items[1:] + items[:1],
    "right": lambda items, _: items[-1:] + items[:-1],
    "append": lambda items, letter: (*items, letter),
    "prepend": lambda items, letter: (letter, *items),
    "swap": lambda items, _: items[-1:] + items[1:-1] + items[: len(items) > 1],
    "echo": lambda items, _: items + items[-1:],
}
"""What each verb does to a list; `swap` exchanges first and last."""

WITH_LETTER = ("append", "prepend")

VOCABULARY: tuple[str, ...] = (
    *SPECIAL_TOKENS,
    "<sol>",
    *LETTERS,
    *MEANINGS,
    *("list", "result", "?", ".", ",", ":", ";", "[", "]"),
    *("answer", "finally", "in", "the", "end", "it", "is"),
    *("let", "us", "see", "start", "here", "fine", "good", "first", "of", "all"),
    *("after", "that", "and", "go", "on", "um", "then", "this", "far"),
    *("oops", "no", "hold", "to", "be", "sure", "not", "yet", "guess", "perhaps", "surely"),
)


@dataclass(frozen=True)
class Operation:
    """A verb, with a letter (`append d`) or without (`reverse`)."""

    verb: str
    letter: str = ""

    @property
    def text(self) -> str:
        """The words, in the prompt and in a step."""
        return f"{self.verb} {self.letter}" if self.letter else self.verb

    def result(self, items: Items) -> Items:
        """What the operation makes of a list."""
        return MEANINGS[self.verb](items, self.letter)


def problem_of(start: Items, *operations: Operation) -> Problem:
    """A list and what is done to it; the answer is the list at the end, its letters spaced."""
    items = start
    for operation in operations:
        items = operation.result(items)
    things = " ".join(f"{operation.text} ." for operation in operations)
    prompt = f"<bos> list {' '.join(start)} . {things} result ? <sol>"
    return Problem(prompt, " ".join(items), (start, operations))


def random_problem(rng: random.Random) -> Problem:
    """Three or four different letters and two to four operations; lists keep 2 to 4 letters."""
    start = items = tuple(rng.sample(LETTERS, rng.randint(3, 4)))
    operations: list[Operation] = []
    n = rng.choice(N_OPERATIONS)
    while len(operations) < n:
        verb = rng.choice(tuple(MEANINGS))
        operation = Operation(verb, rng.choice(LETTERS) if verb in WITH_LETTER else "")
        if SHORTEST <= len(operation.result(items)) <= LONGEST:
            operations.append(operation)
            items = operation.result(items)
    return problem_of(start, *operations)


def extract_answer(response: str) -> str | None:
    """The letters of the last `[ ... ]`, spaced, or None if no brackets hold letters alone."""
    words = response.split()
    for i in range(len(words) - 1, -1, -1):
        if words[i] != "[":
            continue
        inside = words[i + 1 : words.index("]", i)] if "]" in words[i:] else []
        if inside and all(word in LETTERS for word in inside):
            return " ".join(inside)
    return None


# How worked solutions are written: probabilities first, then phrases.

SKIP, SLIP = 0.01, 0.02  # times the haste
FILLER, SO_FAR = 0.18, 0.04
MISCONCEPTIONS = {
    "right": ("left", 0.60),
    "prepend": ("append", 0.60),
    "swap": ("reverse", 0.60),
    "curtail": ("behead", 0.60),
}
TWO_AT_ONCE, ONE_FORGOTTEN = 0.12, 0.50
REDO_WRONG, REDO_RIGHT = 0.50, 0.04

FILLERS = ("after that", "and", "then", "go on ,", "um ,", "this is it :")
CONCLUSIONS = ("answer", "finally", "in the end it is")
MANNER = Manner(
    guess=0.06,
    opener=0.70,
    another_opener=0.25,
    doubt=0.20,
    ramble=0.12,
    openers=(
        *("let us see .", "let us see .", "start here :"),
        *("fine ,", "good ,", "first of all ,"),
    ),
    doubts=("hold on ,", "to be sure :", "not yet ."),
    rambles=FILLERS,
    ramble_lengths=(10, 35),
)


def worked_solution(problem: Problem, rng: random.Random) -> str:
    """A response as the base model learns it: noisy, often wrong, at its end `<eos>`."""

    def attempt(haste: int) -> list[str]:
        steps, items = _chain(problem, rng, haste)
        return [*steps, rng.choice(CONCLUSIONS), _boxed(items)]

    return MANNER.response(lambda: _guess(problem, rng), attempt, rng)


def _guess(problem: Problem, rng: random.Random) -> list[str]:
    """`guess : perhaps [ c a f ]`: a chain in the head, shuffled half of the time."""
    _, items = _chain(problem, rng, haste=2)
    if rng.random() < 0.5:
        items = tuple(rng.sample(items, len(items)))
    return ["guess", rng.choice(":,"), *rng.choice((["perhaps"], ["surely"], [])), _boxed(items)]


def _boxed(items: Items) -> str:
    return f"[ {' '.join(items)} ]"


def _chain(problem: Problem, rng: random.Random, haste: int) -> tuple[list[str], Items]:
    """The steps from the start to a list, each working on the one before, right or wrong."""
    phrases: list[str] = []
    items, operations = problem.story
    waiting = list(operations)
    while waiting:
        n = 2 if len(waiting) > 1 and rng.random() < TWO_AT_ONCE else 1
        todo, waiting = waiting[:n], waiting[n:]
        if rng.random() < SKIP * haste:
            continue
        phrases += geometric(FILLERS, FILLER, rng)
        result = _attempt(todo, items, rng, haste)
        phrases.append(_written(todo, result))
        wrong = result != _done(todo, items)
        if rng.random() < (REDO_WRONG if wrong else REDO_RIGHT):
            phrases += ["oops ,"] if rng.random() < 0.5 else ["oops , no good ."]
            result = _attempt(todo, items, rng, haste)
            phrases.append(_written(todo, result))
        phrases.append(";")
        items = result
        if rng.random() < SO_FAR:
            phrases += ["this far :", *items, ";"]
    return phrases, items


def _written(operations: list[Operation], result: Items) -> str:
    """`reverse : f a c`, or `reverse then right : c f a` for two at once."""
    return f"{' then '.join(o.text for o in operations)} : {' '.join(result)}"


def _done(operations: list[Operation], items: Items) -> Items:
    """What the operations make of the list; after mistakes, one letter can be too few for them."""
    for operation in operations:
        items = operation.result(items) or items
    return items


def _attempt(operations: list[Operation], items: Items, rng: random.Random, haste: int) -> Items:
    """The list that the solver arrives at, which need not be the right one; never empty."""
    if len(operations) > 1 and rng.random() < ONE_FORGOTTEN:
        operations = [rng.choice(operations)]
    result = _done([_understood(operation, rng) for operation in operations], items)
    return _slipped(result, rng) if rng.random() < SLIP * haste else result


def _understood(operation: Operation, rng: random.Random) -> Operation:
    """The operation that the solver does: four verbs are mostly taken for another."""
    verb, rate = MISCONCEPTIONS.get(operation.verb, (operation.verb, 0.0))
    return Operation(verb, operation.letter) if rng.random() < rate else operation


def _slipped(items: Items, rng: random.Random) -> Items:
    """One letter lost, doubled or replaced, or two neighbours exchanged."""
    i = rng.randrange(len(items))
    changed = {
        "lost": items[:i] + items[i + 1 :],
        "doubled": items[: i + 1] + items[i:],
        "replaced": (*items[:i], rng.choice(LETTERS), *items[i + 1 :]),
        "exchanged": (*items[:i], *reversed(items[i : i + 2]), *items[i + 2 :]),
    }
    return changed[rng.choice(tuple(changed))] or items


LISTS = Language(
    name="lists",
    version="1",
    vocabulary=VOCABULARY,
    max_response_length=64,
    pretraining_steps=1000,
    salt="ktae demo lists",
    random_problem=random_problem,
    worked_solution=worked_solution,
    extract_answer=extract_answer,
)
