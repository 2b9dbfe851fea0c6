"""Dates, clock times and ratios: written with the signs of a division, and no quotients.

- A date (`01/31/2011`, `2011-01-31`, `31.1.2011`, `01/31/11`) agrees with the same numbers in the
  same order, whatever the zeros in front. In another order it agrees only where both can be read in
  one way: `13/01/2011` is `01/13/2011`, `02/04/2011` is not `04/02/2011`.
- A clock time (`12:30`, `3 p.m.`, `9:05:00`) agrees with the same time of day. Without `am` or `pm`
  either half of the day is meant.
- A ratio (`2:4`, `1:2:3`) agrees with every multiple (`1:2`), and with its quotient.
- `12:30` may be a time or a ratio. With two digits after the colon on both sides, and a time of day
  on one of them, it is taken for a time and not reduced: `12:30` is not `24:60`. `2:5` can be no
  time, so `4:10` agrees with it.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from ktae.grading import latex

_DATE = re.compile(r"(\d{1,4})([/.-])(\d{1,2})\2(\d{1,4})")
_CLOCK = re.compile(r"(\d{1,2})(?::(\d\d)(?::(\d\d))?)?([ap])?(?(4)\.?m\.?)")
_RATIO = re.compile(r"\d+(?:\.\d+)?(?::\d+(?:\.\d+)?)+")
_LONGEST = 60
"""Characters of a date, a time or a ratio."""


class _Clock(NamedTuple):
    seconds: int
    """Since midnight; since midnight or noon, if `half` is empty."""
    half: str
    """`a`, `p`, or empty where it is not said."""
    is_sure: bool
    """A ratio would not be written so."""


def is_written(answer: str) -> bool:
    """Whether the text is a date, a clock time or a ratio."""
    text = _plain(answer)
    return bool(_date(text) or _clock(text) or _RATIO.fullmatch(text))


def agree(answer: str, given: str) -> bool | None:
    """Whether two answers are the same date, time or ratio; None if that is not the question."""
    a, b = _plain(answer), _plain(given)
    date_a, date_b = _date(a), _date(b)
    if date_a or date_b:
        if not (date_a and date_b):
            return False
        (numbers_a, days_a), (numbers_b, days_b) = date_a, date_b
        return numbers_a == numbers_b or (len(days_a) == 1 and days_a == days_b)
    clocks = _clock(a), _clock(b)
    if any(clock and clock.is_sure for clock in clocks):
        return all(clocks) and _same_time(*clocks)  # type: ignore[arg-type]
    if not (_RATIO.fullmatch(a) and _RATIO.fullmatch(b)):
        return False if any(clocks) else None
    # 12:30 and 24:60 are the same ratio, and only one of them is a time.
    if any(clocks) and all(len(text.split(":")[1]) == 2 for text in (a, b)):
        return all(clocks) and _same_time(*clocks)  # type: ignore[arg-type]
    return _same_ratio(a, b)


def _plain(answer: str) -> str:
    if len(answer) > _LONGEST:
        return ""
    return latex.plain(re.sub(r"\\colon(?![a-z])", ":", answer))


def _date(text: str) -> tuple[tuple[int, ...], frozenset[tuple[int, ...]]] | None:
    """The three numbers as they are written, and the (year, month, day) that they may mean."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    first, mark, second, third = match.groups()
    a, b, c = int(first), int(second), int(third)
    if len(first) == 4 and len(third) <= 2:
        readings = {(a, b, c)}
    elif len(first) <= 2 and (len(third) == 4 or (mark != "-" and len(third) == 2)):
        readings = {(c, a, b), (c, b, a)}
    else:
        return None
    possible = frozenset(x for x in readings if 1 <= x[1] <= 12 and 1 <= x[2] <= 31)
    return ((a, b, c), possible) if possible else None


def _clock(text: str) -> _Clock | None:
    match = _CLOCK.fullmatch(text)
    if match is None or not (match[2] or match[4]):
        return None
    hour, minute, second = (int(part or 0) for part in match.groups()[:3])
    half = match[4] or ""
    if hour > (12 if half else 24) or minute > 59 or second > 59:
        return None
    is_sure = bool(half or match[3] or match[1].startswith("0") or match[2].startswith("0"))
    if half:
        hour = hour % 12 + 12 * (half == "p")
    elif hour > 12 or match[1] in ("0", "00"):
        half, hour = ("p" if 12 < hour < 24 else "a"), hour % 24
    else:
        hour %= 12
    return _Clock((hour * 60 + minute) * 60 + second, half, is_sure)


def _same_time(a: _Clock, b: _Clock) -> bool:
    if a.half and b.half:
        return a.seconds == b.seconds
    noon = 12 * 60 * 60
    return a.seconds % noon == b.seconds % noon


def _same_ratio(a: str, b: str) -> bool:
    """Whether one is a multiple of the other, term by term."""
    xs, ys = ([Fraction(part) for part in text.split(":")] for text in (a, b))
    if len(xs) != len(ys) or [x == 0 for x in xs] != [y == 0 for y in ys]:
        return False
    # Terms of 0 agree already; all others have to have one quotient.
    quotients = {x / y for x, y in zip(xs, ys, strict=True) if y}
    return len(quotients) <= 1
