r"""What an answer is: a normal form, the same for what is accepted and for what a response gives.

`read` takes an answer apart from the outside to the inside: clauses (`, k \in \mathbb{Z}`), a
choice, lists, relations and names, sets and tuples, units, and then a number, a ratio, words or an
expression. Nothing is evaluated here. A `Form` says which it is.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from enum import StrEnum

from ktae.grading import latex, values
from ktae.grading.expressions import TRIGONOMETRIC
from ktae.grading.latex import BASES, NAME, SYNONYMS, TABLES, TEXT


class Kind(StrEnum):
    """What an answer can be."""

    NUMBER = "number"
    DIGITS = "digits"  # in the base `detail`, or of a ratio, date or time
    CHOICE = "choice"
    WORDS = "words"
    LIST = "list"  # in any order, joined by `detail`: `,` `and` `or`
    SET = "set"
    TUPLE = "tuple or interval"  # `detail` has both brackets
    UNION = "union"  # of sets, joined by the sign in `detail`
    RELATION = "relation"  # `detail` has the signs between the parts, joined by blanks
    EXPRESSION = "expression"  # whatever remains; it may not parse


@dataclass(frozen=True)
class Form:
    """An answer in its normal form."""

    kind: Kind
    text: str  # all of it, clean; `body` is without name, unit and clause
    body: str = ""
    parts: tuple[Form, ...] = ()
    detail: str = ""
    name: str = ""  # the left side of `x = 5`
    unit: str = ""
    parameter: str = ""  # the letter of a clause such as `, k \in \mathbb{Z}`
    number: values.Number | None = None
    source: str = ""  # as it was given


_CLAUSE = re.compile(
    r"(?:,|\\quad|\(|(?=\\text)|\s)\s*(?:\\text\{)?,?\s*(?:"
    r"(?:where|for (?:any|all|every|some|each)|with(?!.*,))\b(?:(?!\bor\b|;).)*"
    r"|(?:(?:for|where|with)\}?\s*)?[a-zA-Z]\s*(?:\\in|in|\\text\{in\})\s*\\?(?:mathbb)?[\s{]*[ZN](?![a-z]).{0,9})$",
    re.DOTALL,
)
_INTEGER = re.compile(r"\binteger\w*[\s}$]*([a-z])\b|\b([a-zA-Z])[\s}]*(?:is|in|\\in|\\text\{in)\b")
_OPTION = r"(?:[Oo]ption|[Cc]hoice|选项)\s*"
_DENIED = (
    r"(?:is\s+(?:not|wrong|false|incorrect)|or|and|nor)\b"
    r"|(?:wrong|incorrect|(?:[Nn]ot?\b.*)?\(?\b[A-H])\W*$"
)
"""Behind a choice: it is not the only one, or none."""
_CHOICE = re.compile(
    rf"(?:{_OPTION})?\s*(?:\{{?\(([A-Za-h])\)\}}?|([A-Z])[).]|\(?([A-Z])\)?\s*:)"
    rf"(?:(?:(?:\s|\\quad)+|(?<=:))(?![-+*/=^]\s|[+*/=^_]|{_DENIED})(\S.*))?|{_OPTION}([A-Z])",
    re.DOTALL,
)
"""Alone (`(C)`, `option C`) or with its value (`\textbf{(C) } 12`, `C: 12`)."""
_ANOTHER = re.compile(r"(?<!\w)\(?[A-Z][).:]\s")
_ROWS = re.compile(
    r"(?:\\\{\s*|[(\[]\s*)?\\begin\{([dr]?cases|aligned|array|gathered|align\*?|split"
    r"|(?P<matrix>[pbBs]?(?:small)?matrix))\}(?:\{[lcr| ]*\})?(?P<rows>(?:(?!\\begin|\\end).)*)"
    r"\\end\{\1\}(?:\s*[)\]])?",
    re.DOTALL,
)
_NEXT_ROW = (r"\\", r"\newline")
_IF = re.compile(r"\\text\{(?:if|for|when|,)?\}|^\s*(?:if|for|when)\b")
_JOINS = dict.fromkeys((",", r"\quad", *_NEXT_ROW), ",") | {";": ";"}
_JOINS |= {r"\land": "and", r"\&": "and", r"\lor": "or"}
for _role, _words in TABLES["joins"].items():
    _JOINS |= {rf"\text{{{word}}}": _role for word in _words}
    _JOINS |= {word: _role for word in _words if len(word) > 1 or not word.isascii()}
_LOOSEST_FIRST = [
    {token for token in _JOINS if _JOINS[token] in roles}
    for roles in ((";",), ("or",), (",", "and", "or"))
]
_SPELLED = {"<=": r"\le", ">=": r"\ge", "!=": r"\ne", ":=": "=", "==": "=", "≈": r"\approx"}
_SIGNS = {*_SPELLED, "<", ">", "="} | {rf"\{name}" for name in TABLES["signs"]["relations"].split()}
_ROUNDED = (r"\approx", r"\sim")
_SUM = re.compile(r"(?=.*\d\s*(?:[-+*]|\\times|\\cdot))(?:[\d\s+*()-]|\\times|\\cdot)+")
_CALL = r"\s*\((?:[^()]|\([^()]*\))*\)"
_NAME = re.compile(
    rf"{NAME}(?:\^\{{?\\?[*'\w-]+\}}?(?=\s*\())?(?:{_CALL})?"
    r"|\|\s*\\?[A-Za-z]\w*\s*\||\[[A-Z]+\]|m?\\(?:angle|triangle|measuredangle|overline|text|vec|hat"
    rf"|bar|widehat|overrightarrow|dot|ddot|mathcal|Delta)\s*(?:\{{[^{{}}]*\}}|\\?[A-Za-z]+)(?:\s*\\?[A-Z]+)?(?:{_CALL})?"
    rf"|\((?:\s*{NAME}\s*,)+\s*{NAME}\s*\)|{NAME}(?:\s*:\s*{NAME})+"
    r"|\\frac\{(?:[A-Z]+|d[a-z])\}\{(?:[A-Z]+|d[a-z])\}|[A-Za-z]+(?: [A-Za-z]+){0,4}"
)
_NO_NAME = re.compile(r"(?:[a-z]{2,3}|e|i|\\pi)=|[a-z]?[A-Z]{2,}=[A-Za-z]+$|[a-z][A-Z]=[A-Za-z]+$")
"""A product, or a constant; AB is the name of a length, but not in AB = AC."""
_NAME_OF_BRACKETS = re.compile(
    r"[A-Z]'?(?:_\{?\w\}?)?\s*(?=\()|[A-Za-z]\s*(?=\([^()\[\]]*\]$|\[[^()\[\]]*\)$)"
)
_BRACKETS = re.compile(r"(\\\{|[(\[])(.*)(\\\}|[)\]])", re.DOTALL)
_PLUS_MINUS = re.compile(r"\\(pm|mp)(?![a-z])\s*|±")
_IN_BASE = re.compile(
    r"(-?)\(?\s*((?:[\d.][\dA-Z. ]*|(?=[A-F]*\d)[\dA-F]+|[\da-fA-F]+(?=\s*_\s*\{16)"
    r"|\\text\{[\dA-Z.]+\}))\s*\)?\s*_\s*(?:\{\s*(?:\\text\{)?(\d{1,4}|[a-z]{3,9})\}?\s*\}|(\d))"
)
_PRODUCT = re.compile(r"(?=\w*[a-z])(?:[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ]|[xz]y|y[xz])+")
"""Letters without a vowel, not all of them capitals: `mgh` is no word, and `gym` is one."""
_CONGRUENCE = re.compile(
    r"(?:.*\\equiv)?\s*(-?\d{1,99})(?:,|\\quad)?[\s(]*\\p?mod[\s{]*([1-9]\d{0,99})[\s})]*"
)
_LONGEST = 10_000
"""Characters of an answer that is taken apart."""


@functools.lru_cache(maxsize=512)
def read(answer: str, *, thousands: bool = True) -> Form:
    """The normal form of an answer; with `thousands`, `54,108` is one number and no list of two."""
    if len(answer) > _LONGEST or latex.is_deep(answer):
        return Form(Kind.EXPRESSION, answer, answer, source=answer)
    text = latex.clean(answer, thousands=thousands)
    if congruence := _CONGRUENCE.fullmatch(text):
        text = rf"{int(congruence[1]) % int(congruence[2])} \pmod{{{congruence[2]}}}"
    form = _read(text, is_text=bool(TEXT.search(answer)))
    return replace(form, text=text, source=answer)


def key(answer: str) -> str:
    """One text for all ways of writing an answer that need no algebra: votes are counted by it."""
    # Taking a very long one apart has no time limit here: it stands for itself.
    if len(answer) > values.MAX_DIGITS:
        return answer
    form = read(answer)
    if form.detail == "=" and _SUM.fullmatch(form.parts[0].body):  # "96 + 60 = 156" is 156
        form = form.parts[1]
    if form.kind is Kind.WORDS:  # in lower case
        return form.body
    return str(form.number.value) if form.number else latex.plain(answer)


def _read(text: str, *, is_text: bool = False) -> Form:
    text = SYNONYMS.get(" ".join(TEXT.sub(r" \1 ", text).casefold().split()), text)
    clause = _CLAUSE.search(text) if len(text) < values.MAX_DIGITS else None
    if clause and clause.start():
        integer = _INTEGER.search(clause[0])
        parameter = (integer and (integer[1] or integer[2])) or ""
        return replace(_read(text[: clause.start()].strip(" ,")), text=text, parameter=parameter)
    text = _in_one_line(text)
    plain = latex.clean(TEXT.sub(r" \1 ", text)) if TEXT.search(text) else text
    if choice := _CHOICE.fullmatch(plain):
        letter, value = [*filter(None, choice.groups()), ""][:2]
        if letter and not _ANOTHER.search(value):
            return Form(Kind.CHOICE, text, letter, (_read(value),) if value else ())
    if several := _list(text):
        return several
    parts, signs = latex.cut(text, _SIGNS)
    if len(parts) > 1 and all(parts):
        return _relation(text, parts, [_SPELLED.get(sign, sign) for sign in signs])
    for sign in (r"\cup", r"\cap", r"\setminus"):
        parts = latex.cut(text, (sign,))[0]
        if len(parts) > 1:
            return Form(Kind.UNION, text, text, tuple(map(_read, parts)), sign)
    name = _NAME_OF_BRACKETS.match(text)
    bare = text[name.end() :] if name else text
    brackets = _BRACKETS.fullmatch(bare)
    if brackets and not latex.cut(brackets[2], (r"\}", ")", "]"))[1]:
        left, inner, right = brackets.groups()
        parts = latex.cut(inner, ",;")[0]
        if left == r"\{":
            elements = [e for part in parts for e in _both_signs(part)] if inner.strip() else []
            return Form(Kind.SET, bare, bare, tuple(map(_read, elements)), "{}")
        if len(parts) > 1 and all(parts):
            return Form(Kind.TUPLE, bare, bare, tuple(map(_read, parts)), left + right)
    return _leaf(text, is_text)


def _in_one_line(text: str) -> str:
    """Rows of a system as a list, those of cases as one of tuples, a column as a tuple."""
    match = _ROWS.fullmatch(text)
    if match is None:
        return text
    lines, _ = latex.cut(match["rows"].replace(r"\hline", ""), _NEXT_ROW)
    rows = [latex.cut(line, "&")[0] for line in lines if line]
    is_column = all(len(row) == 1 for row in rows)
    if match["matrix"] or text[0] in "([":
        return f"({', '.join(row[0] for row in rows)})" if is_column else text
    # "x &= 5" is a row of a system; "x & x > 0" is one of cases.
    is_system = all(row[1].startswith("=") or not row[0] for row in rows if len(row) > 1)
    return ", ".join(
        " ".join(row).strip(" ,")
        if is_system or len(row) == 1
        else f"({', '.join(_IF.sub('', cell).strip(' ,') for cell in row)})"
        for row in rows
    )


def _list(text: str) -> Form | None:
    r"""What is joined by `;`, "or", a comma or "and", and both values of `1 \pm x`."""
    roles = {_JOINS[token] for token in latex.cut(text, _JOINS)[1]}
    elements = [text]
    for level in _LOOSEST_FIRST:
        parts = [p for part in latex.cut(text, level)[0] if (p := part.strip(" ,"))]
        # In "x = 1, y = 2 or x = 3, y = 4" the commas are within elements, as they are beside ";".
        is_nested = "and" in roles or all("," in part and "=" in part for part in parts)
        if len(parts) > 1 and (level is not _LOOSEST_FIRST[1] or is_nested):
            elements = parts
            break
    elements = [each for element in elements for each in _both_signs(element)]
    if len(elements) == 1:
        return None
    role = "or" if "or" in roles else "and" if "and" in roles else ","
    return Form(Kind.LIST, text, text, tuple(map(_read, elements)), role)


def _both_signs(text: str) -> list[str]:
    r"""Both elements of `1 \pm x`; of several signs all the upper ones, then all the lower ones."""
    if not _PLUS_MINUS.search(text) or text.startswith(r"\{"):
        return [text]
    upper, lower = (
        _PLUS_MINUS.sub(lambda m, s=signs: s[m[1] == "mp"], text)  # type: ignore[misc]
        for signs in ("+-", "-+")
    )
    return [re.sub(r"(^|=\s*)\+", r"\1", upper), lower]


def _relation(text: str, parts: list[str], signs: list[str]) -> Form:
    r"""A relation; what `x = 5`, `x \in S`, `x = a = b` and `a \approx b` say is named or bare."""
    has_name = bool(_NAME.fullmatch(parts[0])) and not _NO_NAME.match(f"{parts[0]}={parts[-1]}")
    numbers = [leaf.number for leaf in map(_leaf, parts) if leaf.number and not leaf.unit]
    integers = {n.value for n in numbers if not n.step and n.value.denominator == 1}
    if len(integers) > 1 and {*signs} <= {"=", *_ROUNDED}:
        return Form(Kind.RELATION, text, text, detail="contradiction")  # "x = 41 = 42"
    if signs[0] in _ROUNDED and has_name:
        signs[0] = "="
    rounded = next((i for i, sign in enumerate(signs) if sign in _ROUNDED), len(signs))
    if rounded == 0:  # a sum of whole numbers needs no rounding: "98 - 63 ≈ 21" states 21
        return _read(parts[1 if _SUM.fullmatch(parts[0]) else 0])
    parts, signs = parts[: rounded + 1], signs[:rounded]
    if set(signs) <= {">", r"\ge"}:
        parts, signs = parts[::-1], [{">": "<", r"\ge": r"\le"}[sign] for sign in signs[::-1]]
    if signs == [r"\in"] and has_name:
        return replace(_read(parts[1]), text=text)
    if set(signs) == {"="} and has_name:
        value = _read(parts[-1])
        if not value.name and value.kind is not Kind.RELATION:
            return replace(value, text=text, name=parts[0])
    return Form(Kind.RELATION, text, text, tuple(map(_leaf, parts)), " ".join(signs))


def _leaf(text: str, is_text: bool = False) -> Form:
    """A number, a ratio or date, a number in a base, words, or an expression, and its unit."""
    if "_" in text and (base := _IN_BASE.fullmatch(text)):
        digits = re.sub(r"\\text|[\s{}()]", "", base[2])
        number = base[3] or base[4]
        return Form(Kind.DIGITS, text, base[1] + digits.upper(), detail=BASES.get(number, number))
    bare, unit = text, ""
    if not (r"\circ" in text and TRIGONOMETRIC.search(text)):
        bare, unit = values.without_units(text)
    if values.RATIO.fullmatch(bare):
        return Form(Kind.DIGITS, text, re.sub(r"\b0+(?=\d)|\s", "", bare), unit=unit)
    if (value := values.written(bare)) is not None:
        unit = unit or "%" * value.is_percent
        return Form(Kind.NUMBER, text, bare, unit=unit, number=value)
    spelled = latex.words(text)
    is_word = re.search(r"[^\W\d_]{3}|^[Nn]o$", text) and not _PRODUCT.fullmatch(text)
    if spelled and (is_text or TEXT.search(text) or is_word):
        return Form(Kind.WORDS, text, spelled)
    return Form(Kind.EXPRESSION, text, bare, unit=unit)
