r"""Answers as text and as exact numbers: what can be decided without computer algebra.

Units are dropped, not converted; so are currency signs, degree signs and ordinal endings. A percent
sign makes both readings admissible: 10 % is 10 or 1/10, since reference answers are written both
ways ("what percentage...").
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction
from typing import NamedTuple

MAX_DIGITS = 1000
MAX_EXPONENT = 1000
TOLERANCE = Fraction(15, 10_000_000)
"""Of a rounded decimal, relative below 1 and absolute above: 0.333333 is 1/3, 5.11e-19 is not
2.88e-19."""

_WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_NOISE = re.compile(r"(\\\\)|\\(?:left|right|displaystyle|quad|qquad)(?![a-zA-Z])\.?|\\[!,;:> ]|~")
_FONT = re.compile(
    r"\\(?:bf|it|rm|tiny|small|normalsize|large|Large|LARGE|huge|Huge|boldsymbol|bm)(?![a-zA-Z])"
)
_SIGNS = str.maketrans(
    {"−": "-", "–": "-", "÷": "/", "℃": "°C"}
    | {
        sign: rf"\{name} "
        for sign, name in {
            **{"∞": "infty", "π": "pi", "θ": "theta", "·": "cdot", "⋅": "cdot", "×": "times"},
            **{"≤": "le", "≥": "ge", "≠": "ne", "∪": "cup", "∩": "cap", "∈": "in"},
            **{"∅": "emptyset", "ℝ": "mathbb{R}", "ℤ": "mathbb{Z}"},
        }.items()
    }
)
_VULGAR = re.compile("[¼-¾⅐-⅞]")
_RAISED = re.compile("[⁰¹²³⁴-⁹⁻]+")
_ROOT = re.compile(r"√\s*(?:\{([^{}]*)\}|\(([^()]*)\)|(\d+(?:\.\d+)?|\\?[a-zA-Z]+))")
_ABOUT = re.compile(r"^(?:\\approx(?![a-z])|≈)\s*")
_WHOLE_TEXT = re.compile(r"\\(?:text|mathrm|textbf|textrm|mbox|mathbf|textit)\s*\{([^{}]*)\}")
_GROUPED = re.compile(r"(?<![\d.,])(\d{1,3})((?:(?:\{,\}|,\\!|\\,|\\!)\s?\d{3})+)(?!\d)")
_THOUSANDS = re.compile(
    r"((?:[^\d.,(\[{]|(?<!\\)\{)*[1-9]\d{0,2})((?:,\d{3})+|(?: \d{3})+)(?![\d,])([^,]*)"
)
CJK = r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]"
"""A character of a script that puts no blanks between words: Chinese, Japanese; Korean endings."""
_LETTER = r"[a-zA-Z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0400-\u04ff]"
_UNIT = re.compile(
    r"\s*(?:\\(?:text|mathrm|textbf|textrm|mbox|rm)\s*\{(?P<worded>[^{}]*)\}"
    r"(?:\s*\^\s*\{?-?\d\}?)?"
    r"|\\frac\s*\{\s*\\(?:text|mathrm)\s*\{[^{}]*\}\s*\}\s*"
    r"\{\s*\\(?:text|mathrm)\s*\{[^{}]*\}(?:\s*\^\s*\{?\d\}?)?\s*\}"
    r"|(?:\^?\s*\{?\\circ\}?|°)\s*[CFK]?|\^\s*\{(?:\s*\\prime)+\s*\}|'{1,2}"
    r"|\^\s*\{?\s*\\(?:text|mathrm|textrm)\s*\{\s*(?:st|nd|rd|th)\s*\}\s*\}?|(?:st|nd|rd|th)\b"
    r"|(?:(?<=[\d\s.])(?:[cmkn]m|[km]?g|[mn]?s|ft|mi|in|hr|h|k?W|[kMG]?eV|[kMG]?Hz|[kM]?Pa|k?J|k?N|m(?=/s))"
    r"|(?<=\s)mL"
    rf"|(?<=\s)(?P<bare>{_LETTER}{{3,}}(?: {_LETTER}{{2,}})*)|(?<=[\d\s.])(?P<east>{CJK}+))"
    r"(?:/[a-z]{1,3})?(?:\s*\^\s*\{?-?\d\}?)?)$"
)
_LETTER_UNIT = re.compile(r"(?<=[\d.])\s+(?:L|m\s*\^\s*\{?[23]\}?)$")
"""Litres, square and cubic metres: in algebra they are variables."""
_SCALE = re.compile(
    r"\b(?:hundred|thousand|million|billion|trillion|dozen|(?:hundred|thousand|million|billion)th"
    r")s?\b|^\s*(?:squared|cubed|factorial)\b"
    r"|\b(?:mil|mille|mill[oó]n(?:es)?|bill[oó]n(?:es)?|milliards?|tausend|millionen|milliarden?"
    r"|milh(?:ão|ões)|bilh(?:ão|ões)|docenas?|douzaines?|dutzend|dúzias?)\b"
    r"|\b(?:тысяч|миллион|миллиард|дюжин)\w*"
    r"|^\s*(?:[十百万萬亿億割成折십백천만억조]|[千兆](?![克米瓦卡赫焦字比])|平方$|立方$)|半|[乘乗]|分之"
    r"|^\s*(?:half|halves|(?:third|fourth|fifth|sixth|seventh|eighth|ninth|tenth)s?)(?:\s+of\b|\s*$)",
    re.IGNORECASE,
)
_NO_UNIT = re.compile(r"\b(?:and|or|y|et|und|oder|и|или)\b|[<>=和或与與及]", re.IGNORECASE)
TEXT = re.compile(r"\\(?:text|mathrm|textbf|textrm|mbox|mathbf|textit|operatorname)\s*\{([^{}]*)\}")
"""Text within a formula."""
_PERCENT = re.compile(r"\s*(?:\\?%|\bper ?cent(?:age)?\b)\s*")
_DECIMAL = r"(?:\d+\.?\d*|\.\d+)"
_NUMBER = re.compile(
    rf"(?P<sign>[-+]?)(?:(?P<mantissa>{_DECIMAL})"
    rf"(?:[eE](?P<exponent>[-+]?\d+)|\\(?:overline|bar)\{{?(?P<repeating>\d+)\}}?)?"
    rf"|(?:(?P<factor>{_DECIMAL})(?:\\times|\\cdot|\*|×|x))?10\^\{{?(?P<power>[-+]?\d+)\}}?"
    rf"|(?P<whole>\d*)\\frac\{{?(?P<top>[-+]?{_DECIMAL}|\d)\}}?\{{?(?P<bottom>{_DECIMAL})\}}?"
    rf"|(?P<over>{_DECIMAL})/(?P<under>{_DECIMAL}))"
)
_IN_BASE = re.compile(
    r"-?\(?(?:[\d.][\dA-Z. ]*|\\(?:text|mathrm)\{[\dA-Z.]+\})\)?\s*_\s*\{?\s*(\d{1,4})\s*\}?"
)
_MIXED = re.compile(r"([-+]?) ?(\d+) (\d+) ?/ ?(\d+)")
_TWO_NUMBERS = re.compile(r"\d [\d.]")


class Number(NamedTuple):
    """A number as it was written."""

    value: Fraction
    rounded: bool
    """Written with a decimal point or as a power of ten, so that it may stand for another one."""
    percent: bool


def tidy(answer: str, *, thousands: bool = True) -> str:
    r"""The answer without what carries no meaning: delimiters, spacing, `\left`, a final stop.

    With `thousands`, `54,108` is taken for one number and not for a list of two. Within brackets it
    never is: `(2,251,252)` has three coordinates.
    """
    text = _FONT.sub(" ", in_latex(answer))
    # Wrappers hide in wrappers, as in $\text{{5}}.$: until nothing changes any more.
    changed = True
    while changed:
        before = text
        text = (
            text.strip().rstrip(".,;:。，；").strip()
            if not text.endswith((r"\,", r"\;"))
            else text[:-2]
        )
        for start, end in _WRAPPERS:
            if len(text) > len(start) + len(end) and text.startswith(start) and text.endswith(end):
                inner = text[len(start) : -len(end)]
                if start.strip("$") or "$" not in inner:
                    text = inner
        if text.startswith("{") and text.endswith("}") and braces_match(text[1:-1]):
            text = text[1:-1]
        text = _ABOUT.sub("", text)
        inside = _WHOLE_TEXT.fullmatch(text)
        text = inside[1] if inside else text
        changed = text != before
    text = _GROUPED.sub(_joined, text)
    if thousands and _THOUSANDS.fullmatch(text):  # "27,54,108" is a list
        text = _THOUSANDS.sub(_joined, text)
    text = (
        text.replace(r"\dfrac", r"\frac").replace(r"\tfrac", r"\frac").replace(r"\cfrac", r"\frac")
    )
    text = text.replace(r"\langle", "(").replace(r"\rangle", ")")
    text = _NOISE.sub(lambda match: match.group(1) or " ", text)
    return " ".join(text.split())


def in_latex(answer: str) -> str:
    r"""The answer with Unicode's mathematical signs in LaTeX: `2√3 x²` as `2\sqrt{3} x^{2}`."""
    text = answer.translate(_SIGNS)
    if text.isascii():
        return text
    text = _VULGAR.sub(lambda m: r"\frac{{{}}}{{{}}}".format(*_plain(m[0]).split("⁄")), text)
    text = _RAISED.sub(lambda m: f"^{{{_plain(m[0])}}}", text)
    return _ROOT.sub(lambda m: rf"\sqrt{{{m[1] or m[2] or m[3]}}}", text)


