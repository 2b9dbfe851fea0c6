r"""Answers as sympy objects: parsed and compared by math-verify, with four corrections.

Each corrects something measured on real outputs, with math-verify 0.9:

- It rounds decimals to six places and so takes 5.11e-19 for 2.88e-19. Where both sides are
  constants and one is a decimal, `ktae.grading.values.close` decides; where none is, all digits do.
- It proves a difference by `simplify`, which may take minutes. Two expressions that differ at a
  random point differ, and need no proof (`_differ_at_a_point`).
- It cannot parse `E_{1}` (to it `E` is Euler's number), `L_{\odot}`, `\frac\pi3` or a trailing
  "where ..." (`_prepared`).
- It raises for values that are not finite (a division by zero in the response).
"""

from __future__ import annotations

import functools
import logging
import random
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from ktae.grading import values

DIGITS = 30
"""Significant digits to which constants are evaluated for comparison."""
MIN_DIGITS, MAX_DIGITS = 100, 4000
"""The same for constants without decimals, by their size. Python reads numbers of up to 4,300
digits."""

_CLAUSE = re.compile(
    r"\s*,?\s*(?:\\text\s*\{\s*)?,?\s*\b(?:where|for (?:any|all|every|some)|with)\b.*", re.DOTALL
)
_HALF_OPEN = re.compile(r"[A-Za-z]\s*(?:\\in)?\s*(\([^()\[\]]*\]|\[[^()\[\]]*\))")
_MEMBER = re.compile(r"[A-Za-z]\s*\\in(?![a-z])\s*")
_OF_NUMBERS = re.compile(r"\\mathbb\s*([A-Z])")
_NUMERATOR = re.compile(r"\\frac(?![a-zA-Z])\s*(\\(?!sqrt|frac)[a-zA-Z]+|\w)")
_DENOMINATOR = re.compile(r"(\\frac\s*\{(?:[^{}]|\{[^{}]*\})*\})\s*(\\(?!sqrt|frac)[a-zA-Z]+|\w)")
_SUBSCRIPT = re.compile(r"_\{((?:[^{}]|\{[^{}]*\})*)\}")
_FONT = re.compile(r"\\(?:text|mathrm|rm|textbf|mathbf|operatorname)(?![a-z])")
_EULER = re.compile(r"(?<![A-Za-z\\])E_(?:\{(\w+)\}|(\w))")


def agree(answer: str, given: str) -> bool:
    """Whether math-verify, corrected, takes `given` for the accepted `answer`."""
    from math_verify import verify
    from sympy import Expr, Float, nan, zoo

    gold, target = parsed(answer), parsed(given)
    if gold is None or target is None:
        return False
    # sympy would compare what is not finite as a symbol, and math-verify raises.
    if target in (nan, zoo):
        return bool(gold == target)
    a, b = (
        _value(x) if isinstance(x, Expr) and not x.free_symbols else None for x in (gold, target)
    )
    if a is not None and b is not None:
        if gold.has(Float) or target.has(Float) or not values.close(a, b):
            return values.close(a, b)
        if a == b:
            return _agree_exactly(gold, target)
        return bool(verify(gold, target, timeout_seconds=None))
    # A proof may take minutes; a counterexample takes none.
    if _differ_at_a_point(gold, target):
        return False
    return bool(
        verify(
            gold, target, allow_set_relation_comp=True, timeout_seconds=None, raise_on_error=True
        )
    )


def is_union(parts: Sequence[str], union: str) -> bool:
    """Whether a set consists of such parts: (-oo, 2) and (3, oo) of `x < 2` and `x > 3`."""
    from sympy import And, Set, Union
    from sympy.core.relational import _Inequality

    sets = []
    for text in (*parts, union):
        numbers = parsed(text)
        if isinstance(numbers, And | _Inequality) and len(numbers.free_symbols) == 1:
            try:
                numbers = numbers.as_set()
            except MemoryError:
                raise
            except Exception:
                return False
        if not isinstance(numbers, Set):
            return False
        sets.append(numbers)
    return bool(Union(*sets[:-1]) == sets[-1])


