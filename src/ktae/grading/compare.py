"""Whether two answers in normal form are the same, and by which comparison.

The accepted answer comes first. Each comparison looks at one kind of answer. Where one can be read
in several ways (`(1, 3)` is a point and an interval), the other side decides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ktae.grading import expressions, latex, notation, units, values
from ktae.grading.forms import Form, Kind, read
from ktae.grading.latex import TEXT
from ktae.grading.regions import are_expressions, same_set
from ktae.grading.units import SCALE

AS_TEXT = "compared as text"
"""Reason of a verdict where the accepted answer does not parse."""

_CONGRUENCE = re.compile(
    r"(?:(.*?)\\equiv)?\s*(.*?)(?:,\s*|\\quad)?\s*\(?\s*\\p?mod\s*\{?\s*(\d+)\s*\}?\s*\)?",
    re.DOTALL,
)
_CALL = re.compile(r"\s*\(\s*([a-zA-Z])\s*\)$")
_LETTERS = re.compile(r"[A-Z]{2,}")


def same(a: Form, b: Form) -> str:
    """By which comparison `b`, which a response gives, is the accepted `a`; empty if by none."""
    if a.text and a.text == b.text:
        return "same text"
    is_written_out = bool(a.number and b.number)
    if r"\ldots" in a.body + b.body and not is_written_out:  # it stands for what is left out
        return "same text" if _bare(a) == _bare(b) else ""
    # "70,110" may be one number or two: the other side's form tells which is meant.
    if b.kind is Kind.LIST and a.kind is Kind.NUMBER:
        a = read(a.source or a.text, thousands=False)
    elif a.kind is Kind.LIST and b.kind is Kind.NUMBER:
        b = read(b.source or b.text, thousands=False)
    if Kind.LIST in (a.kind, b.kind):
        return _same_lists(a, b)
    if how := _same_element(a, b):
        return how
    return _same_choice(a, b)


def _same_lists(a: Form, b: Form) -> str:
    """Lists without brackets, beside lists, sets, tuples, unions and relations."""
    if (how := same_set(a, b)) is not None:
        return how
    names = {_unindexed(part.name) for form in (a, b) for part in form.parts} - {""}
    are_values = len(names) == 1 or (not names and re.search(r"\d", a.text))
    # "p and q" is not "p or q", but of the values of one unknown both mean a list.
    if a.kind is b.kind and (a.detail == "or") != (b.detail == "or") and not are_values:
        return ""
    letters = [_letters(form) for form in (a, b)]
    if all(letters) and Kind.LIST in (a.kind, b.kind):
        return "same choice" if letters[0] == letters[1] else ""
    single = b if a.kind is Kind.LIST else a
    if single.kind is Kind.TUPLE:
        if single.detail != "()" and len(single.parts) < 3:
            return ""
        return _all_same(a.parts, b.parts)
    if single.kind not in (Kind.LIST, Kind.SET) or len(a.parts) != len(b.parts):
        return ""
    if single.kind is Kind.LIST:
        # x = 1, y = 2 says which is which, so (2, 1) is another point. x_1 and x_2 are solutions.
        sides = [[_unindexed(part.name) for part in form.parts] for form in (a, b)]
        named = [len({*side} - {""}) == len(side) for side in sides]
        if any(named) and any(not any(side) for side in sides):
            return _all_same(a.parts, b.parts)
        given = _by_unit(a.parts, b.parts)
        if given is not None:
            return _all_same(a.parts, given)
    return _same_in_some_order(a.parts, b.parts)


def _unindexed(name: str) -> str:
    return re.split(r"[_(]", name)[0]


def _by_unit(a: Sequence[Form], b: Sequence[Form]) -> Sequence[Form] | None:
    """The second list in the order of the first's units, where each element has one of its own."""
    first, second = ([latex.plain(part.unit) for part in side] for side in (a, b))
    if not all(first) or len({*first}) < len(first) or {*first} != {*second}:
        return None
    return [b[second.index(unit)] for unit in first]


