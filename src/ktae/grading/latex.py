r"""The characters of an answer in one way of writing: plain LaTeX, without what carries no meaning.

`clean` drops, on purpose and nothing else: delimiters of formulas, thin spaces and `\left`, fonts,
sizes and colours, a final stop, quotes around all of it. What it does not know, it leaves.
"""

from __future__ import annotations

import itertools
import re
import tomllib
import unicodedata
from collections.abc import Container, Iterable
from importlib import resources

TABLES = tomllib.loads(resources.files("ktae.grading").joinpath("tables.toml").read_text("utf-8"))
UNITS, SIGNS, BASES = TABLES["units"], TABLES["signs"], TABLES["bases"]
SYNONYMS = {words: sign for sign, some in TABLES["synonyms"].items() for words in some}

Rewriting = tuple[re.Pattern[str], str]  # a pattern and what stands for it


def table(name: str, **names: str) -> tuple[Rewriting, ...]:
    """A table of `tables.toml`: lines with a pattern, an arrow and what stands for it."""
    text = TABLES["rewriting"][name]
    for pattern, long in names.items():
        text = text.replace(pattern, long)
    rows = (line.partition("→") for line in text.splitlines() if "→" in line)
    return tuple((re.compile(old.strip()), new.strip().replace("␣", " ")) for old, _, new in rows)


def rewritten(text: str, rows: Iterable[Rewriting]) -> str:
    """The text after one replacement after another."""
    for pattern, replacement in rows:
        text = pattern.sub(replacement, text)
    return text


NAME = r"\\?[A-Za-z]\w*'*(?:\s*_\s*(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)?\}|\w))?'*"
"""A letter, word or command with its subscript and primes."""
TEXT = re.compile(
    r"\\(?:text|mathrm|textbf|textrm|mbox|textit|textup|operatorname|emph|rm)\s*\{\s*([^{}]*?)\s*\}"
)
"""Text within a formula."""
_STYLE = table("style", STYLES=SIGNS["styles"], SIZES=SIGNS["sizes"], TEXT=TEXT.pattern)
_WRAPPED = table("wrapped", TEXT=TEXT.pattern)
_OTHER_NAMES = {
    rf"\{name}": other for name, other in (pair.split() for pair in SIGNS["commands"].split("|"))
}
_GROUPED = re.compile(r"(?<![\d.,])(\d{1,3})((?:(?:\{,\}|,\\!|\\,|\\!)\s*\d{3})+)(?!\d)")
_THOUSANDS = re.compile(
    r"((?:[^\d.,(\[{]|(?<!\\)\{)*[1-9]\d{0,2})((?:,\d{3})+|(?: \d{3})+)(?![\d,])([^,]*)"
)
_SPACED = table("spaces", SPACES=SIGNS["spaces"])
_FRACTIONS = {c: unicodedata.normalize("NFKC", c).split("⁄") for c in "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"}
_TRANSLATED = str.maketrans(
    SIGNS["plain"]
    # Full-width signs, letters and digits.
    | {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    | dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻ⁿ₀₁₂₃₄₅₆₇₈₉", "0123456789-n0123456789", strict=True))
    | {sign: rf"\frac{{{top}}}{{{under}}}" for sign, (top, under) in _FRACTIONS.items()}
    | {pair[0]: rf"\{pair[2:]} " for pair in SIGNS["latex"].split("|")}
)
_ROOT = re.compile(r"√\s*(?:\{([^{}]*)\}|\(([^()]*)\)|(\d+(?:\.\d+)?|\\?[a-zA-Z]+))")
CJK = r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]"
"""A character of a script that puts no blanks between words: Chinese, Japanese; Korean endings."""
_TOKEN = re.compile(
    rf"\\text\{{[^{{}}]*\}}|\\(?:[a-zA-Z]+|.)|[<>!:=]=|[A-Z]?[a-zà-ỹ]+|{CJK}+|(?:(?!{CJK})[^\W\d_])+|\s+|.",
    re.DOTALL,
)
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