@functools.lru_cache(maxsize=512)
def parsed(text: str) -> Any:
    r"""An answer as the sympy object that math-verify makes of it, or None."""
    from math_verify import LatexExtractionConfig, parse

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that it has no time limit
    prepared = _prepared(text)
    if not prepared or not values.braces_match(prepared):
        return None
    try:
        expressions = parse(
            f"${prepared}$",
            extraction_config=[LatexExtractionConfig()],
            fallback_mode="no_fallback",
            parsing_timeout=None,
            raise_on_error=True,
        )
    except MemoryError:
        raise
    except Exception:
        return None
    return expressions[0] if expressions else None


def _prepared(text: str) -> str:
    r"""`tidy`, without clauses, names of intervals, and subscripts that cannot be parsed."""
    prepared = values.tidy(_CLAUSE.sub("", values.tidy(text)))
    half_open = _HALF_OPEN.fullmatch(prepared)
    if half_open:  # "t(0,4]" can only be an interval
        prepared = half_open.group(1)
    prepared = _MEMBER.sub("", prepared) if _MEMBER.match(prepared) else prepared
    prepared = _OF_NUMBERS.sub(r"\\mathbb{\1}", prepared).replace(r"\varnothing", r"\emptyset")
    prepared = _DENOMINATOR.sub(r"\1{\2}", _NUMERATOR.sub(r"\\frac{\1}", prepared))

    def in_letters(subscript: re.Match[str]) -> str:
        letters = re.sub(r"\W", "", _FONT.sub("", subscript[1]))
        return f"_{{{letters or 'x'}}}"

    prepared = _SUBSCRIPT.sub(in_letters, prepared)
    return _EULER.sub(lambda m: f"X_{{E{m.group(1) or m.group(2)}}}", prepared)


def _agree_exactly(gold: Any, target: Any) -> bool:
    """Whether two constants agree, integers and fractions in all digits, others in many.

    In thirty digits 2^2024 is 2^2024 - 1. Where the value has n digits before the point, 2 n are
    taken after it: enough to tell the root of 10^2n + 1 from 10^n. More take minutes.
    """
    if gold.doit().is_Rational and target.doit().is_Rational:
        return _value(gold) == _value(target)
    size = _value(gold) or Fraction(0)
    # Three tenths of the bits are the digits: log10(2) is .301.
    before_the_point = max(0, size.numerator.bit_length() - size.denominator.bit_length()) * 3 // 10
    digits = min(MIN_DIGITS + 3 * before_the_point, MAX_DIGITS)
    a, b = _value(gold, digits), _value(target, digits)
    if a is None or b is None:
        return False
    return abs(a - b) <= max(abs(a), abs(b)) * Fraction(1, 10 ** (digits - 10))


def _value(expression: Any, digits: int = DIGITS) -> Fraction | None:
    """A finite real value to so many digits, or None. Integers and fractions are exact."""
    try:
        exact = expression.doit()
        value = exact if exact.is_Rational else exact.evalf(digits)
        if value.is_Rational:
            return Fraction(int(value.p), int(value.q))
        return Fraction(str(value)) if value.is_Float and value.is_finite else None
    except MemoryError:
        raise
    except Exception:
        return None


def _differ_at_a_point(gold: Any, target: Any) -> bool:
    """Whether two expressions in the same symbols have clearly different values somewhere.

    False where that cannot be told; a common factor of rounding is far below what counts here.
    """
    from sympy import Expr, Rational

    if not (isinstance(gold, Expr) and isinstance(target, Expr)):
        return False
    symbols = sorted(gold.free_symbols | target.free_symbols, key=str)
    if not symbols or len(gold.free_symbols) != len(target.free_symbols):
        return False  # math-verify renames symbols in some of these cases
    # The same points each time: a verdict must not depend on luck.
    generator = random.Random(0)
    differences = 0
    for _ in range(4):
        point = {symbol: Rational(generator.randint(101, 899), 300) for symbol in symbols}
        a, b = (_value(expression.subs(point)) for expression in (gold, target))
        # Outside the domain, as a root of a negative number: this point tells nothing.
        if a is None or b is None:
            continue
        if abs(a - b) <= Fraction(1, 10**4) * max(abs(a), abs(b)):
            return False
        differences += 1
    return differences >= 2