def _plain(signs: str) -> str:
    return unicodedata.normalize("NFKC", signs).replace("−", "-")


def _joined(match: re.Match[str]) -> str:
    first, groups, *rest = match.groups()
    return str(first) + re.sub(r"\D", "", groups) + "".join(rest)


def braces_match(text: str) -> bool:
    r"""Whether every brace that is not escaped (`\{`) has its counterpart."""
    depth = 0
    for token in _BRACE.findall(text):
        depth += (token == "{") - (token == "}")
        if depth < 0:
            return False
    return depth == 0


def plain(answer: str) -> str:
    """`tidy` as plain lower-case text without spaces or markup, for answers in words."""
    text = TEXT.sub(r"\1", tidy(answer))
    return re.sub(r"[\s\\$*_{}]|(?:^|\s)the\s", "", text).casefold()


def words(answer: str) -> str | None:
    r"""The words of an answer that is nothing but words (`\text{Evelyn}`, `east`), or None."""
    text = TEXT.sub(r" \1 ", tidy(answer)).strip(" *_()")
    if re.fullmatch(r"[^\W\d_]+(?:[\s'-]+[^\W\d_]+)*", text) and len(text) > 1:
        return " ".join(text.casefold().split())
    return None


def is_product(words: str) -> bool:
    r"""Whether words may be variables and their products: `AB`, `p - q`, but not `\text{no}`."""
    return not TEXT.search(words) and not re.search(r"[^\W\d_]{3}", words)


