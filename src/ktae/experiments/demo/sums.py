"""A language of small sums and of people who solve them noisily.

A problem names someone who has a number and two to four things that happen to it, modulo 20:

    <bos> tom has 7 . gets 5 . triples . how many ? <sol>

A worked solution is how the base model learns to answer: mostly step by step, with filler, slips,
second thoughts and two misconceptions (triples taken for doubles, gives taken for gets):

    ok , 7 + 5 = 12 ; so we have 12 * 2 = 4 wait , 12 * 3 = 16 ; the answer is box 16 } <eos>

The answer is the last box. Every word and every number is one token; prompts spell `<bos>`
themselves. This module needs no torch.
"""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from ktae.grading.verdict import Outcome, Verdict

VERSION = "1"
"""Raise it whenever the texts for a seed change: cached base models are named after it."""
SALT = "ktae demo"
"""Part of every seed."""
HELD_OUT = 1024
"""Test problems; no training or pretraining problem is one of them."""
MAX_RESPONSE_LENGTH = 64
"""The limit in tokens, `<eos>` included, that the base model is meant for."""

PAD, BOS, EOS = SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>")
MODULUS = 20
NAMES = ("tom", "ann", "sam", "mia")
NUMBERS = tuple(str(number) for number in range(MODULUS))

VOCABULARY: tuple[str, ...] = (
    *SPECIAL_TOKENS,
    "<sol>",
    *NUMBERS,
    *NAMES,
    *("has", "gets", "finds", "loses", "gives", "doubles", "triples", "flips"),
    *("how", "many", "?", ".", ",", ";", "!", "+", "-", "*", "=", "box", "}"),
    *("so", "the", "answer", "is", "total"),
    *("let", "me", "think", "check", "ok", "well", "hmm", "now", "then", "next", "we", "have"),
    *("but", "wait", "that", "wrong", "again", "easy", "just", "maybe"),
)


Sum = tuple[Literal["+", "-", "*", "0-"], int]
"""One sum on the value so far: `value sign n`, or `0 - value`."""
DOUBLE: Sum = ("*", 2)
TRIPLE: Sum = ("*", 3)
FLIP: Sum = ("0-", 0)
FIXED = {"doubles": DOUBLE, "triples": TRIPLE, "flips": FLIP}
"""The meaning of verbs without a number."""
ADDS = ("gets", "finds")
"""Those of the other verbs that add; `loses` and `gives` subtract."""


def _meaning(verb: str, n: int) -> Sum:
    return FIXED.get(verb) or ("+" if verb in ADDS else "-", n)


def _result(value: int, meaning: Sum) -> int:
    sign, n = meaning
    return {"+": value + n, "-": value - n, "*": value * n, "0-": -value}[sign] % MODULUS


class Problem(NamedTuple):
    """A problem, with the text that the model is given."""

    prompt: str
    answer: int
    story: tuple[int, tuple[tuple[str, int], ...]]
    """The first number and what happens, verbs with a number from 1 to 9 (`gets 5`) or with 0
    (`triples`): problems of one story differ only in names."""


@functools.cache
def _held_out() -> dict[object, Problem]:
    rng = random.Random(f"{SALT} test problems")
    problems: dict[object, Problem] = {}
    while len(problems) < HELD_OUT:
        problem = random_problem(rng)
        problems.setdefault(problem.story, problem)
    return problems


def held_out_problems(n: int = 512) -> list[Problem]:
    """The first `n` of 1,024 test problems, always the same ones; no two tell the same story."""
    return list(_held_out().values())[:n]


def train_problems(n: int, seed: int) -> list[Problem]:
    """`n` random problems for a seed, none of which tells a test problem's story."""
    rng = random.Random(f"{SALT} problems {seed}")
    problems: list[Problem] = []
    while len(problems) < n:
        problem = random_problem(rng)
        if problem.story not in _held_out():
            problems.append(problem)
    return problems


def random_problem(rng: random.Random) -> Problem:
    """A problem of two to four operations, each kind of operation equally likely."""
    kinds = (("gets", "finds"), ("loses", "gives"), ("doubles",), ("triples",), ("flips",))
    operations = []
    for _ in range(rng.randint(2, 4)):
        verbs = rng.choice(kinds)
        verb = rng.choice(verbs)
        operations.append((verb, rng.randint(1, 9) if len(verbs) == 2 else 0))
    name, start = rng.choice(NAMES), rng.randrange(MODULUS)
    value = start
    for operation in operations:
        value = _result(value, _meaning(*operation))
    events = " ".join(f"{verb} {n} ." if n else f"{verb} ." for verb, n in operations)
    prompt = f"<bos> {name} has {start} . {events} how many ? <sol>"
    # The name is no part of the story.
    return Problem(prompt, value, (start, tuple(operations)))


def grade(response: str, answer: int | str, finished: bool) -> Verdict:
    """Whether the last answer is correct and the response ended with `<eos>` within the limit."""
    stated = extract_answer(response)
    if stated is None:
        return Verdict(Outcome.UNANSWERED)
    correct = finished and str(stated) == str(answer)  # one read from a file is text
    outcome = Outcome.CORRECT if correct else Outcome.INCORRECT
    return Verdict(outcome, str(stated), "the last answer" if finished else "cut off")


