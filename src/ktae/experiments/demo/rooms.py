"""A language of houses, in which an agent fetches a key and opens a door, one move a turn.

A problem is a house of five rooms, where in it key and door are, and where the agent stands:

    <bos> hall attic , attic cellar , attic study , study garden . key in cellar . door in garden .
    <saw> hall , to attic , see nothing , have nothing <do>

The policy answers `go attic <eos>`, and the house says what is seen then, up to the next `<do>`.
The door is opened by `open door` in its room, with the key, within eight turns; nothing else is
right. What cannot be done changes nothing. Every word is one token.

The base model learns from agents that wander, walk past the key and pull at locked doors.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from ktae.experiments.demo.language import EOS, SPECIAL_TOKENS, Language, Problem

N_ROOMS = 5
SHORTEST, LONGEST = 3, 8
"""Turns: of the quickest way that a problem may have, and of an episode."""

ROOMS = ("hall", "kitchen", "cellar", "attic", "study", "garden", "library", "tower")
SAW, DO = "<saw>", "<do>"
OPEN = "open"
VOCABULARY: tuple[str, ...] = (
    *SPECIAL_TOKENS,
    *(SAW, DO),
    *ROOMS,
    *("go", "take", OPEN, "key", "door", "in", "to", "see", "have", "nothing", ".", ","),
)


class House(NamedTuple):
    """The story of a problem; solved is it where the door is open."""

    doorways: tuple[tuple[str, str], ...]
    """Rooms that one can walk between, both ways; they make a tree."""
    key: str
    door: str
    start: str

    def prompt(self) -> str:
        """The text that the model is given."""
        plan = " , ".join(f"{a} {b}" for a, b in self.doorways)
        first = self.seen(self.start, has_key=False)
        return f"<bos> {plan} . key in {self.key} . door in {self.door} . {first}"

    def beside(self, room: str) -> list[str]:
        """The rooms that one can go to, in the order of the prompt."""
        return [b if a == room else a for a, b in self.doorways if room in (a, b)]

    def steps(self, room: str, goal: str) -> int:
        """Moves on the way from one room to another."""
        seen, distance = {room}, 0
        while goal not in seen:
            seen |= {other for known in seen for other in self.beside(known)}
            distance += 1
        return distance

    def turns(self) -> int:
        """Turns that the quickest way takes: to the key, take it, to the door, open it."""
        return self.steps(self.start, self.key) + self.steps(self.key, self.door) + 2

    def seen(self, room: str, has_key: bool) -> str:
        """What the agent is told, up to the sign that it is its turn."""
        things = {self.key: "nothing" if has_key else "key", self.door: "door"}
        have = "key" if has_key else "nothing"
        exits = " ".join(self.beside(room))
        return f"{SAW} {room} , to {exits} , see {things.get(room, 'nothing')} , have {have} {DO}"


class Walk:
    """One agent in the house that a prompt describes."""

    def __init__(self, prompt: str) -> None:
        """At the start, before the first turn."""
        plan, key, door, *_ = (part.split() for part in prompt.split(" . "))
        names = [word for word in plan if word in ROOMS]
        self.room = prompt.split(f"{SAW} ")[1].split()[0]
        doorways = tuple(zip(names[::2], names[1::2], strict=True))
        self.house = House(doorways, key[-1], door[-1], self.room)
        self.has_key = self.solved = False
        self.left = LONGEST

    def act(self, move: str) -> str | None:
        """What is seen after a turn; None: time is up. The last one, at the open door, ends with
        `<eos>`."""
        self.left -= 1
        match move.split():
            case ["go", room] if room in self.house.beside(self.room):
                self.room = room
            case ["take", "key"] if self.room == self.house.key:
                self.has_key = True
            case ["open", "door"] if self.room == self.house.door and self.has_key:
                self.solved = True
                return f"{SAW} {OPEN} {EOS}"
        return self.house.seen(self.room, self.has_key) if self.left else None


def random_problem(rng: random.Random) -> Problem:
    """Any house whose quickest way has 4 to 8 turns; the answer is always `open`."""
    while True:
        names = rng.sample(ROOMS, N_ROOMS)
        doorways = tuple((rng.choice(names[:n]), names[n]) for n in range(1, N_ROOMS))
        key, door = rng.sample(names, 2)
        house = House(doorways, key, door, rng.choice(names))
        if SHORTEST <= house.turns() <= LONGEST:
            return Problem(house.prompt(), OPEN, house)


# How the agents walk that the base model learns from: probabilities.
TAKES, OPENS, PULLS = 0.6, 0.65, 0.4
GOES_TO_WHAT_IS_NEAR, GOES_ON_THE_WAY = 0.6, 0.4


def walked(problem: Problem, rng: random.Random) -> str:
    """An episode of a noisy agent, its turns and what it saw; mostly the door stays shut."""
    walk, words = Walk(problem.prompt), []
    while not walk.solved:
        move = _move(walk, rng)
        words.append(f"{move} {EOS}")
        saw = walk.act(move)
        if saw is None:
            break
        words.append(saw)
    return " ".join(words)


def _move(walk: Walk, rng: random.Random) -> str:
    """A turn of the agent, which knows what it needs next, and often does something else."""
    house, room, has_key = walk.house, walk.room, walk.has_key
    if room == house.key and not has_key and rng.random() < TAKES:
        return "take key"
    if room == house.door and rng.random() < (OPENS if has_key else PULLS):
        return "open door"
    goal, beside = house.door if has_key else house.key, house.beside(room)
    nearest = min(beside, key=lambda other: house.steps(other, goal))
    sure = GOES_TO_WHAT_IS_NEAR if goal in beside else GOES_ON_THE_WAY
    return f"go {nearest if rng.random() < sure else rng.choice(beside)}"


def extract_answer(response: str) -> str | None:
    """`open` where the house said so at the end, else None."""
    return OPEN if response.split()[-3:] == [SAW, OPEN, EOS] else None


HOUSES = Language(
    name="rooms",
    version="1",
    vocabulary=VOCABULARY,
    max_response_length=136,
    pretraining_steps=600,
    salt="ktae demo rooms",
    random_problem=random_problem,
    worked_solution=walked,
    extract_answer=extract_answer,
    environment=Walk,
)
