"""A language of word problems, richer than the sums: for a model of tens of millions of parameters.

Two or three people have things, get and lose them, and are compared:

    <bos> tom has 12 shells . ann has 5 more shells than tom . sam has 4 hats . ann gives tom 6
    shells . tom buys 2 bags of 8 shells . how many shells have tom and ann together ? <sol>

A worked solution keeps everybody's account of what is asked for, and passes over the rest:

    first , tom = 12 ; ann : 12 + 5 = 17 ; ann : 17 - 6 = 11 ; tom : 12 + 6 = 18 ; 2 * 8 = 16 ;
    tom : 18 + 16 = 34 ; together 34 + 11 = 45 ; so box 45 }

What goes wrong differs in kind from the other languages: something else is counted as well, who is
given a thing does not get it, "5 more than tom" is taken for 5, bags are counted for things, half
is taken for 2, and the question for another one. Numbers are 0 to 99, one token each.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ktae.demo.language import SPECIAL_TOKENS, Language, Manner, Size, geometric, last_box

LIMIT = 100
NUMBERS = tuple(str(number) for number in range(LIMIT))
NAMES = ("tom", "ann", "sam", "mia", "leo", "eva")
THINGS = ("apples", "coins", "shells", "stamps", "hats")

VOCABULARY: tuple[str, ...] = (
    *SPECIAL_TOKENS,
    "<sol>",
    *NUMBERS,
    *NAMES,
    *THINGS,
    *("has", "have", "finds", "loses", "gives", "buys", "bags", "of", "sells", "half"),
    *("more", "than", "twice", "as", "many", "how", "and", "together"),
    *("?", ".", ",", ":", ";", "!", "+", "-", "*", "/", "=", "box", "}"),
    *("so", "the", "answer", "is", "that", "makes", "first", "let", "us", "read", "again"),
    *("now", "then", "next", "hmm", "well", "good", "wait", "no", "wrong", "but", "check"),
    *("easy", "about", "surely"),
)

Kind = Literal["has", "more", "twice", "finds", "loses", "gives", "buys", "sells"]
Question = Literal["one", "together", "difference"]


@dataclass(frozen=True)
class Sentence:
    """What someone has or does; `n` and `m` are numbers, `other` is another person."""

    kind: Kind
    who: str
    thing: str
    n: int = 0
    m: int = 0
    other: str = ""

    @property
    def text(self) -> str:
        """The words of the prompt."""
        things = f"{self.n} {self.thing}"
        return {
            "has": f"{self.who} has {things} .",
            "more": f"{self.who} has {self.n} more {self.thing} than {self.other} .",
            "twice": f"{self.who} has twice as many {self.thing} as {self.other} .",
            "finds": f"{self.who} finds {things} .",
            "loses": f"{self.who} loses {things} .",
            "gives": f"{self.who} gives {self.other} {things} .",
            "buys": f"{self.who} buys {self.n} bags of {self.m} {self.thing} .",
            "sells": f"{self.who} sells half of the {self.thing} .",
        }[self.kind]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What it means for the accounts."""
        return {
            "has": (Entry(self.who, "", "", self.n),),
            "more": (Entry(self.who, self.other, "+", self.n),),
            "twice": (Entry(self.who, self.other, "*", 2),),
            "finds": (Entry(self.who, self.who, "+", self.n),),
            "loses": (Entry(self.who, self.who, "-", self.n),),
            "gives": (
                Entry(self.who, self.who, "-", self.n),
                Entry(self.other, self.other, "+", self.n),
            ),
            "buys": (Entry(self.who, self.who, "+", self.n, bags_of=self.m),),
            "sells": (Entry(self.who, self.who, "/", 2),),
        }[self.kind]


class Entry(NamedTuple):
    """One change of an account: `who` has then what `source` had, `sign` `n`; just `n` without."""

    who: str
    source: str
    sign: Literal["", "+", "-", "*", "/"]
    n: int
    bags_of: int = 0

    @property
    def amount(self) -> int:
        """The number after the sign, bags multiplied out."""
        return self.n * self.bags_of if self.bags_of else self.n

    def exact(self, accounts: dict[str, int]) -> int:
        """What `who` has afterwards; half of an odd number is rounded down."""
        left = accounts.get(self.source, 0)
        return {
            "": self.amount,
            "+": left + self.amount,
            "-": left - self.amount,
            "*": left * self.amount,
            "/": left // 2,
        }[self.sign]

    def result(self, accounts: dict[str, int]) -> int:
        """The same in 0..99, a range that a solver who erred before may leave."""
        return self.exact(accounts) % LIMIT

    def written(self, accounts: dict[str, int], result: int) -> str:
        """The entry as a step of a solution, whether `result` is right or not."""
        if not self.sign:
            return f"{self.who} = {result}"
        bags = f"{self.n} * {self.bags_of} = {self.amount} ; " if self.bags_of else ""
        left = accounts.get(self.source, 0)
        return f"{bags}{self.who} : {left} {self.sign} {self.amount} = {result}"


