"""The page's data: everything that a page says, computed in Python and only drawn by its scripts.

`ktae.report.contents` fills a `Page`. It is written as JSON; what has one entry a token is in
blocks of its own beside it (`ktae.report.blocks`). Numbers in sentences and tables are written out
here, so that page, terminal and JSON say the same.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

VERSION = 2
"""The version of the page's data. The page's script refuses another."""

Link = dict[str, Any]
"""Where a link leads: fields of the page's address, such as view, group, finding or length. A group
is its place in `Groups`, a rollout its place in the group."""

Tone = Literal["bad", "warn", "good", "plain"]
Kind = Literal["rollouts", "groups", "tokens", "view"]
"""What a finding is about; `view`: what another view shows."""


@dataclasses.dataclass(frozen=True)
class Chip:
    """A token and what is said of it, as a link to its contexts."""

    id: int
    text: str
    about: str


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something to act on, in one sentence with its number."""

    key: str
    """What the page's address and JSON call it."""
    tone: Tone
    sentence: str
    sure: str
    """How sure it is: an interval, a p-value, or whose judgement it is."""
    about: str
    """What it means, or what to do about it."""
    title: str
    """A short name, for lists and filters."""
    count: int
    """How many of the dump's responses, groups or tokens."""
    kind: Kind
    link: Link | None
    """To all that it is about; `example`: to one place."""
    example: Link | None
    groups: list[int]
    rollouts: list[int]
    """Places in `Rollouts` of those that the page holds."""
    tokens: list[int]
    """Where to look in each of them; -1: nowhere in particular."""
    why: list[str]
    """What is seen in each of them; none where there is nothing to add."""
    chips: list[Chip]


@dataclasses.dataclass(frozen=True)
class Bar:
    """One bin of a histogram: (number, kind of bar) from the bottom up."""

    parts: list[tuple[int, str]]
    label: str
    link: Link


@dataclasses.dataclass(frozen=True)
class Histogram:
    """Bars, each a link to what it counts, with the values at both ends and of the highest bar."""

    name: str
    low: str
    high: str
    most: int
    bars: list[Bar]


@dataclasses.dataclass(frozen=True)
class Tile:
    """A number of the overview, and its distribution."""

    number: str
    name: str
    about: str
    picture: Histogram | None
    caption: str


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table; the first cell is its name."""

    cells: list[str]
    link: Link | None = None
    strong: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """Names and numbers, as they are shown."""

    title: str
    about: str
    columns: list[str]
    rows: list[Row]


@dataclasses.dataclass(frozen=True)
class Advice:
    """Which estimator to read with, and how far to believe single colours."""

    verdict: str
    """`ktae.validity.advice.Verdict`; `none` where nothing can be tested."""
    sentences: list[str]
    tests: Table | None
    """Held-out pairs."""


@dataclasses.dataclass(frozen=True)
class Note:
    """One thing to know about the dump; severe where what a reader expects is missing."""

    key: str
    severe: bool
    title: str
    text: str
    count: int = 0


@dataclasses.dataclass(frozen=True)
class Problem:
    """A prompt on two sides, and its accuracy on both."""

    prompt: str
    change: str
    a: Link
    b: Link


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Side b against side a, paired by prompt: accuracy and length, and the prompts that moved."""

    a: str
    b: str
    sentence: str
    rows: list[Row]
    won: list[Problem]
    lost: list[Problem]
    n_won: int
    n_lost: int
    n_same: int


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of a chart; null where a step has no value."""

    name: str
    steps: list[int]
    values: list[float | None]


@dataclasses.dataclass(frozen=True)
class Chart:
    """A number over training steps: one line, or one for each run."""

    name: str
    lines: list[Line]


@dataclasses.dataclass(frozen=True)
class Credit:
    """The estimator that colours the page; the block `credit` has its credit of every token."""

    name: str
    largest: float
    """What the block's numbers from -1 to 1 are multiplied by."""
    note: str
    """What the tables of `Page.cells` have to do with it; empty where the credit is their mean."""
    ignored: list[int]
    """Token ids that get no credit."""


@dataclasses.dataclass(frozen=True)
class Groups:
    """Columns: the groups in the dump's order, those that are not in the page too."""

    label: list[str]
    files: list[str]
    file: list[int]
    step: list[int | None]
    shown: list[int]
    size: list[int]
    n_correct: list[int]
    known: list[int]
    """Responses with a verdict."""
    length: list[float]
    credit_abs: list[float]
    """Mean |credit| of the page's estimator."""
    beyond: list[int]
    """Splits of its responses that units make, beyond chance in the whole dump."""
    evidence: list[str]
    """What units say of correctness in this group, in a sentence."""
    order: list[int]
    """Groups by most evidence."""


@dataclasses.dataclass(frozen=True)
class Rollouts:
    """Columns: the responses in the page, group after group."""

    length: list[int]
    reward: list[float | None]
    correct: list[float | None]
    advantage: list[float | None]
    credit: list[float]
    """The mean credit of its counted tokens, by the page's estimator."""
    models: list[str]
    model: list[int]
    """Place in `models`; -1: none."""
    holes: dict[int, list[int]]
    """Begin and end of each masked stretch, of those alone that have any."""
    segments: dict[int, list[tuple[str, int, int]]]
    """Kind, begin and end, of those alone that have several."""


@dataclasses.dataclass(frozen=True)
class Turn:
    """A turn of a response: where it begins, its first words and its mean credit a token."""

    start: int
    text: str
    credit: float


@dataclasses.dataclass(frozen=True)
class Choice:
    """What some responses did in a state: how many of them, and of how many that have a verdict."""

    text: str
    n: int
    n_correct: int
    known: int


@dataclasses.dataclass(frozen=True)
class State:
    """An observation that several responses of a group share, and what they did then."""

    text: str
    n: int
    choices: list[Choice]
    others: int


@dataclasses.dataclass(frozen=True)
class Turns:
    """The turns of a group with several: for each response, and in shared states."""

    rollouts: list[list[Turn]]
    left_out: list[int]
    """Later turns of each response that are not listed."""
    largest: float
    states: list[State]


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Columns: the distinct tokens by falling frequency; a token's number is its place here."""

    id: list[int]
    text: list[Any]
    """Its text; its bytes where it is part of a character; null where only the number is known."""
    a: list[int]
    """Correct responses of mixed groups that contain it; `b`: incorrect ones."""
    b: list[int]
    groups: list[int]
    impact: list[float]
    credit: list[float]
    p: list[float]
    beyond: list[int]
    """1 where that is beyond chance among all tokens of the dump."""


@dataclasses.dataclass(frozen=True)
class Page:
    """What a page says, but for the texts of its tokens and what has an entry a token."""

    version: int
    unit: Literal["token", "word"]
    findings: list[Finding]
    """What to act on first comes first."""
    advice: Advice
    tiles: list[Tile]
    models: Table | None
    """Where responses are of several."""
    notes: list[Note]
    comparisons: list[Comparison]
    opened: int
    """The comparison that is shown first."""
    charts: list[Chart]
    credit: Credit
    signals: list[str]
    """Blocks of log-probabilities and entropies."""
    unit_names: list[str]
    """What the blocks `unit-N` count: token, bigram, trigram."""
    cells: list[list[float]]
    """The contingency tables that the blocks `unit-N` refer to (`ktae.report.units.cells`)."""
    n_correct: int
    """Correct responses of mixed groups; and incorrect ones."""
    n_incorrect: int
    groups: Groups
    rollouts: Rollouts