def _all_same(a: Sequence[Form], b: Sequence[Form]) -> str:
    if len(a) != len(b) or any(x.name and y.name and x.name != y.name for x, y in zip(a, b)):  # noqa: B905
        return ""
    bare = [[replace(part, name="") for part in side] for side in (a, b)]
    return "same elements" if all(map(same, *bare)) else ""


def _same_in_some_order(a: Sequence[Form], b: Sequence[Form]) -> str:
    """Whether each element has a counterpart of its own: 1, 1, 2 is not 1, 2, 2."""
    remaining = list(b)
    rest = []
    for part in a:  # what is written alike, cheaply: lists may be long
        alike = next((other for other in remaining if other.text == part.text), None)
        if alike is not None:
            remaining.remove(alike)
        else:
            rest.append(part)
    for part in rest:
        match = next((other for other in remaining if same(part, other)), None)
        if match is None:
            return ""
        remaining.remove(match)
    return "same elements"


def _letters(form: Form) -> frozenset[str]:
    """The letters of several choices: `ACD`, or `A, C, D`."""
    if form.kind is Kind.LIST:
        letters = [TEXT.sub(r"\1", part.body).strip() for part in form.parts]
        are_letters = all(len(x) == 1 and x.isupper() and x.isascii() for x in letters)
    else:
        letters = list("".join(TEXT.sub(r"\1", form.text).split()))
        is_word = bool(_LETTERS.fullmatch("".join(letters)))
        are_letters = is_word and letters == sorted({*letters})
    return frozenset(letters) if are_letters else frozenset()


def _same_choice(a: Form, b: Form) -> str:
    """The response may give a choice, its value or both; what is accepted decides which counts."""
    if b.kind is not Kind.CHOICE:
        alone = re.fullmatch(r"([A-Z])\s*(?:-\s+|\()\S.*", b.text)
        return "same choice" if alone and a.text == alone[1] and a.kind is not Kind.CHOICE else ""
    accepted = a.parts[0] if a.kind is Kind.CHOICE and a.parts else a
    return same(accepted, b.parts[0]) if b.parts and accepted.kind is not Kind.CHOICE else ""


def _same_element(a: Form, b: Form) -> str:
    if a.name and b.name and not (a.kind is b.kind is Kind.TUPLE):
        names = [re.sub(r"[\s{}]", "", _CALL.sub("", form.name)) for form in (a, b)]
        arguments = [_CALL.search(form.name) for form in (a, b)]
        if names[0] != names[1]:
            return "same equation" if _same_equation(a, b) else ""
        if all(arguments) and arguments[0][1] != arguments[1][1]:  # type: ignore[index]
            b = _renamed(b, arguments[1][1], arguments[0][1])  # type: ignore[index]
    if a.parameter and b.parameter and a.parameter != b.parameter:
        b = _renamed(b, b.parameter, a.parameter)
    if Kind.RELATION in (a.kind, b.kind):
        return _same_relation(a, b)
    if units.contradict(a.unit, b.unit):
        return ""
    if a.number and b.number:
        return "same number" if values.same_number(a.number, b.number) else ""
    if Kind.BASED in (a.kind, b.kind):
        bases = {form.detail for form in (a, b) if form.kind is Kind.BASED}
        digits = [
            form.body if form.kind is Kind.BASED else TEXT.sub(r"\1", form.text) for form in (a, b)
        ]
        digits = [re.sub(r"^0+|[\s{}]", "", some) for some in digits]
        return "same number" if len(bases) == 1 and digits[0] == digits[1] else ""
    as_written = notation.agree(a.body, b.body)
    if as_written is not None:
        return "same date, time or ratio" if as_written else ""
    same_words = _same_words(a, b)
    if same_words is not None:
        return "same words" if same_words else ""
    return _same_structure(a, b)


