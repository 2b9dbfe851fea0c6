r"""Sets of numbers: intervals, inequalities in one unknown, unions, and what may be one.

End points are compared as numbers of so many decimals: 2^{1/2} is the same one as \sqrt{2}.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from ktae.grading import expressions
from ktae.grading.forms import ORDER, Form, Kind

_DECIMALS = 20


def _is_region(form: Form) -> bool:
    """Whether an answer can only be a set of numbers, and no list of them."""
    if form.kind is Kind.LIST:
        return any(map(_is_region, form.parts)) or (
            all(part.kind is Kind.TUPLE and region(part) is not None for part in form.parts)
            and r"\infty" in form.text
        )
    if form.kind is Kind.RELATION:
        return bool(form.detail) and set(form.detail.split()) <= {*ORDER}
    if form.kind is Kind.TUPLE:
        return form.detail != "()" or r"\infty" in form.body
    return (
        form.kind is Kind.UNION or r"\mathbb" in form.body or form.body in (r"\emptyset", r"\{\}")
    )


@functools.lru_cache(maxsize=256)
def region(form: Form) -> Any:
    """The set of numbers that an answer is, as a sympy set with rational end points; or None."""
    from sympy import Complement, FiniteSet, Intersection, Interval, S, Union

    named = {r"\mathbb{R}": S.Reals, r"\mathbb{Z}": S.Integers, r"\mathbb{N}": S.Naturals}
    named |= {r"\emptyset": S.EmptySet, r"\{\}": S.EmptySet}
    body = re.sub(r"\\mathbb([A-Z])", r"\\mathbb{\1}", form.body.replace(" ", ""))
    if body in named:
        return named[body]
    if form.kind is Kind.RELATION:
        return _solutions(form)
    if form.kind in (Kind.UNION, Kind.LIST):
        sets = [region(part) for part in form.parts]
        if any(part is None for part in sets):
            return None
        if form.detail == r"\setminus":
            return Complement(*sets)
        is_mixed = form.kind is Kind.LIST and any(map(_is_region, form.parts))
        if is_mixed and any(part.number and not part.name for part in form.parts):  # "x > 1, 2"
            return None
        is_meet = form.detail in (r"\cap", "and") or (
            form.detail == ","
            and all(part.kind is Kind.RELATION or r"\mathbb" in part.body for part in form.parts)
        )
        if is_meet and form.detail == "and" and any(part.kind is Kind.TUPLE for part in form.parts):
            is_meet = False  # "(0, 1) and (2, 3)" lists intervals
        return (Intersection if is_meet else Union)(*sets)
    if form.kind is Kind.TUPLE and len(form.parts) == 2:
        start, end = (_point(part.body) for part in form.parts)
        if start is None or end is None or not start < end:
            return None
        return Interval(start, end, form.detail[0] == "(", form.detail[1] == ")")
    parts = form.parts if form.kind is Kind.SET else (form,)
    points = [_point(part.body) for part in parts]
    return FiniteSet(*points) if all(p is not None and p.is_finite for p in points) else None


def _point(text: str) -> Any:
    """A constant as a rational number of so many decimals, or infinity; otherwise None."""
    from sympy import Expr, Rational, oo

    constant = expressions.parsed(text)
    if constant in (oo, -oo):
        return constant
    if not isinstance(constant, Expr) or constant.free_symbols:
        return None
    value = expressions.real_value(constant)
    return None if value is None else Rational(round(value * 10**_DECIMALS), 10**_DECIMALS)


def _solutions(form: Form) -> Any:
    """What solves inequalities in one unknown; None where that is not known."""
    from sympy import And, Ge, Gt, Le, Lt, Ne, S, Symbol

    sides = [expressions.parsed(part.body) for part in form.parts]
    signs = form.detail.split()
    if not signs or set(signs) - {*ORDER} or not are_expressions(*sides):
        return None
    unknowns = set().union(*(side.free_symbols for side in sides))
    if len(unknowns) != 1:
        return None
    x = Symbol("x", real=True)
    # End points as decimals: 2^{1/2} is the same one as \sqrt{2}.
    sides = [
        side.xreplace(dict.fromkeys(unknowns, x)) if side.free_symbols else _point(part.body)
        for side, part in zip(sides, form.parts, strict=True)
    ]
    make = dict(zip(ORDER, (Lt, Gt, Le, Ge, Ne), strict=True))
    relations = [make[s](a, b) for s, a, b in zip(signs, sides, sides[1:], strict=False)]
    try:
        solved = And(*relations).as_set()
    except MemoryError:
        raise
    except Exception:
        return None
    return S.Reals if solved is S.true else solved


def same_set(a: Form, b: Form) -> str | None:
    """Whether two answers are one set of numbers; None if neither has to be one, or one is none."""
    if not (_is_region(a) or _is_region(b)):
        return None
    first, second = region(a), region(b)
    if first is None or second is None:
        return None
    is_same = first == second or first.symmetric_difference(second).is_empty
    return "same set" if is_same else ""


def are_expressions(*candidates: Any) -> bool:
    """Whether all are expressions of which a value can be worked out."""
    from sympy import Expr

    return all(isinstance(x, Expr) and expressions.is_evaluable(x) for x in candidates)