def extract_answer(response: str) -> int | None:
    """The number in the last `box X }`, or None if there is no such box."""
    boxes = re.findall(r"(?<!\S)box\s+(\S+)\s+\}(?!\S)", response)
    numbers = [int(number) for number in boxes if number in NUMBERS]
    return numbers[-1] if numbers else None


# Probabilities in worked solutions. Forgetting an operation, misreading it and a wrong result are
# multiplied by the haste.
SKIP, MISREAD, SLIP = 0.03, 0.05, 0.06
LUCKY_GUESS = 0.30
FILLER, AGAIN = 0.25, 0.08
MISCONCEPTIONS = {"triples": 0.80, "gives": 0.75}
REDO_WRONG, REDO_RIGHT = 0.50, 0.06

SLIPS = (1, -1, 2, -2, 10, -10)
FILLERS = ("now", "then", "next ,", "so we have", "hmm ,", "well ,")
CONCLUSIONS = ("so", "the answer is", "total")
# A guess instead of the first attempt, an opener and one more each time, a doubt after each answer,
# and a ramble after the doubt instead of another attempt.
GUESS, OPENER, ANOTHER_OPENER, DOUBT, RAMBLE = 0.08, 0.85, 0.30, 0.35, 0.12
OPENERS = ("let me think .", "let me think .", "ok ,", "well ,", "hmm ,", "now ,", "so ,")
DOUBTS = ("but wait ,", "let me check .", "hmm , again .")
RAMBLE_LENGTHS = (8, 30)


def worked_solution(problem: Problem, rng: random.Random) -> str:
    """A response for pretraining: noisy, often incorrect, with `<eos>` at its end."""

    def guess() -> list[str]:
        # `easy ! maybe box 7 }`: at times correct, else half from a chain in the head, half random
        if rng.random() < LUCKY_GUESS:
            value = problem.answer
        elif rng.random() < 0.5:
            _, value = _chain(problem, rng, haste=1)
        else:
            value = rng.randrange(MODULUS)
        hedge = rng.choice((["just"], ["maybe"], []))
        return ["easy", rng.choice("!,."), *hedge, f"box {value} }}"]

    def attempt(haste: int) -> list[str]:
        steps, value = _chain(problem, rng, haste)
        return [*steps, rng.choice(CONCLUSIONS), f"box {value} }}"]

    phrases: list[str] = []
    if rng.random() < GUESS:
        phrases += guess()
    else:
        if rng.random() < OPENER:
            phrases.append(rng.choice(OPENERS))
            phrases += _geometric(OPENERS, ANOTHER_OPENER, rng)
        phrases += attempt(1)
    for _ in range(2):  # second thoughts at most
        if rng.random() >= DOUBT:
            break
        phrases.append(rng.choice(DOUBTS))
        # A ramble comes to nothing: it ends the response without another answer.
        if rng.random() < RAMBLE:
            phrases += [rng.choice(FILLERS) for _ in range(rng.randint(*RAMBLE_LENGTHS))]
            break
        phrases += attempt(2)
    return " ".join([*phrases, EOS])


def _geometric(phrases: Sequence[str], more: float, rng: random.Random) -> list[str]:
    """Random phrases: one more with probability `more` each time."""
    chosen = []
    while rng.random() < more:
        chosen.append(rng.choice(phrases))
    return chosen


def _chain(problem: Problem, rng: random.Random, haste: int) -> tuple[list[str], int]:
    """The steps from the start to a result, each from the one before, correct or not."""
    phrases: list[str] = []
    value, operations = problem.story
    for operation in operations:
        if rng.random() < SKIP * haste:
            continue  # forgotten
        phrases += _geometric(FILLERS, FILLER, rng)
        step, result = _step(operation, value, rng, haste)
        phrases.append(step)
        # A solver notices a mistake far more often than they doubt what is correct.
        wrong = result != _result(value, _meaning(*operation))
        if rng.random() < (REDO_WRONG if wrong else REDO_RIGHT):
            phrases.append("wait ,")
            if rng.random() < 0.5:
                phrases.append("that is wrong .")
            # Another attempt with the same beliefs, so a misconception often comes again.
            step, result = _step(operation, value, rng, haste)
            phrases.append(step)
        phrases.append(";")
        # Words that change nothing, which credit has to see through.
        if rng.random() < AGAIN:
            phrases += ["again", step, ";"]
        value = result
    return phrases, value


def _step(
    operation: tuple[str, int], value: int, rng: random.Random, haste: int
) -> tuple[str, int]:
    """One attempt at one operation: its text, and the result it arrives at."""
    verb, n = operation
    understood = _meaning(verb, n)
    if rng.random() < MISCONCEPTIONS.get(verb, 0.0):
        understood = DOUBLE if verb == "triples" else ("+", n)
    if rng.random() < MISREAD * haste:
        if understood in (FLIP, TRIPLE):
            understood = DOUBLE
        elif understood == DOUBLE:
            understood = TRIPLE
        else:
            understood = ("-" if understood[0] == "+" else "+", n)
    result = _result(value, understood)
    if rng.random() < SLIP * haste:
        result = (result + rng.choice(SLIPS)) % MODULUS
    left = f"0 - {value}" if understood == FLIP else f"{value} {understood[0]} {understood[1]}"
    return f"{left} = {result}", result
