"""The page's data: everything that a page says, computed in Python and only drawn by its scripts.

`ktae.report.contents` fills a `Page`. It is written as JSON; what has one entry a token is in
blocks of its own beside it (`ktae.report.blocks`). Numbers in sentences and tables are written out
in Python, so that page, terminal and JSON say the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

VERSION = 3
"""The version of the page's data. The page's script refuses another."""

Link = dict[str, Any]
"""Where a link leads: fields of the page's address, such as view, group, finding or length. A group
is its place in the dump, a rollout its place in the group."""

Tone = Literal["bad", "warn", "good", "plain"]

COUNT = "a count; nothing is estimated"
"""How sure a finding is that counts."""


class Place(NamedTuple):
    """Where in a response something was found."""

    row: int  # the response's place in `Frame`; in a page, among those that it holds
    token: int = -1  # where to look; -1: nowhere in particular
    why: str = ""


class Chip(NamedTuple):
    """A token and what is said of it, as a link to its contexts."""

    id: int
    text: str
    about: str


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something to act on, in one sentence with its number."""

    key: str  # what the page's address and JSON call it
    tone: Tone
    title: str  # a short name, for lists and filters
    sentence: str
    sure: str  # how sure it is: an interval, a p-value, or whose judgement it is
    about: str  # what it means, or what to do about it
    places: Sequence[Place] = ()  # of all responses; in a page of those that it holds
    groups: Sequence[int] = ()
    chips: Sequence[Chip] = ()
    link: Link | None = None  # to all that it is about
    example: Link | None = None
    count: int = 0  # how many of the dump's responses, groups or tokens
    kind: str = "view"  # rollouts, groups or tokens; view: what another view shows


class Bar(NamedTuple):
    """One bin of a histogram: (number, kind of bar) from the bottom up, with a link to them."""

    parts: list[tuple[int, str]]
    label: str
    link: Link


@dataclasses.dataclass(frozen=True)
class Tile:
    """A number of the overview, and its distribution, if it has one."""

    number: str
    name: str
    about: str
    caption: str = ""
    ends: tuple[str, str] = ("", "")  # below the first bar and the last one
    bars: Sequence[Bar] = ()


@dataclasses.dataclass(frozen=True)
class Advice:
    """Which estimator to read with, and how far to believe single colours."""

    verdict: str  # `ktae.validity.advice.Verdict`; none: nothing can be tested
    sentences: list[str]
    tested: str = ""  # what the tests are
    tests: Sequence[list[str]] = ()  # name, share, 95 % interval and permuted labels


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Side b against side a, paired by prompt: accuracy and length, and the prompts that moved."""

    a: str
    b: str
    sentence: str
    rows: list[list[str]]
    won: list[tuple[str, str, Link, Link]]  # a prompt, its accuracy on both sides, and its groups
    lost: list[tuple[str, str, Link, Link]]
    n_won: int
    n_lost: int
    n_same: int


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of a chart."""

    name: str
    steps: list[int]
    values: list[float]


@dataclasses.dataclass(frozen=True)
class Chart:
    """A number over training steps: one line, or one for each run."""

    name: str
    lines: list[Line]


@dataclasses.dataclass(frozen=True)
class Credit:
    """The estimator that colours the page; the block `credit` has its credit of every token."""

    name: str
    largest: float  # what the block's numbers from -1 to 1 are multiplied by
    note: str  # where the credit is not the mean of the tables in `Page.cells`
    ignored: list[int]  # token ids that get no credit


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
    known: list[int]  # responses with a verdict
    length: list[float]
    credit_abs: list[float]
    beyond: list[int]  # splits of its responses by units, beyond chance in the whole dump
    evidence: list[str]  # what units say of correctness in this group, in a sentence
    order: list[int]  # groups by most evidence


@dataclasses.dataclass(frozen=True)
class Rollouts:
    """Columns: the responses in the page, group after group."""

    length: list[int]
    reward: list[float | None]
    correct: list[float | None]
    advantage: list[float | None]
    credit: list[float]  # the mean of its counted tokens
    models: list[str]
    model: list[int]  # its place in `models`; -1: none
    segments: dict[int, list[Any]]  # `ktae.report.segments`, of those alone that have several


@dataclasses.dataclass(frozen=True)
class Page:
    """What a page says, but for the texts of its tokens and what has an entry a token."""

    version: int
    unit: str  # what a token is called
    findings: list[Finding]  # what to act on first comes first
    advice: Advice
    tiles: list[Tile]
    notes: list[dict[str, Any]]  # of `ktae.rollouts.notes.Note`
    comparisons: list[Comparison]
    opened: int  # the comparison that is shown first
    charts: list[Chart]
    credit: Credit
    signals: list[str]  # blocks of log-probabilities and entropies
    unit_names: list[str]  # what the blocks `unit-N` count: token, bigram, trigram
    cells: list[list[float]]  # the tables that those refer to: see `ktae.report.units.cells`
    n_correct: int  # correct responses of mixed groups
    n_incorrect: int
    groups: Groups
    rollouts: Rollouts


def percent(share: float) -> str:
    """As in "53.1 %"."""
    return f"{100 * share:.{0 if share in (0, 1) else 1}f} %"


def p_text(p: float) -> str:
    """As in "p = 0.04"."""
    return "p < .001" if p < 0.001 else f"p = {p:.2g}"


def share_of(n: int, total: int) -> str:
    """As in "3 of 1,200"."""
    return f"{n:,} of {total:,}"


def signed(number: float, form: str = ".2f") -> str:
    """As in "+5.50", with the sign that a minus has in print."""
    return f"{number:+z{form}}".replace("-", "−")