def clean(answer: str, *, thousands: bool = True) -> str:
    r"""The answer without what carries no meaning.

    With `thousands`, `54,108` is taken for one number and not for a list of two. Within brackets it
    never is: `(2,251,252)` has three coordinates.
    """
    text = answer
    if not text.isascii():  # "2√3 x²" as "2\sqrt{3} x^{2}"
        text = " ".join("".join(c for c in text if unicodedata.category(c) != "Cf").split())
        text = re.sub("[₀-₉]+", r"_{\g<0>}", re.sub("[⁰¹²³⁴-⁹⁻ⁿ]+", r"^{\g<0>}", text))
        text = _ROOT.sub(r"\\sqrt{\1\2\3}", text.translate(_TRANSLATED))
    text, before = rewritten(text, _STYLE), ""
    while text != before:  # wrappers hide in wrappers, as in $\text{{5}}.$
        before = text
        for ending in (r"\!", r"\quad", r"\qquad", r"\newline"):
            text = text.strip().rstrip(".,;: \\").removesuffix(ending)
        if text.startswith("{") and text.endswith("}") and braces_match(text[1:-1]):
            text = text[1:-1]
        text = rewritten(text, _WRAPPED)
    text = re.sub(r"\\[a-zA-Z]+", lambda m: _OTHER_NAMES.get(m[0], m[0]), text)
    text = _GROUPED.sub(lambda m: m[1] + re.sub(r"\D", "", m[2]), text)
    if thousands and (number := _THOUSANDS.fullmatch(text)):  # "27,54,108" is a list
        text = number[1] + re.sub(r"\D", "", number[2]) + number[3]
    return " ".join(rewritten(text, _SPACED).split())


def braces_match(text: str) -> bool:
    r"""Whether every brace that is not escaped (`\{`) has its counterpart."""
    steps = ((token == "{") - (token == "}") for token in _BRACE.findall(text))
    depths = [*itertools.accumulate(steps, initial=0)]
    return not (min(depths) or depths[-1])


def is_deep(text: str) -> bool:
    """Whether 25 braces close at one place: to take them apart would take seconds."""
    return "}" * 25 in re.sub(r"[\s\\]", "", text)


def cut(text: str, roles: Container[str]) -> tuple[list[str], list[str]]:
    """The parts between tokens with a role that stand outside all brackets, and these tokens."""
    parts, separators, depth = [""], [], 0
    for token in _TOKEN.findall(text):
        is_text = token.startswith(r"\text{")
        name = re.sub(r"[\s,]", "", token) if is_text else token
        if depth <= 0 and name in roles:
            separators.append(name)
            parts.append("")
            continue
        if not is_text:
            depth += (token == r"\begin") + (token[-1] in "([{")
            depth -= (token == r"\end") + (token[-1] in ")]}")
        parts[-1] += token
    return [part.strip() for part in parts], separators


def plain(answer: str) -> str:
    """`clean` without blanks and needless braces, words in lower case: to compare as text."""
    text = re.sub(r"(?:^|\s)the\s|\s|\\quad|\*\*", "", TEXT.sub(r"\1", clean(answer)))
    is_words = re.search(r"(?<![\\a-zA-Z])[^\W\d_A-Z]{3}", text)
    text = re.sub(r"\{(.)\}", r"\1", re.sub(r"\{(.)\}", r"\1", text))
    return text.casefold() if is_words else text


def words(answer: str) -> str | None:
    r"""The words of an answer that is nothing but words (`\text{Evelyn}`, `east`), or None."""
    text = TEXT.sub(r" \1 ", clean(answer)).strip(" *_()")
    if len(text) > 1 and re.fullmatch(r"[^\W\d_]+(?:[\s'-]+[^\W\d_]+)*", text):
        return " ".join(text.casefold().split())
    return None
