r"""Units: what may stand behind a number without changing it, and which units contradict.

Units are dropped, not converted: what stands in `\text{}` or after a blank and reads as a unit (a
few words without a digit, a negation, a conjunction or a word that changes the number), degree
signs, ordinal endings, currencies. A letter that may be a variable (`5t`, `3 m`) stays.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ktae.grading.tables import UNITS

CJK = r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]"
"""A character of a script that puts no blanks between words: Chinese, Japanese; Korean endings."""
_LETTER = r"[a-zA-Z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0400-\u04ff]"

_CANONICAL = {
    name: group.split()[0]
    for group in UNITS["names"].split("|")
    for word in group.split()
    for name in (word, word + "s")
}
_POWER = r"(?:\s*\^\s*\{?\s*-?\d\s*\}?)?"
_TEXT = r"\\(?:text|mathrm|textbf|textrm|mbox|rm|operatorname)\s*\{(?P<%s>[^{}]*)\}"
_PER = (
    rf"(?:\s*/\s*(?:\\(?:text|mathrm)\s*\{{[^{{}}]*\}}|(?:{_LETTER}{{3,}}|h|s|hr|kg|min|L)\b)"
    rf"{_POWER})?"
)
_UNIT = re.compile(
    rf"[\s,]*(?:{_TEXT % 'worded'}{_POWER}"
    r"|\\frac\s*\{\s*\\(?:text|mathrm)\s*\{[^{}]*\}\s*\}\s*"
    r"\{\s*\\(?:text|mathrm)\s*\{[^{}]*\}(?:\s*\^\s*\{?\d\}?)?\s*\}"
    r"|(?:\^?\s*\{?\\circ\}?|°)\s*(?:[CFK]|\\(?:text|mathrm)\s*\{\s*[CFK]\s*\})?"
    r"|(?<=\d)(?:\^\s*\{(?:\s*\\prime)+\s*\}|'{1,2})"
    r"|\^\s*\{?\s*\\(?:text|mathrm|textrm)\s*\{\s*(?:st|nd|rd|th)\s*\}\s*\}?|(?<=\d)(?:st|nd|rd|th)\b"
    rf"|[¢€£¥]|\\?\$|(?<=[\d\s.}}])(?:{UNITS['sure']})"
    rf"|(?<=[\s.])(?P<bare>(?<!\\){_LETTER}{{3,}}(?:[ -]{_LETTER}{{2,}})*)"
    rf"|(?<=[\d\s.}}])(?P<east>{CJK}+)"
    rf"|/\s*(?:\\(?:text|mathrm)\s*\{{[^{{}}]*\}}|{_LETTER}{{3,}}))"
    rf"{_PER}{_POWER}$"
)
_LETTER_UNIT = re.compile(
    rf"(?<=[\d.}}])\s+(?:{UNITS['letters']}){_POWER}$|(?<=\d)(?:min|sec|c?m/s)$"
)
_SUM = re.compile(r"\S\s*[-+=<>,]")
_BEFORE = re.compile(rf"^(?:\\text\s*\{{\s*)?(?P<sign>{UNITS['before']})(?:\s*\}})?\s*(?=[\d.\\-])")
SCALE = re.compile(UNITS["scale"], re.IGNORECASE)
"""Words that make a number another one."""
_NO_UNIT = re.compile(UNITS["no_unit"], re.IGNORECASE)
_LONGEST = 5
"""Words of a unit at most: "square feet of floor space"."""


class Measured(NamedTuple):
    """What is left of an answer, and the units that were taken off, as they were written."""

    rest: str
    unit: str


def take_off(text: str, *, letters: bool = False) -> Measured:
    r"""An answer without its units; all of it where nothing would be left.

    `letters`: whether a letter may be a unit, as in `8 L` and `3 m^2`. It may where the answer that
    it is compared with has none.
    """
    rest, units = text, []
    if before := _BEFORE.match(rest):
        units.append(before["sign"].lstrip("\\"))
        rest = rest[before.end() :]
    for _ in range(3):  # `5 \text{ cm}^2` has two things to drop
        unit = _UNIT.search(rest)
        if unit is None and letters and not _SUM.search(rest):  # 10 + 5 h is no 15
            unit = _LETTER_UNIT.search(rest)
        if unit is None or not unit.group().strip() or not rest[: unit.start()].strip(" ,"):
            break
        groups = unit.groupdict()
        word = groups.get("worded") or groups.get("bare") or groups.get("east") or ""
        is_long = len(word.split()) > _LONGEST
        if is_long or _NO_UNIT.search(word) or SCALE.search(word):
            break
        units.append(unit.group())
        rest = rest[: unit.start()].rstrip(" ,")
    return Measured(rest, " ".join(reversed(units)).strip())


def contradict(a: str, b: str) -> bool:
    """Whether both are units that are known, and not the same one: `m` and `km`."""
    first, second = canonical(a), canonical(b)
    return bool(first and second and first != second)


def canonical(unit: str) -> str:
    r"""A unit in one way of writing (`square meters` as `m^2`); empty where it is not known."""
    text = re.sub(
        r"\\(?:text|mathrm|textbf|textrm|mbox|rm|operatorname)\b|[~{}\\,]", " ", unit
    ).lower()
    text = re.sub(r"\bcirc\b", "°", text.replace("^ circ", "°"))
    text = re.sub(r"\bper\b", "/", re.sub(r"(\w+) squared\b", r"\1^2", text))
    text = re.sub(
        r"\b(square|sq\.?|cubic) (\w+)", lambda m: f"{m[2]}^{2 + (m[1] == 'cubic')}", text
    )
    parts = re.findall(r"[^\W\d_]+|[°$¢€£¥%]|\^ *-?\d|/", text)
    names = [part for part in parts if part[0] not in "^/"]
    if not names or any(name not in _CANONICAL for name in names):
        return ""
    return "".join(_CANONICAL.get(part, part.replace(" ", "")) for part in parts)