@dataclass(frozen=True)
class StoriesProblem:
    """Sentences and a question about one kind of thing; the answer is a number in 0..99."""

    sentences: tuple[Sentence, ...]
    question: Question
    thing: str
    first: str
    second: str

    @property
    def prompt(self) -> str:
        """The text that the model is given."""
        asked = {
            "one": f"how many {self.thing} has {self.first} ?",
            "together": f"how many {self.thing} have {self.first} and {self.second} together ?",
            "difference": f"how many more {self.thing} has {self.first} than {self.second} ?",
        }[self.question]
        return f"<bos> {' '.join(sentence.text for sentence in self.sentences)} {asked} <sol>"

    @property
    def answer(self) -> int:
        """The right result."""
        return self.exact(_accounts(self.relevant), self.question)

    @property
    def relevant(self) -> tuple[Sentence, ...]:
        """The sentences about what is asked for."""
        return tuple(s for s in self.sentences if s.thing == self.thing)

    def exact(self, accounts: dict[str, int], question: Question) -> int:
        """What the accounts say to a question about these people."""
        first, second = accounts.get(self.first, 0), accounts.get(self.second, 0)
        return {"one": first, "together": first + second, "difference": first - second}[question]

    @property
    def story(self) -> tuple[str, ...]:
        """The prompt with people and things numbered as they come: their names do not matter."""
        seen: dict[str, str] = {}
        words = self.prompt.split()
        return tuple(
            seen.setdefault(w, f"#{len(seen)}") if w in NAMES or w in THINGS else w for w in words
        )


def _accounts(sentences: tuple[Sentence, ...]) -> dict[str, int]:
    """What everybody has in the end."""
    accounts: dict[str, int] = {}
    for sentence in sentences:
        for entry in sentence.entries:
            accounts[entry.who] = entry.result(accounts)
    return accounts


def random_problem(rng: random.Random) -> StoriesProblem:
    """Two or three people and two to four things that happen, one in four to something else.

    Nobody ever has fewer than 0 or more than 99, and only an even number is halved.
    """
    while True:
        people = rng.sample(NAMES, rng.randint(2, 3))
        thing, other_thing = rng.sample(THINGS, 2)
        sentences = [*_beginnings(people, thing, rng)]
        for _ in range(rng.randint(2, 4)):
            about = other_thing if rng.random() < 0.25 else thing
            sentences.append(_event(people, about, rng))
        first, second = rng.sample(people, 2)
        question: Question = rng.choice(("one", "together", "difference"))
        problem = StoriesProblem(tuple(sentences), question, thing, first, second)
        if _stays_in_range(problem):
            return problem


def _beginnings(people: list[str], thing: str, rng: random.Random) -> Iterator[Sentence]:
    """What each of them has at first; all but the first one perhaps compared to the one before."""
    for i, who in enumerate(people):
        kind: Kind = rng.choice(("has", "has", "more", "twice")) if i else "has"
        n = rng.randint(2, 9) if kind == "more" else rng.randint(2, 30)
        other = "" if kind == "has" else people[i - 1]
        yield Sentence(kind, who, thing, 0 if kind == "twice" else n, other=other)


def _event(people: list[str], thing: str, rng: random.Random) -> Sentence:
    kind: Kind = rng.choice(("finds", "loses", "gives", "gives", "buys", "sells"))
    who, other = rng.sample(people, 2)
    if kind == "buys":
        return Sentence(kind, who, thing, rng.randint(2, 5), rng.randint(2, 9))
    if kind == "sells":
        return Sentence(kind, who, thing)
    n = rng.randint(2, 15)
    return Sentence(kind, who, thing, n, other=other if kind == "gives" else "")


def _stays_in_range(problem: StoriesProblem) -> bool:
    accounts: dict[str, int] = {}
    for entry in (entry for sentence in problem.relevant for entry in sentence.entries):
        odd_half = entry.sign == "/" and accounts[entry.source] % 2
        if odd_half or not 0 <= entry.exact(accounts) < LIMIT:
            return False
        accounts[entry.who] = entry.exact(accounts)
    return 0 <= problem.exact(accounts, problem.question) < LIMIT


# How worked solutions are written: probabilities first, then phrases.

FILLER = 0.12
MISCONCEPTIONS: dict[Kind, float] = {"more": 0.5, "gives": 0.5, "buys": 0.5, "sells": 0.4}
COUNTS_ALL, WRONG_QUESTION = 0.40, 0.10
REDO_WRONG, REDO_RIGHT = 0.50, 0.04

