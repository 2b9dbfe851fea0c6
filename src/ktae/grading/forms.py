r"""What an answer is: a normal form, the same for what is accepted and for what a response gives.

`read` takes an answer apart from the outside to the inside: clauses (`, k \in \mathbb{Z}`), a
choice, lists, relations and names, sets and tuples, units, and then a number, a date or time, a
number in a base, words or an expression. Nothing is evaluated here. A `Form` says which it is.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate

from ktae.grading import latex, notation, units, values
from ktae.grading.expressions import TRIGONOMETRIC
from ktae.grading.latex import TEXT
from ktae.grading.tables import AND, BASES, OR, SYNONYMS


class Kind(StrEnum):
    """What an answer can be."""

    NUMBER = "number"
    MOMENT = "date, time or ratio"
    BASED = "number in a base"
    CHOICE = "choice"
    WORDS = "words"
    LIST = "list"
    """Elements in any order, joined by `detail`: `,` `;` `and` `or`."""
    SET = "set"
    TUPLE = "tuple or interval"
    """Elements in order; `detail` has both brackets."""
    UNION = "union"
    """Sets joined by the sign in `detail`."""
    MATRIX = "matrix"
    RELATION = "relation"
    """`detail` has the signs between the parts, joined by blanks."""
    EXPRESSION = "expression"
    """Whatever remains; it may not parse."""


@dataclass(frozen=True)
class Form:
    """An answer in its normal form."""

    kind: Kind
    text: str
    """All of it, clean."""
    body: str
    """Without name, unit and clause."""
    parts: tuple[Form, ...] = ()
    name: str = ""
    """The left side of `x = 5`."""
    unit: str = ""
    detail: str = ""
    parameter: str = ""
    """The letter of a clause such as `, k \\in \\mathbb{Z}`."""
    number: values.Number | None = None
    source: str = ""
    """As it was given."""
    is_text: bool = False
    """It stands in `\\text{}`, so that its letters are no factors."""


_CLAUSE = re.compile(
    r"\s*(?:,|\\quad|(?=\\text)|(?=\s(?:where|for|with)\b)|(?P<bracket>\())\s*(?:\\text\s*\{\s*)?,?\s*"
    r"(?:(?:where|for (?:any|all|every|some|each)|with)\b.*"
    r"|(?:(?:for|where|with)\s*\}\s*)?(?P<letter>[a-zA-Z])\s*(?:\}\s*)?(?:\\in|\bin\b|∈|\\text\s*\{\s*in\s*\})\s*"
    r"(?:\\mathbb\s*\{?\s*[ZN]\s*\}?(?:\s*[\^_]\s*\{?[+*\d]\}?)?|\\?[ZN]\b)\s*(?(bracket)\)))\s*\}?$",
    re.DOTALL,
)
_OF_INTEGERS = re.compile(
    r"\binteger\w*\s*\}?\s*\$?([a-z])\b|\b([a-z])\s*(?:is|\\in|in)\b[^,]*?(?:integer|\\mathbb\s*\{?[ZN])"
)
_LETTERS = r"(?:[Oo]ption|[Cc]hoice|选项)?\s*"
_MARK = rf"{_LETTERS}(?:\{{?\(([A-Z])\)\}}?|([A-Z])[).])"
_CHOICE = re.compile(rf"{_MARK}|(?:[Oo]ption|[Cc]hoice|选项)\s*([A-Z])")
_WITH_VALUE = re.compile(rf"{_MARK}(?:\s|\\quad)+(?![-+*/=^]\s|[+*/=^_])(\S.*)", re.DOTALL)
_WITH_COLON = re.compile(
    r"\(?([A-Z])\)?\s*:\s*(?!\d+\s*$|[A-Z]\b)(\S.*)|([A-J])\s*:\s*(\d[\d./]*)", re.DOTALL
)
_ANOTHER = re.compile(r"(?<!\w)\(?[A-Z][).]\s")
_ROWS = re.compile(
    r"(?:\\\{\s*)?\\begin\{([dr]?cases|aligned|array|gathered|align\*?|split)\}(?:\{[lcr| ]*\})?"
    r"(.*)\\end\{\1\}",
    re.DOTALL,
)
_MATRIX = re.compile(
    r"(?:[(\[]\s*)?\\begin\{([pbBs]?(?:small)?matrix|array)\}(?:\{[lcr| ]*\})?"
    r"((?:(?!\\begin|\\end).)*)\\end\{\1\}(?:\s*[)\]])?",
    re.DOTALL,
)
_NEXT_ROW = re.compile(r"\s*(?:\\\\|\\newline(?![a-z]))\s*(?:\\hline)?")
_IF = re.compile(r"\\text\s*\{\s*(?:if|for|when|,)?\s*\}|^\s*(?:if|for|when)\b")
_NEXT_CELL = re.compile(r"\s*&\s*")


def _joins(words: list[str]) -> str:
    r"""In `\text{}`; bare between blanks or beside what is no lower-case letter."""
    long = "|".join(word for word in words if len(word) > 1 and word.isascii())
    other = "|".join(word for word in words if not word.isascii() and len(word) < 4)
    short = "|".join(word for word in words if len(word) == 1 and word.isascii())
    text = rf"\\(?:text|mathrm|textbf|mbox)\s*\{{\s*,?\s*(?:{long}|{other}|{short})\s*\}}"
    return (
        rf"{text}|(?<![A-Za-z\\])(?:{long})(?![a-z])|(?:{other})(?![^\W\d])"
        rf"|(?<=[\d)}}]\s)(?:{short})(?=\s[\d(\\-])"
    )


_AND = rf"(?:{_joins(AND)}|\\land(?![a-z])|\\&)"
_OR = rf"(?:{_joins(OR)}|\\lor(?![a-z])|\\cup(?=\s*[a-zA-Z]\s*(?:[<>]|\\[lg]e)))"
_COMMA = re.compile(rf"(?:\s*(?:,|\\quad|{_NEXT_ROW.pattern}|{_AND}|{_OR})\s*)+")
_SEMICOLON = re.compile(r"(?:\s*;\s*)+")
_IS_OR, _IS_AND = re.compile(_OR), re.compile(_AND)
_SIGN = re.compile(
    r"\s*(\\(?:le|ge|ne|in|notin|equiv|approx|sim|to|mapsto|cong|propto|subset|subseteq|Rightarrow"
    r"|Leftrightarrow|implies|perp|parallel|mid|ll|gg)(?![a-zA-Z])|<=|>=|!=|:=|==|≈|[<>=])\s*"
)
_SUM = re.compile(r"(?=.*\d\s*(?:[-+*]|\\times|\\cdot))(?:[\d\s+*()-]|\\times|\\cdot)+")
_SPELLED = {"<=": r"\le", ">=": r"\ge", "!=": r"\ne", ":=": "=", "==": "=", "≈": r"\approx"}
ORDER = ("<", ">", r"\le", r"\ge", r"\ne")
_CALL = r"\s*\((?:[^()]|\([^()]*\))*\)"
_NAME = re.compile(
    r"\\?[A-Za-z]\w*'*(?:\s*_\s*(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)?\}|\w))?'*(?:\^\{?\\?[*'\w]+\}?(?=\s*\())?"
    rf"(?:{_CALL})?"
    r"|\|\s*\\?[A-Za-z]\w*\s*\||\\(?:angle|triangle|measuredangle|overline|text|mathrm|operatorname|vec|hat"
    rf"|bar|widehat|overrightarrow|dot|ddot|mathcal|Delta)\s*(?:\{{[^{{}}]*\}}|\\?[A-Za-z]+)(?:\s*\\?[A-Z]+)?(?:{_CALL})?"
    r"|\((?:\s*\\?[A-Za-z]\w*(?:_\{?\w+\}?)?\s*,)+\s*\\?[A-Za-z]\w*(?:_\{?\w+\}?)?\s*\)"
    r"|[A-Za-z]\w?(?:_\{?\w+\}?)?(?:\s*:\s*[A-Za-z]\w?(?:_\{?\w+\}?)?)+"
    r"|\\frac\{[A-Z]+\}\{[A-Z]+\}|[A-Za-z]+(?: [A-Za-z]+){0,4}"
)
_FACTORS = re.compile(r"[a-z]{2,3}(?!\w)")
_POINT_NAME = re.compile(r"[A-Z]'?(?:_\{?\w\}?)?\s*(?=\()")
_SET_NAME = re.compile(r"[A-Za-z]\s*(?=\([^()\[\]]*\]$|\[[^()\[\]]*\)$)")
_CUP, _CAP = re.compile(r"\s*\\cup(?![a-z])\s*"), re.compile(r"\s*\\cap(?![a-z])\s*")
_MINUS = re.compile(r"\s*\\setminus(?![a-z])\s*|(?<=\})\s*-\s*(?=\\\{)")
_SUCH_THAT = re.compile(r"\s*(?:\\mid(?![a-z])|\||:|\\text\s*\{\s*such that\s*\})\s*")
_BRACE = re.compile(r"\\[{}]")
_INSIDE = re.compile(r"\s*[,;]\s*")
_PLUS_MINUS = re.compile(r"\\(pm|mp)(?![a-z])\s*|±")
_BASE = re.compile(
    r"-?\(?\s*(?P<digits>(?:[\d.][\dA-Z. ]*|[\dA-F]*\d[\dA-F]*|[\dA-F]+(?=\s*_\s*\{16)"
    r"|\\(?:text|mathrm)\s*\{[\dA-Z.]+\}))\s*\)?\s*_\s*"
    r"(?:\{\s*(?:\\(?:text|mathrm)\s*\{\s*)?(?P<base>\d{1,4}|[a-z]{3,9})\s*\}?\s*\}|(?P<digit>\d))"
)
LONGEST = 10_000
"""Characters of an answer that is taken apart."""
_PLAIN_NUMBER = re.compile(r"-?\d{1,40}(?:\.\d{1,40})?", re.ASCII)


@functools.lru_cache(maxsize=512)
def read(answer: str, *, thousands: bool = True, letters: bool = False) -> Form:
    """The normal form of an answer.

    Args:
        answer: as it stands in a response or a data set.
        thousands: `54,108` is one number, and not a list of two.
        letters: a letter behind a number may be a unit: see `ktae.grading.units`.
    """
    if _PLAIN_NUMBER.fullmatch(answer):  # most answers are
        return Form(Kind.NUMBER, answer, answer, number=values.written(answer))
    if len(answer) > LONGEST:
        return Form(Kind.EXPRESSION, answer, answer, source=answer)
    text = latex.clean(answer, thousands=thousands)
    form = _read(text, letters=letters, is_text=bool(TEXT.search(answer)))
    return replace(form, text=text, source=answer)


def _read(text: str, *, letters: bool = False, is_text: bool = False) -> Form:
    synonym = SYNONYMS.get(" ".join(TEXT.sub(r" \1 ", text).casefold().split()))
    text = synonym or text
    clause = _CLAUSE.search(text) if len(text) < values.MAX_DIGITS else None
    if clause and clause.start():
        integers = _OF_INTEGERS.search(clause.group())
        parameter = clause["letter"] or (integers and (integers[1] or integers[2])) or ""
        form = _read(text[: clause.start()].strip(" ,"), letters=letters)
        return replace(form, text=text, parameter=parameter)
    if choice := _choice(text):
        return choice
    if rows := _rows(text):
        return rows
    for separator in (_SEMICOLON, _IS_OR, _COMMA):
        parts = [part.strip(" ,") for part in latex.split(text, separator)]
        # In "x = 1, y = 2 or x = 3, y = 4" the commas are within elements, as they are beside ";".
        is_nested = _IS_AND.search(text) or all("," in part and "=" in part for part in parts)
        if separator is _IS_OR and not is_nested:
            continue
        if len(parts) > 1:
            elements = [e for part in parts if part for e in _expanded(part)]
            forms = tuple(_read(element, letters=letters) for element in elements)
            if len(forms) > 1:
                # Within a list "p = 5, q = 2" is the tuple (5, 2).
                forms = tuple(
                    replace(form, kind=Kind.TUPLE, detail="()")
                    if form.kind is Kind.LIST and all(part.name for part in form.parts)
                    else form
                    for form in forms
                )
                if forms[0].detail == r"\ne":  # "x \ne 2, 3" says so of both
                    forms = tuple(
                        replace(forms[0], text=f.text, parts=(forms[0].parts[0], f))
                        if f.number and not f.name
                        else f
                        for f in forms
                    )
                joined = "or" if _IS_OR.search(text) else "and" if _IS_AND.search(text) else ","
                return Form(Kind.LIST, text, text, forms, detail=joined)
    elements = [text] if _bracketed(text) else _expanded(text)
    if len(elements) > 1:
        return Form(Kind.LIST, text, text, tuple(_read(e) for e in elements), detail=",")
    return _element(text, letters=letters, is_text=is_text)


def _expanded(text: str) -> list[str]:
    r"""Both elements of `1 \pm x`; of several signs all the upper ones, then all the lower ones."""
    if not _PLUS_MINUS.search(text):
        return [text]
    upper = _PLUS_MINUS.sub(lambda m: "-" if m[1] == "mp" else "+", text)
    lower = _PLUS_MINUS.sub(lambda m: "+" if m[1] == "mp" else "-", text)
    return [re.sub(r"(^|=\s*)\+", r"\1", upper), lower]


def _choice(text: str) -> Form | None:
    r"""A choice, alone (`(C)`, `option C`) or with its value (`\textbf{(C) } 12`, `C: 12`)."""
    plain = latex.clean(TEXT.sub(r" \1 ", text)) if TEXT.search(text) else text
    if alone := _CHOICE.fullmatch(plain):
        letter = alone[1] or alone[2] or alone[3]
        return Form(Kind.CHOICE, text, letter, detail=letter)
    for pattern in (_WITH_VALUE, _WITH_COLON):
        match = pattern.fullmatch(plain)
        if match and not _ANOTHER.search(plain, match.end(1) + 1 if match[1] else 2):
            groups = [group for group in match.groups() if group]
            return Form(Kind.CHOICE, text, groups[0], (_read(groups[1]),), detail=groups[0])
    return None


def _rows(text: str) -> Form | None:
    """Rows of a system or of cases as a list; those of a matrix as tuples."""
    matrix, system = _MATRIX.fullmatch(text), _ROWS.fullmatch(text)
    is_matrix = bool(matrix and (matrix[1] != "array" or text[0] in "(["))
    match = matrix if is_matrix else system
    if match is None:
        return None
    rows = [latex.split(row, _NEXT_CELL) for row in latex.split(match[2], _NEXT_ROW) if row]
    # "x &= 5" is a row of a system; "x & x > 0" is one of cases.
    in_one = all(_SIGN.match(row[1]) or not row[0] for row in rows if len(row) > 1)
    forms = []
    for row in rows:
        if not is_matrix and (in_one or len(row) == 1):
            forms.append(_read(" ".join(row).strip(" ,")))
        else:
            cells = tuple(_read(_IF.sub("", cell).strip(" ,")) for cell in row)
            forms.append(Form(Kind.TUPLE, " ".join(row), "", cells, detail="()"))
    kind = Kind.MATRIX if is_matrix else Kind.LIST
    return Form(kind, text, text, tuple(forms), detail="" if is_matrix else "and")


def _element(text: str, *, letters: bool, is_text: bool) -> Form:
    """What is no list: a relation, a named value, a set, a tuple, or what cannot be taken apart."""
    parts, signs = latex.cut(text, _SIGN)
    if len(parts) > 1 and all(parts):
        return _relation(text, parts, [_SPELLED.get(s, s) for s in signs], letters=letters)
    for pattern, sign in ((_CUP, r"\cup"), (_CAP, r"\cap"), (_MINUS, r"\setminus")):
        parts = latex.split(text, pattern)
        if len(parts) > 1:
            return Form(Kind.UNION, text, text, tuple(map(_read, parts)), detail=sign)
    name = _POINT_NAME.match(text) or _SET_NAME.match(text)
    return _bracketed(text[name.end() :] if name else text) or _leaf(text, letters, is_text)


def _relation(text: str, parts: list[str], signs: list[str], *, letters: bool) -> Form:
    r"""A relation; what `x = 5`, `x \in S`, `x = a = b` and `a \approx b` say is named or bare."""
    rounded = [i for i, sign in enumerate(signs) if sign in (r"\approx", r"\sim")]
    if rounded[:1] == [0] and _SUM.fullmatch(parts[0]):
        # A sum of whole numbers needs no rounding: "98 - 63 ≈ 21" states 21.
        return _element(parts[1], letters=letters, is_text=False)
    if rounded and (rounded[0] > 0 or not _is_name(parts[0])):
        parts, signs = parts[: rounded[0] + 1], signs[: rounded[0]]
        if not signs:
            return _element(parts[0], letters=letters, is_text=False)
    elif rounded:
        signs = ["="]
        parts = parts[:2]
    if signs == [r"\in"] and _is_name(parts[0]):
        return replace(_read(parts[1]), text=text)
    if set(signs) == {"="} and _is_name(parts[0]):
        value = _read(parts[-1], letters=letters)
        if not value.name and value.kind is not Kind.RELATION:
            return replace(value, text=text, name=parts[0], parameter=value.parameter)
    forms = tuple(_leaf(part, letters, False) for part in parts)
    return Form(Kind.RELATION, text, text, forms, detail=" ".join(signs))


def _is_name(text: str) -> bool:
    """Whether it is one name: `x`, `AB`, `f(2)`, `(x, y)`; not `xy`, a product."""
    is_value = _FACTORS.fullmatch(text) or text in ("e", "i", r"\pi")
    return bool(_NAME.fullmatch(text)) and not is_value


def _bracketed(text: str) -> Form | None:
    """A tuple, an interval or a set; None where brackets are not all around it."""
    is_set = text.startswith(r"\{") and text.endswith(r"\}")
    left, right = (text[:2], text[-2:]) if is_set else (text[:1], text[-1:])
    inner = text[len(left) : -len(right)]
    is_round = left in ("(", "[") and right in (")", "]")
    depths = accumulate((c in "([{") - (c in ")]}") for c in _BRACE.sub("", inner))
    if not (is_set or is_round) or min(depths, default=0) < 0:
        return None
    if is_set:
        condition = latex.split(inner, _SUCH_THAT)
        if len(condition) == 2 and re.fullmatch(r"[a-zA-Z](?:\s*\\in.*)?", condition[0]):
            return replace(_read(condition[1]), text=text, body=text)
    parts = latex.split(inner, _INSIDE)
    if is_set:
        elements = [e for p in parts for e in _expanded(p)] if inner.strip() else []
        return Form(Kind.SET, text, text, tuple(map(_read, elements)), detail="{}")
    if len(parts) < 2 or not all(parts):
        return None
    return Form(Kind.TUPLE, text, text, tuple(map(_read, parts)), detail=left + right)


def _leaf(text: str, letters: bool, is_text: bool) -> Form:
    """A number, a date or time, a number in a base, words, or an expression, and its unit."""
    if notation.is_written(text):
        return Form(Kind.MOMENT, text, text)
    if base := _BASE.fullmatch(text):
        written = base["base"] or base["digit"]
        digits = re.sub(r"\\(?:text|mathrm)|[\s{}()]", "", base["digits"])
        sign = "-" if text.startswith("-") else ""
        return Form(Kind.BASED, text, sign + digits, detail=BASES.get(written, written))
    bare, unit = text, ""
    if not (r"\circ" in text and TRIGONOMETRIC.search(text)):
        bare, unit = units.take_off(text, letters=letters)
    number = values.written(bare)
    if number is not None:
        return Form(Kind.NUMBER, text, bare, unit=unit, number=number)
    spelled = latex.words(text)
    if spelled and (is_text or TEXT.search(text) or re.search(r"[^\W\d_]{3}", spelled)):
        return Form(Kind.WORDS, text, spelled, is_text=True)
    return Form(Kind.EXPRESSION, text, bare, unit=unit, is_text=is_text)
