"""The page's data: everything that a page says, computed in Python and only drawn by its scripts.

`ktae.report.contents` fills a `Page`. It is written as JSON; what has one entry a token is in
blocks of its own beside it. Numbers in sentences and tables are written out in Python, so that
page, terminal and JSON say the same. In the page a block is base64 of what is compressed, so no
text of a rollout can end a tag or start one.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import zlib
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

VERSION = 3  # of the page's data; the page's script refuses another
COUNT = "a count; nothing is estimated"  # how sure a finding is that counts
Tone = Literal["bad", "warn", "good", "plain"]
Link = dict[str, Any]
"""Where a link leads: fields of the page's address, such as view, group, finding or length. A group
is its place in the dump, a rollout its place in the group."""


class Place(NamedTuple):
    """Where in a response something was found."""

    row: int  # the response's place in `Frame`; in a page, among those that it holds
    token: int = -1  # where to look; -1: nowhere in particular
    why: str = ""


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
    link: Link | None = None  # to all that it is about
    example: Link | None = None
    count: int = 0  # how many of the dump's responses


Bar = tuple[list[tuple[int, str]], str, Link]
"""One bin of a histogram: (number, kind of bar) from the bottom up, a label, and a link to them."""


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
    segments: dict[int, list[Any]]  # of those alone that have several


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
    charts: dict[str, list[tuple[str, list[int], list[float]]]]  # of each run: name, steps, values
    estimator: str  # whose credit colours the page, as in the block `credit`
    largest: float  # what that block's numbers from -1 to 1 are multiplied by
    about_tables: str  # where the credit is not the mean of the tables in `cells`
    ignored: list[int]  # token ids that get no credit
    unit_names: list[str]  # what the blocks `unit-N` count: token, bigram, trigram
    cells: list[list[float]]  # the tables that those refer to: see `ktae.report.units.cells`
    n_correct: int  # correct responses of mixed groups; at least 1, for what is divided by them
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


def json_block(content: Any) -> str:
    """JSON in UTF-8, with floats of six digits and NaN as null."""
    content = json.loads(
        json.dumps(content, default=vars),
        parse_float=lambda digits: float(f"{float(digits):.6g}"),
        parse_constant=lambda _: None,
    )
    return _block(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode())


def integer_block(numbers: np.ndarray) -> str:
    """Integers below 2^32: the lowest byte of all of them, then the next one of all, and so on."""
    return _block(numbers.astype("<u4").view(np.uint8).reshape(-1, 4).T.tobytes())


def credit_block(values: np.ndarray) -> str:
    """Numbers from -1 to 1 as int8 in units of 1 / 127; what is not 0 does not become 0."""
    scaled = np.round(values * 127)
    scaled = np.where((scaled == 0) & (values != 0), np.sign(values), scaled)
    return _block(scaled.astype(np.int8).tobytes())


def _block(content: bytes) -> str:
    compressor = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)  # what browsers can inflate
    return base64.b64encode(compressor.compress(content) + compressor.flush()).decode()