def _same_structure(a: Form, b: Form) -> str:
    """Tuples, sets, matrices, unions, and what they may be written as; otherwise expressions."""
    kinds = {a.kind, b.kind}
    if a.kind is b.kind and a.kind in (Kind.TUPLE, Kind.SET, Kind.MATRIX, Kind.UNION):
        long = len(a.parts) > 2 or len(b.parts) > 2
        if a.kind in (Kind.TUPLE, Kind.MATRIX):
            if (a.detail == b.detail or long) and _all_same(a.parts, b.parts):
                return "same elements"
        elif (
            (a.detail, len(a.parts)) == (b.detail, len(b.parts))
            and a.detail != r"\setminus"
            and _same_in_some_order(a.parts, b.parts)
        ):
            return "same elements"
        if a.kind is not Kind.UNION:
            return _same_expression(a, b) if a.kind is Kind.MATRIX else ""
    if kinds == {Kind.TUPLE, Kind.MATRIX}:
        matrix, other = (a, b) if a.kind is Kind.MATRIX else (b, a)
        if len(matrix.parts) == 1 or all(len(row.parts) == 1 for row in matrix.parts):
            cells = tuple(cell for row in matrix.parts for cell in row.parts)
            sides = (cells, other.parts) if matrix is a else (other.parts, cells)
            return _all_same(*sides) if other.detail == "()" else ""
    if kinds == {Kind.TUPLE, Kind.SET}:
        return ""
    how = same_set(a, b)
    return _same_expression(a, b) if how is None and Kind.TUPLE not in kinds else how or ""


def _same_expression(a: Form, b: Form) -> str:
    from sympy import Rational, Symbol

    if len(a.body) == len(b.body) == 1 and a.body.casefold() == b.body.casefold():
        return "same text"
    first, second = (
        Rational(form.number.value) if form.number else expressions.parsed(form.body)
        for form in (a, b)
    )
    if first is None or second is None:
        return "same text" if _bare(a) == _bare(b) else ""
    if a.number or b.number:  # a decimal's own digits say how exact it is
        number, other = (a.number, second) if a.number else (b.number, first)
        assert number is not None
        is_decimal = number.step is not None or number.value.denominator > 1
        if number.rounded and is_decimal and not getattr(other, "free_symbols", True):
            value = expressions.real_value(other)
            if value is not None:
                return "same number" if values.close(number.value, value, number.step) else ""
    small, large = (Symbol(letter) for letter in "cC")
    symbols = [x.free_symbols & {small, large} for x in (first, second)]
    if sorted(map(len, symbols)) == [1, 1]:  # a constant of integration, in either case
        second = second.xreplace({symbols[1].pop(): symbols[0].pop()})
    return "same expression" if expressions.same(first, second) else ""


def _renamed(form: Form, old: str, new: str) -> Form:
    """With two letters exchanged: `f(t) = 2x` is no `f(x) = 2x`."""
    exchanged = re.sub(
        rf"\\[a-zA-Z]+|[{old}{new}]", lambda m: {old: new, new: old}.get(m[0], m[0]), form.body
    )
    return replace(read(exchanged), name=form.name)


def _bare(form: Form) -> str:
    """An answer as text without blanks and needless braces; words in lower case."""
    text = re.sub(r"\s|\\quad|\{(?=.\})|(?<=\{.)\}", "", TEXT.sub(r"\1", form.text))
    text = re.sub(r"\{(\w)\}", r"\1", text)
    return text.casefold() if re.search(r"(?<![\\a-zA-Z])[^\W\d_]{3}", text) else text