def number(answer: str, *, letters: bool = False) -> Number | None:
    r"""The number that an answer is, or None if it is anything else.

    `letters`: whether a letter may be a unit, as in `8 L` and `3 m^2`. It may where the answer that
    it is compared with has none.
    """
    if len(answer) > MAX_DIGITS:
        return None
    text = tidy(answer)
    text, percents = _PERCENT.subn("", text)
    text = re.sub(r"\\?\$|[€£¥￥₽₹]", "", text)
    text = _LETTER_UNIT.sub("", text.strip()) if letters else text
    match = None
    for _ in range(3):  # `5 \text{ cm}^2` has two things to drop
        match = _written(text)
        # Unit after unit is taken off from the end, until a number is left.
        if match or not text:
            break
        unit = _UNIT.search(text)
        if unit is None or _NO_UNIT.search(_word(unit)) or _SCALE.search(_word(unit)):
            return None
        text = text[: unit.start()]
    if not match:
        return None
    value = _value({name: group or "" for name, group in match.groupdict().items()})
    if value is None:
        return None
    rounded = any(mark in text for mark in (".", "e", "E", "times", "cdot", "10^"))
    return Number(value, rounded, percents > 0)


def _written(text: str) -> re.Match[str] | None:
    """The number that a text is: `2 1/2` is a mixed number, and `1 2` is none."""
    mixed = _MIXED.fullmatch(text)
    if mixed:
        text = r"{}{}\frac{{{}}}{{{}}}".format(*mixed.groups())
    return None if _TWO_NUMBERS.search(text) else _NUMBER.fullmatch(text.replace(" ", ""))


def base(answer: str) -> int | None:
    r"""The base that is written below a number (`4343_6`, `\text{A5}_{11}`), or None."""
    written = _IN_BASE.fullmatch(tidy(answer))
    return int(written[1]) if written else None


def scale(answer: str) -> str:
    r"""The word at the end that makes a number another one (`3 \text{ million}`), or nothing."""
    unit = _UNIT.search(tidy(answer))
    word = _SCALE.search(_word(unit)) if unit else None
    return word.group().strip().casefold() if word else ""


def _word(unit: re.Match[str]) -> str:
    return unit["worded"] or unit["bare"] or unit["east"] or ""


def same_number(a: Number, b: Number) -> bool:
    """Whether two written numbers agree, in any admissible reading of a percent sign.

    Where both have one there is nothing to choose: 500 % is not 5 %.
    """
    # A sign on one side alone may have been left out on the other.
    either = a.percent != b.percent
    readings_a = [a.value, a.value / 100] if a.percent and either else [a.value]
    readings_b = [b.value, b.value / 100] if b.percent and either else [b.value]
    rounded = a.rounded or b.rounded
    return any(x == y or (rounded and close(x, y)) for x in readings_a for y in readings_b)


def close(a: Fraction, b: Fraction) -> bool:
    """Whether one may be the other's rounding: see `TOLERANCE`."""
    return abs(a - b) <= TOLERANCE * min(Fraction(1), max(abs(a), abs(b)))


def _value(parts: dict[str, str]) -> Fraction | None:
    sign = -1 if parts["sign"] == "-" else 1
    exponent = int(parts["exponent"] or parts["power"] or 0)
    if abs(exponent) > MAX_EXPONENT:
        return None
    scale = Fraction(10) ** exponent
    if parts["repeating"]:  # 0.1\overline{6} is 0.1 + 6/90
        integer, point, decimals = parts["mantissa"].partition(".")
        period = Fraction(int(parts["repeating"]), 10 ** len(parts["repeating"]) - 1)
        return (
            sign * (Fraction(f"{integer}.{decimals}") + period / 10 ** len(decimals))
            if point
            else None
        )
    if parts["mantissa"]:
        return sign * Fraction(parts["mantissa"]) * scale
    if parts["power"]:
        return sign * Fraction(parts["factor"] or "1") * scale
    top, bottom = parts["top"] or parts["over"], parts["bottom"] or parts["under"]
    if not Fraction(bottom):
        return None
    return sign * (Fraction(parts["whole"] or 0) + Fraction(top) / Fraction(bottom))
