"""Whether two answers in normal form are the same.

The accepted answer comes first. Each comparison looks at one kind of answer. Where one can be read
in several ways (`(1, 3)` is a point and an interval), the other side decides.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from ktae.grading import expressions, latex, values
from ktae.grading.forms import Form, Kind, read
from ktae.grading.latex import TEXT

_CALL = re.compile(r"\s*\(\s*([a-zA-Z])\s*\)$")
_LETTERS = re.compile(r"(?:\\text\{)?(?=[A-H] ?[A-H])A? ?B? ?C? ?D? ?E? ?F? ?G? ?H?\}?")
"""Several choices: `ACD`."""
_ORDER = {"<": "<", ">": ">", r"\le": "<=", r"\ge": ">=", r"\ne": "!="}
"""Signs that solutions may have, as sympy writes them."""


def same(a: Form, b: Form) -> bool:
    """Whether `b`, which a response gives, is the accepted `a`."""
    if a.text and a.text == b.text:
        return True
    # "70,110" may be one number or two: the other side's form tells which is meant.
    if {a.kind, b.kind} == {Kind.LIST, Kind.NUMBER}:
        a, b = (read(form.source or form.text, thousands=False) for form in (a, b))
    are_same = _same_set(a, b)
    if Kind.LIST in (a.kind, b.kind):
        return _same_lists(a, b) if are_same is None else are_same
    if are_same or _same_element(a, b):
        return True
    # The response may give a choice, its value or both; what is accepted decides which counts.
    accepted = a.parts[0] if a.kind is Kind.CHOICE and a.parts else a
    has_value = b.kind is Kind.CHOICE and b.parts and accepted.kind is not Kind.CHOICE
    return bool(has_value) and same(accepted, b.parts[0])


def _same_lists(a: Form, b: Form) -> bool:
    """Lists without brackets, beside lists, sets, tuples, unions and relations."""
    a, b = (
        read(", ".join(re.findall("[A-H]", form.text))) if _LETTERS.fullmatch(form.text) else form
        for form in (a, b)
    )
    names = [[part.name for part in form.parts] for form in (a, b)]
    sides = [[re.split(r"[_(]", name)[0] for name in side] for side in names]
    known = {*sides[0], *sides[1]} - {""}
    are_relations = any(part.kind is Kind.RELATION for part in a.parts)
    are_values = len(known) == 1 or (not (known or are_relations) and re.search(r"\d", a.text))
    # "p and q" is not "p or q", but of the values of one unknown both mean a list.
    if a.kind is b.kind and (a.detail == "or") != (b.detail == "or") and not are_values:
        return False
    single = b if a.kind is Kind.LIST else a
    # x = 1, y = 2 says which is which, so (2, 1) is another point. x_1 and x_2 are solutions.
    named = [len({*side} - {""}) == len(side) for side in sides]
    is_point = single.kind is Kind.LIST and any(named) and any(not any(side) for side in sides)
    is_tuple = single.kind is Kind.TUPLE and (single.detail == "()" or len(single.parts) > 2)
    if is_point or is_tuple:
        # Nobody knows which of "y = 3, x = 4" comes first in a pair, or beside an accepted list.
        in_question = names if is_tuple else names[1:]
        is_sorted = names[0] == names[1] or all(some == sorted(some) for some in in_question)
        return is_sorted and _all_same(a.parts, b.parts)
    return single.kind in (Kind.LIST, Kind.SET) and _same_in_some_order(a.parts, b.parts)


def _all_same(a: Sequence[Form], b: Sequence[Form]) -> bool:
    pairs = [*zip(a, b, strict=False)]
    if len(a) != len(b) or any(x.name and y.name and x.name != y.name for x, y in pairs):
        return False
    return all(same(replace(x, name=""), replace(y, name="")) for x, y in pairs)


def _same_in_some_order(a: Sequence[Form], b: Sequence[Form]) -> bool:
    """Whether each element has a counterpart: 1, 1, 2 is not 1, 2, 2. Units may say which."""
    if len(a) != len(b):
        return False
    same_units = sorted(part.unit for part in a) == sorted(part.unit for part in b)
    remaining = list(b)
    for part in a:
        likely = (x for x in remaining if not same_units or x.unit == part.unit)
        match = next((x for x in likely if same(part, x)), None)
        if match is None:
            return False
        remaining.remove(match)
    return True


def _same_element(a: Form, b: Form) -> bool:
    if a.name and b.name and not a.kind is b.kind is Kind.TUPLE:
        names = [re.sub(r"[\s{}]", "", _CALL.sub("", form.name)) for form in (a, b)]
        if names[0] != names[1]:
            return _same_equation(a, b)
        calls = [_CALL.search(form.name) for form in (a, b)]
        b = _renamed(b, *(call[1] if call else "" for call in reversed(calls)))
    b = _renamed(b, b.parameter, a.parameter)
    if Kind.RELATION in (a.kind, b.kind):
        return _same_relation(a, b)
    numeric = re.sub(r"\\(?:frac|sqrt|cdot|times|text\{[^{}]*\})", "", a.text)
    has_letters = re.search(r"[^\W\d_]", numeric)
    if b.kind is Kind.EXPRESSION and not has_letters and r"\circ" not in b.body:
        # In `8 L` and `3 m^2` a letter is a unit, since the accepted answer has none.
        body, unit = values.without_units(b.body, letters=True)
        b = replace(b, body=body, unit=f"{unit} {b.unit}", number=values.written(body))
    if values.contradict(a.unit, b.unit):
        return False
    if a.number and b.number:
        return values.same_number(a.number, b.number)
    if Kind.DIGITS in (a.kind, b.kind):  # one after another; where both have a base, in the same
        bodies = [f.body if f.kind is Kind.DIGITS else TEXT.sub(r"\1", f.text) for f in (a, b)]
        digits = [re.sub(r"^0+|\s", "", body) for body in bodies]
        return digits[0] == digits[1] and (not a.detail or b.detail in ("", a.detail))
    if Kind.WORDS in (a.kind, b.kind):
        if a.body == b.body or latex.plain(a.text) == latex.plain(b.text):
            return True
        if None not in map(latex.words, (a.text, b.text)):
            return False
    if a.kind is b.kind is Kind.TUPLE:
        is_long = len(a.parts) > 2 or len(b.parts) > 2
        return (a.detail == b.detail or is_long) and _all_same(a.parts, b.parts)
    kinds = {a.kind, b.kind}
    has_elements = len(kinds) == 1 and a.parts and a.detail == b.detail != r"\setminus"
    if has_elements and _same_in_some_order(a.parts, b.parts):
        return True
    is_one = kinds != {Kind.SET} and not kinds & {Kind.TUPLE, Kind.UNION}
    return is_one and _same_expression(a, b)


def _renamed(form: Form, old: str, new: str) -> Form:
    """With two letters exchanged: `f(t) = 2x` is no `f(x) = 2x`."""
    if not old or not new or old == new:
        return form
    exchanged = re.sub(
        rf"\\[a-zA-Z]+|[{old}{new}]", lambda m: {old: new, new: old}.get(m[0], m[0]), form.body
    )
    return replace(read(exchanged), name=form.name)


def _same_expression(a: Form, b: Form) -> bool:
    from sympy import Rational, Symbol

    if len(a.body) == len(b.body) == 1 and a.body.casefold() == b.body.casefold():
        return True
    if all(re.fullmatch("[IVXLCDM]{2}", form.body) for form in (a, b)):
        return False  # IV is no product
    first, second = (
        Rational(form.number.value) if form.number else expressions.parsed(form.body)
        for form in (a, b)
    )
    if first is None or second is None:
        return latex.plain(a.text) == latex.plain(b.text)
    for number, other in ((a.number, second), (b.number, first)):
        if number and number.step and (value := expressions.real_value(other)) is not None:
            return number.stands_for(value)  # a decimal's own digits say how exact it is
    constants = {Symbol("c"), Symbol("C")}  # of integration
    mine, theirs = (constants & getattr(x, "free_symbols", set()) for x in (first, second))
    if len(mine) == len(theirs) == 1:
        second = second.xreplace({theirs.pop(): mine.pop()})
    return expressions.same(first, second)


def _same_relation(a: Form, b: Form) -> bool:
    """Equations, inequalities, and the sets or values that they stand for."""
    if a.kind is not Kind.RELATION and not a.name and {*b.detail.split()} == {"="}:
        last = b.parts[-1]
        left, value = expressions.parsed(b.parts[0].body), expressions.parsed(last.body)
        if not expressions.are_evaluable(left, value):
            return False
        if symbols := left.free_symbols:  # "x + y = 5" is 5, and "2x = 6" is still to be solved
            is_stated = value != 0 and (len(symbols) > 1 or not left.is_polynomial(*symbols))
        else:
            is_stated = expressions.same(left, value)
        return is_stated and same(a, read(last.text))
    if (a.detail == b.detail and a.parts and _all_same(a.parts, b.parts)) or _same_equation(a, b):
        return True
    return latex.plain(a.text) == latex.plain(b.text)


def _same_equation(a: Form, b: Form) -> bool:
    """Whether two relations with one sign are one another times a constant."""
    signs, differences = [], []
    for form in (a, b):
        left, right, sign = form.name, form.body, "="
        if not form.name and form.kind is Kind.RELATION and len(form.parts) == 2:
            left, right, sign = form.parts[0].body, form.parts[1].body, form.detail
        first, second = expressions.parsed(left), expressions.parsed(right)
        if sign not in ("=", r"\ne", "<", r"\le") or not expressions.are_evaluable(first, second):
            return False
        signs.append(sign)
        differences.append(first - second)
    return signs[0] == signs[1] and (
        bool(differences[0] == differences[1])
        or expressions.proportional(*differences, positive=signs[0] in ("<", r"\le"))
    )


def _same_set(a: Form, b: Form) -> bool | None:
    """Whether two answers are one set of numbers; None if neither has to be one, or one is none."""
    if a.kind is b.kind is Kind.TUPLE or not (_is_region(a) or _is_region(b)):
        return None
    unknowns = [_unknowns(form) for form in (a, b)]
    if any(len(symbols) > 1 for symbols in unknowns) or (a.name and b.name and a.name != b.name):
        return None
    if all(unknowns) and unknowns[0] != unknowns[1]:  # x > 3 is not y > 3
        return False
    first, second = _region(a), _region(b)
    if first is None or second is None:
        return None
    return bool(first == second or first.symmetric_difference(second).is_empty)


def _is_region(form: Form) -> bool:
    """Whether an answer can only be a set of numbers, and no list of them."""
    if form.kind is Kind.LIST:
        return any(map(_is_region, form.parts))
    if form.kind is Kind.RELATION:
        return set(form.detail.split()) <= {*_ORDER}
    if form.kind is Kind.TUPLE:
        return form.detail != "()" or r"\infty" in form.body
    return form.kind is Kind.UNION or bool(
        re.search(r"\\mathbb|^(?:\\emptyset|\\\{\\\})$", form.body)
    )


def _unknowns(form: Form) -> set[Any]:
    if form.kind is not Kind.RELATION:
        return set().union(*map(_unknowns, form.parts))
    sides = [expressions.parsed(part.body) for part in form.parts]
    return set().union(*(getattr(side, "free_symbols", set()) for side in sides))


@functools.lru_cache(maxsize=256)
def _region(form: Form) -> Any:
    """The set of numbers that an answer is, as a sympy set with rational end points; or None."""
    import sympy

    S, oo = sympy.S, sympy.oo
    named = {r"\mathbbR": S.Reals, r"\mathbbZ": S.Integers, r"\mathbbN": S.Naturals}
    named |= {r"\emptyset": S.EmptySet, r"\\": S.EmptySet}
    if (body := re.sub(r"[ {}]", "", form.body)) in named:
        return named[body]
    if form.kind in (Kind.UNION, Kind.LIST):
        sets = [_region(part) for part in form.parts]
        numbers = [part for part in form.parts if part.number and not part.name]
        if None in sets or (form.kind is Kind.LIST and numbers and _is_region(form)):  # "x > 1, 2"
            return None
        if form.detail == r"\setminus":
            return sympy.Complement(*sets)
        # "x > 1 and x < 3" restricts twice, "(0, 1) and (2, 3)" lists intervals.
        restrict = all(p.kind is Kind.RELATION or r"\mathbb" in p.body for p in form.parts)
        is_meet = form.detail == r"\cap" or (restrict and form.detail in (",", "and"))
        return (sympy.Intersection if is_meet else sympy.Union)(*sets)
    has_parts = form.kind in (Kind.RELATION, Kind.TUPLE, Kind.SET)
    sides = [expressions.parsed(part.body) for part in (form.parts if has_parts else (form,))]
    # Constants are rounded: 2^{1/2} is the same end point as \sqrt{2}.
    points: list[Any]
    points = [side if side in (oo, -oo) else expressions.real_value(side) for side in sides]
    points = [sympy.Rational(round(p, 20)) if isinstance(p, Fraction) else p for p in points]
    if form.kind is Kind.RELATION:  # inequalities in one unknown
        unknowns = _unknowns(form)
        if len(unknowns) != 1 or not _is_region(form) or not expressions.are_evaluable(*sides):
            return None
        x = {unknowns.pop(): sympy.Symbol("x", real=True)}
        sides = [
            side.xreplace(x) if point is None else point
            for side, point in zip(sides, points, strict=True)
        ]
        signs = [_ORDER[sign] for sign in form.detail.split()]
        try:
            solved = sympy.And(*map(sympy.Rel, sides, sides[1:], signs)).as_set()
        except MemoryError:
            raise
        except Exception:  # sympy does not know
            return None
        return S.Reals if solved is S.true else solved
    if None in points:
        return None
    if form.kind is not Kind.TUPLE:
        return None if {oo, -oo} & {*points} else sympy.FiniteSet(*points)
    if len(points) > 2 or not points[0] < points[1]:
        return None
    return sympy.Interval(*points, form.detail[0] == "(", form.detail[1] == ")")