def _same_words(a: Form, b: Form) -> bool | None:
    r"""Whether two answers in words are the same; None if words do not decide.

    A parser would take the letters of a word for factors, in any order.
    """
    scales = any(SCALE.search(unit) for form in (a, b) if (unit := _last_word(form.text)))
    if scales:
        return latex.plain(a.text) == latex.plain(b.text)
    if Kind.WORDS not in (a.kind, b.kind):
        return None
    if a.kind is Kind.WORDS and latex.plain(a.text) == latex.plain(b.text):
        return True
    other = b if a.kind is Kind.WORDS else a
    return a.body == b.body if other.kind is Kind.WORDS or latex.words(other.text) else None


def _last_word(text: str) -> str:
    match = re.search(r"(?<=\d)\s*(?:\\text\s*\{\s*)?([^\W\d_][^{}\d]*)\}?$", text)
    return match[1].strip() if match else ""


def _same_relation(a: Form, b: Form) -> str:
    """Equations, inequalities, congruences, and the sets or values that they stand for."""
    both = _congruence(a), _congruence(b)
    if None not in both:
        return "same residue" if both[0] == both[1] else ""
    is_equation = b.kind is Kind.RELATION and set(b.detail.split()) == {"="}
    if is_equation and a.kind is not Kind.RELATION and not a.name:
        return same(a, read(b.parts[-1].text)) if _says_so(b) else ""
    if a.detail == b.detail and len(a.parts) == len(b.parts) > 0:
        turned = b.parts[::-1] if a.detail in (r"\parallel", r"\perp", r"\cong") else b.parts
        if _all_same(a.parts, b.parts) or _all_same(a.parts, turned):
            return "same relation"
    if _same_equation(a, b):
        return "same equation"
    unknowns = [_unknowns(form) for form in (a, b)]
    if all(unknowns) and unknowns[0] != unknowns[1]:  # x > 3 is not y > 3
        return ""
    if (how := same_set(a, b)) is not None:
        return how
    return "same text" if _bare(a) == _bare(b) else ""


def _says_so(form: Form) -> bool:
    """Whether an equation says what its left side is: `x + y = 5`, and not `2x = 6` or `3 = 5`."""
    left, value = (expressions.parsed(part.body) for part in (form.parts[0], form.parts[-1]))
    if not are_expressions(left, value):
        return False
    symbols = left.free_symbols
    is_to_solve = value == 0 or (len(symbols) == 1 and left.is_polynomial(*symbols))
    return not is_to_solve if symbols else expressions.same(left, value)


def _unknowns(form: Form) -> set[Any]:
    sides = [expressions.parsed(part.body) for part in form.parts if form.kind is Kind.RELATION]
    return set().union(*(getattr(side, "free_symbols", set()) for side in sides))


def _congruence(form: Form) -> tuple[Fraction, int] | None:
    """Residue and modulus of a congruence."""
    match = _CONGRUENCE.fullmatch(form.text)
    residue = values.number(match[2]) if match else None
    if match is None or residue is None:
        return None
    return residue.value % int(match[3]), int(match[3])


def _same_equation(a: Form, b: Form) -> bool:
    """Whether two relations with one sign are one another times a constant."""
    accepted, given = _as_difference(a), _as_difference(b)
    if accepted is None or given is None:
        return False
    (sign, first), (other, second) = accepted, given
    if sign != other:
        return False
    return first == second or expressions.proportional(
        first, second, positive=sign in ("<", r"\le")
    )


def _as_difference(form: Form) -> tuple[str, Any] | None:
    r"""A relation as its sign (`=`, `\ne`, `<`, `\le`) and left side minus right side."""
    if form.name:
        left, right, sign = form.name, form.body, "="
    elif form.kind is Kind.RELATION and len(form.parts) == 2:
        left, right, sign = form.parts[0].body, form.parts[1].body, form.detail
    else:
        return None
    if sign in (">", r"\ge"):
        left, right, sign = right, left, {">": "<", r"\ge": r"\le"}[sign]
    first, second = expressions.parsed(left), expressions.parsed(right)
    if sign not in ("=", r"\ne", "<", r"\le") or not are_expressions(first, second):
        return None
    return sign, first - second
