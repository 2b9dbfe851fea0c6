r"""Numbers as they are written, exactly, and the units behind them.

10 % is 10 or 1/10, since reference answers are written both ways. Units are dropped, not converted:
what stands in `\text{}` or after a blank and reads as one, degree signs, ordinal endings,
currencies. A letter that may be a variable (`5t`, `3 m`) stays.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from ktae.grading.latex import CJK, TEXT, UNITS, rewritten, table

MAX_DIGITS = 1000
ROUNDED_DIGITS, _NOISE = 6, Fraction(1, 10**14)
"""Significant digits from which a decimal may be the rounding of another number; what floating
point adds to a number, relative to it: 0.30000000000000004 is 0.3."""

_PERCENT = re.compile(
    r"\s*(?:\\?%|\\text\{(?:\\?%|per ?cent)\}|\b(?:per ?cent(?:age)?|pct)\b\.?)\s*"
)
_TWO_NUMBERS = re.compile(r"\d(?: |\\quad)+[\d.]")
_MIXED = re.compile(r"^([-+]?) ?(\d+) (\d+) ?/ ?(\d+)$")
_DECIMAL = r"(?:\d+\.?\d*|\.\d+)"
_PLAINER = table("numbers", DECIMAL=_DECIMAL)
_NUMBER = re.compile(
    rf"(?P<sign>[-+]?)(?:(?P<whole>\d*) )?(?P<top_sign>[-+]?)(?P<top>{_DECIMAL})"
    rf"(?:\((?P<period>\d+)\)|[eE](?P<exponent>[-+]?\d+))?(?:/(?P<under>{_DECIMAL}))?"
)
RATIO = re.compile(
    r"\d+(?:\.\d+)?(?:\s*:\s*\d+(?:\.\d+)?)+|\d{1,2}/\d{1,2}/\d{2,4}|\d{4}-\d{1,2}-\d{1,2}"
)


class Number(NamedTuple):
    """A number as it was written."""

    value: Fraction
    step: Fraction
    """One in the last digit of a decimal that may be rounded; otherwise 0."""
    is_percent: bool

    def stands_for(self, exact: Fraction) -> bool:
        """Whether that is its value, or becomes it where rounded or cut off at its last digit."""
        rest = exact - self.value if exact > 0 else self.value - exact
        return not rest or -self.step / 2 <= rest < self.step


def written(text: str) -> Number | None:
    """The number that a clean text without units is: `2 1/2` is a mixed one, and `1 2` is none."""
    text, percents = _PERCENT.subn("", text[: MAX_DIGITS + 1])
    text = _MIXED.sub(r"\1\2\\frac{\3}{\4}", text)
    match = _NUMBER.fullmatch(rewritten(text.replace(" ", ""), _PLAINER))
    if match is None or len(text) > MAX_DIGITS or _TWO_NUMBERS.search(text):
        return None
    parts = match.groupdict(default="")
    exponent, under = int(parts["exponent"] or 0), Fraction(parts["under"] or 1)
    integer, point, decimals = parts["top"].partition(".")
    if abs(exponent) > MAX_DIGITS or not under or (parts["period"] and not point):
        return None  # 3(5) is a product
    step = Fraction(10) ** (exponent - len(decimals))
    value = Fraction(parts["top"]) * Fraction(10) ** exponent
    if period := parts["period"]:
        value += step * Fraction(int(period), 10 ** len(period) - 1)
    value = int(parts["whole"] or 0) + value / under * (-1 if parts["top_sign"] == "-" else 1)
    is_rounded = point and not period and len((integer + decimals).lstrip("0")) >= ROUNDED_DIGITS
    step = max(step, abs(value) * _NOISE) if is_rounded else Fraction(0)
    return Number(-value if parts["sign"] == "-" else value, step, percents > 0)


def same_number(a: Number, b: Number) -> bool:
    """Whether they agree; where one has a percent sign, in either reading of it."""
    x, y = (a, b) if a.is_percent else (b, a)
    readings = [x]
    if x.is_percent and not y.is_percent:
        readings.append(Number(x.value / 100, x.step / 100, is_percent=True))
    return any(r.stands_for(y.value) or y.stands_for(r.value) for r in readings)


_LETTER = r"[a-zA-Z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0400-\u04ff]"
_UNIT_NAMES = {
    name: group.split()[0]
    for group in UNITS["names"].split("|")
    for word in group.split()
    for name in (word, word + "s")
}
_LONG_NAMES = "|".join(sorted((name for name in _UNIT_NAMES if len(name) > 3), reverse=True))
_POWER = r"(?:\s*\^\s*\{?\s*-?\d\s*\}?)?"
_WORDED = r"\\text\{[^{}]*\}"
_UNIT = re.compile(
    rf"[\s,]*(?:{_WORDED}{_POWER}|\\frac\s*\{{\s*{_WORDED}\s*\}}\s*\{{\s*{_WORDED}{_POWER}\}}"
    # Degrees, minutes and seconds of arc, ordinal numbers, currencies.
    r"|(?:\^?\s*\{?\\circ\}?|°)\s*(?:[CFK]|\\text\{[CFK]\})?"
    r"|(?<=\d)(?:\^\s*\{(?:\s*\\prime)+\s*\}|'{1,2})"
    r"|\^\s*\{?\s*\\text\{(?:st|nd|rd|th)\}\s*\}?|(?<=\d)(?:st|nd|rd|th)\b"
    rf"|[¢€£¥]|\\?\$|(?<=[\d\s.}}])(?:{UNITS['sure']}|{CJK}+)|(?<=\d)(?:{_LONG_NAMES})"
    rf"|(?<=[\s.])(?<!\\){_LETTER}{{3,}}(?:[ -]{_LETTER}{{2,}})*|/\s*(?:{_WORDED}|{_LETTER}{{3,}}))"
    rf"(?:\s*/\s*(?:{_WORDED}|(?:{_LETTER}{{3,}}|h|s|hr|kg|min|L)\b){_POWER})?{_POWER}$"
)
_LETTER_UNIT = re.compile(
    rf"(?<=[\d.}}])\s+(?:{UNITS['letters']}){_POWER}$|(?<=\d)(?:min|sec|c?m/s)$"
)
_UNIT_SPELLINGS = table("unit_spellings")
_SUM = re.compile(r"\S\s*[-+=<>,]")
_BEFORE = re.compile(rf"^(?:\\text\{{)?({UNITS['before']})\}}?\s*(?=[\d.\\-])")
SCALE = re.compile(UNITS["scale"], re.IGNORECASE)
"""Words that make a number another one."""
_NO_UNIT = re.compile(UNITS["no_unit"], re.IGNORECASE)


def without_units(text: str, *, letters: bool = False) -> tuple[str, str]:
    """An answer without its units, and those; all of it where nothing would be left.

    `letters`: whether a letter may be a unit, as in `8 L`.
    """
    units, answer = "", text
    if before := _BEFORE.match(text):
        units, text = before[1].lstrip("\\"), text[before.end() :]
    for _ in range(3):  # `5 \text{ cm}^2` has two things to drop
        unit = _UNIT.search(text)
        if unit is None and letters and not _SUM.search(text):  # 10 + 5 h is no 15
            unit = _LETTER_UNIT.search(text)
        rest = text[: unit.start()].strip(" ,") if unit else ""
        if unit is None or not unit[0].strip() or not rest or rest.endswith("angle"):
            break
        words = re.sub(_POWER, "", TEXT.sub(r"\1", unit[0])).strip()
        if SCALE.search(units + words):  # `$5 M`
            return answer, ""
        is_letter = re.fullmatch("[a-zA-Z]", words) and not {words, words.lower()} & {*_UNIT_NAMES}
        if is_letter or len(words.split()) > 5 or _NO_UNIT.search(words):
            break
        units, text = f"{unit[0]} {units}", rest
    return text, units.strip()


def contradict(a: str, b: str) -> bool:
    """Whether both are units that are known, and not the same one: `m` and `km`."""
    units = []
    for unit in (a, b):
        text = rewritten(unit.lower(), _UNIT_SPELLINGS)  # `square meters` as `m^2`
        parts = re.findall(r"[^\W\d_]+|[°$¢€£¥%]|\^ *-?\d|/", text)
        units.append([p.replace(" ", "") if p[0] in "^/" else _UNIT_NAMES.get(p) for p in parts])
    return units[0] != units[1] and all(units) and None not in units[0] + units[1]
