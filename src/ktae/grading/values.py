r"""Numbers as they are written, exactly: what can be decided without computer algebra.

A percent sign makes both readings admissible: 10 % is 10 or 1/10, since reference answers are
written both ways ("what percentage...").
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from ktae.grading.latex import clean
from ktae.grading.units import take_off

MAX_DIGITS = 1000
MAX_EXPONENT = 1000
ROUNDED_DIGITS = 6
"""Significant digits from which a decimal may be the rounding of another number."""
TOLERANCE = Fraction(15, 10_000_000)
"""Of a rounded decimal, relative below 1 and absolute above: 0.333333 is 1/3, 5.11e-19 is not
2.88e-19."""

_PERCENT = re.compile(
    r"\s*(?:\\?%|\\text\s*\{\s*(?:\\?%|per ?cent)\s*\}|\b(?:per ?cent(?:age)?|pct)\b\.?)\s*"
)
_DECIMAL = r"(?:\d+\.?\d*|\.\d+)"
_NUMBER = re.compile(
    rf"(?P<sign>[-+]?)(?:(?P<mantissa>{_DECIMAL})"
    rf"(?:[eE](?P<exponent>[-+]?\d+)|\\(?:overline|bar|dot)\{{?(?P<repeating>\d+)\}}?"
    rf"|\((?P<in_brackets>\d+)\)|(?P<goes_on>\\ldots))?"
    rf"|(?:(?P<factor>{_DECIMAL})(?:\\times|\\cdot|\*|x))?10(?:\^|\*\*)\{{?(?P<power>[-+]?\d+)\}}?"
    rf"|(?P<whole>\d*)\\frac\{{?(?P<top>[-+]?{_DECIMAL}|\d)\}}?\{{?(?P<bottom>{_DECIMAL})\}}?"
    rf"|(?P<over>{_DECIMAL})/(?P<under>{_DECIMAL}))"
)
_DOTS = re.compile(r"\\dot\{?(\d)\}?(?:(\d*)\\dot\{?(\d)\}?)?$")
_MIXED = re.compile(r"([-+]?) ?(\d+) (\d+) ?/ ?(\d+)")
_TWO_NUMBERS = re.compile(r"\d(?: |\\quad)+[\d.]")


class Number(NamedTuple):
    """A number as it was written."""

    value: Fraction
    rounded: bool
    """Written with a decimal point or as a power of ten, so that it may stand for another one."""
    percent: bool
    step: Fraction | None = None
    """One in the last digit, where six or more significant digits are written."""


def number(answer: str) -> Number | None:
    r"""The number that an answer is, with or without a unit, or None if it is anything else."""
    return None if len(answer) > MAX_DIGITS else written(take_off(clean(answer)).rest)


def written(text: str) -> Number | None:
    """The number that a clean text without units is: `2 1/2` is a mixed one, and `1 2` is none."""
    if len(text) > MAX_DIGITS:
        return None
    text, percents = _PERCENT.subn("", text)
    if mixed := _MIXED.fullmatch(text):
        text = r"{}{}\frac{{{}}}{{{}}}".format(*mixed.groups())
    if _TWO_NUMBERS.search(text):
        return None
    text = _DOTS.sub(r"\\overline{\1\2\3}", text.replace(" ", ""))
    while text.startswith("(") and text.endswith(")") and _NUMBER.fullmatch(text[1:-1]):
        text = text[1:-1]
    match = _NUMBER.fullmatch(text)
    parts = {name: group or "" for name, group in match.groupdict().items()} if match else {}
    value = _value(parts) if parts else None
    if value is None:
        return None
    rounded = any(mark in text for mark in (".", "e", "E", "times", "cdot", "10^"))
    return Number(value, rounded, percents > 0, _step(parts))


def same_number(a: Number, b: Number) -> bool:
    """Whether two written numbers agree, in any admissible reading of a percent sign.

    Where both have one there is nothing to choose: 500 % is not 5 %.
    """
    # A sign on one side alone may have been left out on the other.
    either = a.percent != b.percent
    readings_a = [a.value, a.value / 100] if a.percent and either else [a.value]
    readings_b = [b.value, b.value / 100] if b.percent and either else [b.value]
    step = max((n.step for n in (a, b) if n.step), default=None)
    rounded = a.rounded or b.rounded
    return any(x == y or (rounded and close(x, y, step)) for x in readings_a for y in readings_b)


def close(a: Fraction, b: Fraction, step: Fraction | None = None) -> bool:
    """Whether one may be the other's rounding: see `TOLERANCE`, and `Number.step`."""
    difference = abs(a - b)
    if step is not None and difference < step:
        return True
    return difference <= TOLERANCE * min(Fraction(1), max(abs(a), abs(b)))


def _value(parts: dict[str, str]) -> Fraction | None:
    sign = -1 if parts["sign"] == "-" else 1
    exponent = int(parts["exponent"] or parts["power"] or 0)
    if abs(exponent) > MAX_EXPONENT:
        return None
    scale = Fraction(10) ** exponent
    integer, point, decimals = parts["mantissa"].partition(".")
    repeating = parts["repeating"] or parts["in_brackets"]
    if parts["goes_on"]:  # 0.3333... and 0.1212... show what repeats
        shown = re.fullmatch(r"(\d*?)(\d+?)\2+", decimals)
        if shown is None or len(decimals) < 3:
            return None
        decimals, repeating = shown[1], shown[2]
    if repeating:  # 0.1\overline{6} is 0.1 + 6/90
        period = Fraction(int(repeating), 10 ** len(repeating) - 1)
        first = Fraction(f"{integer or 0}.{decimals}")
        return sign * (first + period / 10 ** len(decimals)) if point else None
    if parts["mantissa"]:
        return sign * Fraction(parts["mantissa"]) * scale
    if parts["power"]:
        return sign * Fraction(parts["factor"] or "1") * scale
    top, bottom = parts["top"] or parts["over"], parts["bottom"] or parts["under"]
    if not Fraction(bottom):
        return None
    return sign * (Fraction(parts["whole"] or 0) + Fraction(top) / Fraction(bottom))


def _step(parts: dict[str, str]) -> Fraction | None:
    """One in the last decimal of a number with enough significant digits."""
    decimal = parts["mantissa"] or parts["factor"]
    integer, point, decimals = decimal.partition(".")
    if not point or len((integer + decimals).lstrip("0")) < ROUNDED_DIGITS or parts["goes_on"]:
        return None
    exponent = int(parts["exponent"] or parts["power"] or 0)
    return Fraction(10) ** (exponent - len(decimals))