SLIPS = (1, -1, 2, -2, 10, -10)
OPENERS = ("let us read .", "let us read .", "first ,", "good ,", "well ,", "now ,")
FILLERS = ("then", "next ,", "now", "so", "that makes", "hmm ,")
CONCLUSIONS = ("so", "the answer is", "that makes")
MANNER = Manner(
    guess=0.06,
    opener=0.70,
    another_opener=0.25,
    openers=OPENERS,
    rate=0.30,
    at_most=2,
    doubts=("but wait ,", "let us check .", "hmm , again ."),
    ramble_rate=0.12,
    ramble=FILLERS,
    ramble_lengths=(10, 35),
)


class _Care(NamedTuple):
    """How carefully a chain is worked: probabilities for each entry."""

    skip: float
    slip: float


_FIRST_TRY = _Care(skip=0.02, slip=0.03)
_SECOND_TRY = _Care(skip=0.04, slip=0.06)


def worked_solution(problem: StoriesProblem, rng: random.Random) -> str:
    """A response as the base model learns it: noisy, often wrong, at its end `<eos>`."""
    return MANNER.response(
        lambda: _guess(problem, rng),
        lambda: _boxed(*_chain(problem, rng, _FIRST_TRY), rng),
        lambda: _boxed(*_chain(problem, rng, _SECOND_TRY), rng),
        rng,
    )


def _guess(problem: StoriesProblem, rng: random.Random) -> list[str]:
    """`easy ! about box 45 }`: from a chain in the head half of the time, else near it."""
    _, value = _chain(problem, rng, _SECOND_TRY)
    if rng.random() < 0.5:
        value = (value + rng.randint(-9, 9)) % LIMIT
    hedge = rng.choice((["about"], ["surely"], []))
    return ["easy", rng.choice("!,."), *hedge, f"box {value} }}"]


def _boxed(steps: list[str], value: int, rng: random.Random) -> list[str]:
    return [*steps, rng.choice(CONCLUSIONS), f"box {value} }}"]


def _chain(problem: StoriesProblem, rng: random.Random, care: _Care) -> tuple[list[str], int]:
    """The accounts from the first sentence to an answer, each entry right or wrong."""
    phrases: list[str] = []
    accounts: dict[str, int] = {}
    counts_all = rng.random() < COUNTS_ALL
    for sentence in problem.sentences if counts_all else problem.relevant:
        for entry in _understood(sentence, rng):
            if rng.random() < care.skip:
                continue
            phrases += [*geometric(FILLERS, FILLER, rng), *_entered(entry, accounts, rng, care)]
    question = problem.question
    if rng.random() < WRONG_QUESTION:
        question = rng.choice(("one", "together", "difference"))
    value = problem.exact(accounts, question) % LIMIT
    if question != "one":
        first, second = accounts.get(problem.first, 0), accounts.get(problem.second, 0)
        word, sign = ("together", "+") if question == "together" else ("more", "-")
        value = _slipped(value, rng, care)
        phrases.append(f"{word} {first} {sign} {second} = {value} ;")
    return phrases, value


def _entered(entry: Entry, accounts: dict[str, int], rng: random.Random, care: _Care) -> list[str]:
    """One entry, perhaps done again; the account changes."""
    phrases = []
    result = _slipped(entry.result(accounts), rng, care)
    phrases.append(entry.written(accounts, result))
    wrong = result != entry.result(accounts)
    if rng.random() < (REDO_WRONG if wrong else REDO_RIGHT):
        phrases.append("wait , no ," if rng.random() < 0.5 else "that is wrong .")
        result = _slipped(entry.result(accounts), rng, care)
        phrases.append(entry.written(accounts, result))
    accounts[entry.who] = result
    return [*phrases, ";"]


def _slipped(result: int, rng: random.Random, care: _Care) -> int:
    return (result + rng.choice(SLIPS)) % LIMIT if rng.random() < care.slip else result


def _understood(sentence: Sentence, rng: random.Random) -> tuple[Entry, ...]:
    """The entries that the solver makes of a sentence, which need not be the right ones."""
    entries = sentence.entries
    if rng.random() >= MISCONCEPTIONS.get(sentence.kind, 0.0):
        return entries
    entry = entries[0]
    return {
        "more": (Entry(entry.who, "", "", entry.n),),
        "gives": entries[:1],
        "buys": (entry._replace(bags_of=0),),
        "sells": (Entry(entry.who, entry.who, "-", 2),),
    }[sentence.kind]


MEDIUM = Size(
    "medium",
    hidden_size=512,
    layers=8,
    heads=8,
    intermediate_size=1408,
    initializer_range=0.02,
    batch=128,
    learning_rate=5e-4,
    for_gpu=True,
)
"""About 26 million parameters, for a GPU."""

STORIES = Language(
    name="stories",
    version="1",
    about="word problems about who has how many",
    vocabulary=VOCABULARY,
    max_response_length=128,
    pretraining_steps=4000,
    salt="ktae demo stories",
    random_problem=random_problem,
    worked_solution=worked_solution,
    extract_answer=lambda response: last_box(response, NUMBERS),
    size=MEDIUM,
)
