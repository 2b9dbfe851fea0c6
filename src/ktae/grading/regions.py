r"""Sets of numbers: intervals, inequalities in one unknown, unions, and what may be one.

End points are compared as numbers of so many decimals: 2^{1/2} is the same one as \sqrt{2}.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from ktae.grading import expressions
from ktae.grading.forms import Form, Kind

_DECIMALS = 20
_ORDER = ("<", ">", r"\le", r"\ge", r"\ne")


def same_set(a: Form, b: Form) -> str | None:
    """Whether two answers are one set of numbers; None if neither has to be one, or one is none."""
    if not (_is_region(a) or _is_region(b)):
        return None
    unknowns = [_unknowns(form) for form in (a, b)]
    if all(unknowns) and unknowns[0] != unknowns[1]:  # x > 3 is not y > 3
        return ""
    first, second = _region(a), _region(b)
    if first is None or second is None:
        return None
    return "same set" if first == second or first.symmetric_difference(second).is_empty else ""


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


def _sides(form: Form) -> list[Any]:
    return [expressions.parsed(part.body) for part in form.parts if form.kind is Kind.RELATION]


def _unknowns(form: Form) -> set[Any]:
    return set().union(*(getattr(side, "free_symbols", set()) for side in _sides(form)))


@functools.lru_cache(maxsize=256)
def _region(form: Form) -> Any:
    """The set of numbers that an answer is, as a sympy set with rational end points; or None."""
    from sympy import Complement, FiniteSet, Intersection, Interval, S, Union

    named = {r"\mathbbR": S.Reals, r"\mathbbZ": S.Integers, r"\mathbbN": S.Naturals}
    named |= {r"\emptyset": S.EmptySet, r"\\": S.EmptySet}
    if (body := re.sub(r"[ {}]", "", form.body)) in named:
        return named[body]
    if form.kind is Kind.RELATION:
        return _solutions(form)
    if form.kind in (Kind.UNION, Kind.LIST):
        sets = [_region(part) for part in form.parts]
        numbers = [part for part in form.parts if part.number and not part.name]
        if None in sets or (form.kind is Kind.LIST and numbers and _is_region(form)):  # "x > 1, 2"
            return None
        if form.detail == r"\setminus":
            return Complement(*sets)
        # "x > 1 and x < 3" restricts twice, "(0, 1) and (2, 3)" lists intervals.
        restrict = all(p.kind is Kind.RELATION or r"\mathbb" in p.body for p in form.parts)
        is_meet = form.detail == r"\cap" or (restrict and form.detail in (",", "and"))
        return (Intersection if is_meet else Union)(*sets)
    if form.kind is Kind.TUPLE and len(form.parts) == 2:
        start, end = (_point(part) for part in form.parts)
        if start is None or end is None or not start < end:
            return None
        return Interval(start, end, form.detail[0] == "(", form.detail[1] == ")")
    points = [_point(part) for part in (form.parts if form.kind is Kind.SET else (form,))]
    return FiniteSet(*points) if all(p is not None and p.is_finite for p in points) else None


def _point(form: Form) -> Any:
    """A constant as a rational number of so many decimals, or infinity; otherwise None."""
    from sympy import Rational, oo

    constant = expressions.parsed(form.body)
    if constant in (oo, -oo):
        return constant
    value = expressions.real_value(constant)
    return None if value is None else Rational(round(value * 10**_DECIMALS), 10**_DECIMALS)


def _solutions(form: Form) -> Any:
    """What solves inequalities in one unknown; None where that is not known."""
    from sympy import And, Ge, Gt, Le, Lt, Ne, S, Symbol

    unknowns = _unknowns(form)
    if len(unknowns) != 1 or not _is_region(form) or not expressions.are_evaluable(*_sides(form)):
        return None
    x = Symbol("x", real=True)
    sides = [
        side.xreplace(dict.fromkeys(unknowns, x)) if side.free_symbols else _point(part)
        for side, part in zip(_sides(form), form.parts, strict=True)
    ]
    make = dict(zip(_ORDER, (Lt, Gt, Le, Ge, Ne), strict=True))
    try:
        relations = map(lambda sign, a, b: make[sign](a, b), form.detail.split(), sides, sides[1:])
        solved = And(*relations).as_set()
    except MemoryError:
        raise
    except Exception:
        return None
    return S.Reals if solved is S.true else solved
