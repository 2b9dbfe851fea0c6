r"""Expressions: LaTeX to sympy by math-verify's parser, and whether two are the same.

The parser's own normalisation is off: it deletes units, dots and quotes, and folds case. Constants
are compared exactly, or in many digits; expressions in symbols at several points, since a proof may
take minutes. Symbols are positive; where both are real at negative points they have to agree there
as well: `\sqrt{x^2}` is not `x`, and `\sqrt{1/n}` is `1/\sqrt{n}`.
"""

from __future__ import annotations

import functools
import math
import random
import re
from fractions import Fraction
from typing import Any

from ktae.grading import latex
from ktae.grading.latex import SIGNS, rewritten, table

_DIGITS, _MIN_DIGITS, _MAX_DIGITS = 30, 100, 4000
"""Digits to which expressions are compared; constants have more, by their size."""
_LARGEST = 500_000  # digits of a number that is evaluated; an exponent may have 9
_LONGEST = 2000  # characters of a formula that is parsed
_POINTS = 6  # at which two expressions are compared; half of them have to tell something
Complex = tuple[Fraction, Fraction]

_PLAIN = {
    pair.split()[0]: rf"\{pair.split()[-1]} "
    for pair in "|".join(SIGNS[x] for x in ("functions", "constants", "also_written")).split("|")
}
_PLAIN_WORD = re.compile(r"\\[a-zA-Z]+|(?<![a-zA-Z_{])[a-zA-Z]{2,}|(?<=[{(])[a-zA-Z]{2,}")
_DEGREES = re.compile(
    r"(\d+(?:\.\d+)?|[A-Za-z]|\\[a-z]+)\s*\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![a-z]))"
)
TRIGONOMETRIC = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])")
_WRITTEN_OTHERWISE = table("notations")
_BRACED = table("braces")
_NAME = re.compile(r"(\\[a-zA-Z]+|[A-Za-z])\s*('*)(?:_\{((?:[^{}]|\{[^{}]*\})*)\})?('*)")
_PARSED = re.compile(
    rf"\\(?:pi|infty|{SIGNS['functions']}|sum|prod|int|lim|max|min|sup|inf|mathbb|gcd|lcm)$"
)
"""What has no subscript that is a part of its name."""
_NOT_READ = table("not_read")


@functools.lru_cache(maxsize=1024)
def parsed(text: str) -> Any:
    r"""A clean answer as a sympy object with its symbols, or None if it does not parse."""
    from latex2sympy2_extended import latex2sympy2 as parser  # type: ignore[import-untyped]
    from sympy import Derivative, Float, I, Rational, Symbol
    from sympy.core.function import AppliedUndef

    is_readable = 0 < len(text) <= _LONGEST and not latex.is_deep(text) and latex.braces_match(text)
    if not is_readable or any(pattern.search(text) for pattern, _ in _NOT_READ):
        return None
    text = _DEGREES.sub(r"(\1\\pi/180)" if TRIGONOMETRIC.search(text) else r"\1", text)
    text = rewritten(text, _WRITTEN_OTHERWISE)
    text = _PLAIN_WORD.sub(lambda m: _PLAIN.get(m[0], m[0]), text)
    if r"\sqrt[" not in text:
        text = text.replace("[", "(").replace("]", ")")
    text = _NAME.sub(_spelled, rewritten(text, _BRACED))
    config = parser.ConversionConfig(lowercase_symbols=False)
    try:
        expression = parser.latex2sympy(text, normalization_config=None, conversion_config=config)
        # f(x) and df/dx are symbols, decimals are exact, and `i` is I unless there is a `j`.
        unknown = [d for d in expression.atoms(Derivative) if not d.expr.has(*d.variables)]
        for some in (expression.atoms(AppliedUndef), unknown):
            expression = expression.xreplace({x: Symbol(str(x).replace(" ", "")) for x in some})
        expression = expression.xreplace({x: Rational(str(x)) for x in expression.atoms(Float)})
        i, j = Symbol("i"), Symbol("j")
        is_imaginary = expression.free_symbols & {i, j} == {i}
        return expression.xreplace({i: I}) if is_imaginary else expression
    except MemoryError:
        raise
    except Exception:
        return None


def _spelled(match: re.Match[str]) -> str:
    """A name with its primes and its subscript as one that the parser gives no other meaning."""
    name, before, subscript, after = match.groups()
    is_gamma = name == r"\Gamma" and match.string[match.end() : match.end() + 1] in ("(", "{")
    if is_gamma or _PARSED.match(name):
        return match[0]
    # A subscript as letters and digits, one to one.
    index = re.sub(r"[\s{}\\]|\\(?:rm|mathbf)(?![a-z])", "", subscript or "")
    suffix = "".join(c if c.isalnum() else f"u{ord(c):x}" for c in index)
    suffix += "prime" * len(before + after)
    if not suffix and name not in ("I", r"\gamma", r"\Gamma"):
        return match[0]
    if len(name) > 1 or name in "IEeid":
        name, suffix = "X", name.lstrip("\\") + suffix
    return f"{name}_{{{suffix}}}"


def are_evaluable(*candidates: Any) -> bool:
    """Whether all are expressions whose values have so few digits that they can be worked out."""
    from sympy import Expr

    try:
        return all(isinstance(x, Expr) and _digits(x) <= _LARGEST for x in candidates)
    except (OverflowError, ValueError, TypeError, AttributeError):
        return False


def _digits(expression: Any) -> float:
    """A bound on the digits that it takes to write the value's numerator and denominator."""
    from sympy import Float, Rational, factorial

    if isinstance(expression, Rational):
        return 0.302 * (int(expression.p).bit_length() + int(expression.q).bit_length())
    if isinstance(expression, Float):
        _, _, exponent, bits = expression._mpf_
        return float(1 + 0.302 * abs(exponent + bits))
    inner = [_digits(argument) for argument in expression.args]
    if not (expression.is_Pow or isinstance(expression, factorial)):
        return math.fsum(inner) if inner else 1.0
    exponent = expression.args[-1]
    if exponent.is_number and inner[-1] > 9:
        return math.inf
    size = abs(complex(exponent.evalf(15))) if exponent.is_number else 1.0
    return max(inner[0], 1.0) * max(size, 1.0)  # n! is below n^n


def real_value(expression: Any) -> Fraction | None:
    """The finite real value of a constant, or None."""
    value = _value(expression.doit()) if are_evaluable(expression) else None
    return None if value is None or value[1] else value[0]


def _value(expression: Any, digits: int = _DIGITS, point: Any = None) -> Complex | None:
    """The real and imaginary part of a finite value at a point, or None."""
    from sympy import Rational

    try:
        # Digits that cancel out are worked out as well, up to 100 of them.
        parts = expression.evalf(digits, subs=point, maxn=digits + 100).as_real_imag()
        if not are_evaluable(*parts):
            return None
        real, imaginary = (Fraction(int(x.p), int(x.q)) for x in map(Rational, parts))
    except MemoryError:
        raise
    except Exception:  # infinite, with symbols, or whatever else a library may raise
        return None
    # What is left of a cancellation is no imaginary part.
    noise, zero = max(abs(real), abs(imaginary)) / 10 ** (digits * 2 // 3), Fraction(0)
    return (real if abs(real) > noise else zero), (imaginary if abs(imaginary) > noise else zero)


def same(first: Any, second: Any) -> bool:
    """Whether two sympy expressions are the same: constants, expressions in symbols, matrices."""
    from sympy import MatrixBase, MatrixExpr, nan, zoo

    if isinstance(first, MatrixBase | MatrixExpr) and isinstance(second, MatrixBase | MatrixExpr):
        first, second = first.doit(), second.doit()
        return first.shape == second.shape and all(map(same, first, second))
    if first == second or second in (nan, zoo) or not are_evaluable(first, second):
        return bool(first == second) and second not in (nan, zoo)
    first, second = first.doit(), second.doit()
    if first.free_symbols or second.free_symbols:
        return _agree(first, second)
    is_same = None if first.is_Rational and second.is_Rational else _same_value(first, second)
    return bool(first == second) if is_same is None else is_same


def _same_value(first: Any, second: Any, point: Any = None, digits: int = _DIGITS) -> bool | None:
    """Whether two have the same value at a point; None if one is infinite there or not known."""
    a, b = _value(first, digits, point), _value(second, digits, point)
    if a is None or b is None:
        return None
    exact = 12 if digits == _DIGITS else digits - 10
    tolerance = max(map(abs, (*a, *b))) / 10**exact
    if any(abs(x - y) > tolerance for x, y in zip(a, b, strict=True)):
        return False
    if digits > _DIGITS:
        return True
    # In thirty digits 2^2024 is 2^2024 - 1. Of a value with n digits before the point 2 n are taken
    # after it: enough to tell the root of 10^2n + 1 from 10^n.
    size = int(max(map(abs, a))).bit_length() * 3 // 10
    more = min(_MIN_DIGITS + max(3 * size, 2 * int(_digits(first - second))), _MAX_DIGITS)
    return bool(_same_value(first, second, point, more))


def _agree(first: Any, second: Any) -> bool:
    """Whether they agree at positive points, and with one negative number where both are real."""
    from sympy import Rational

    symbols = sorted(first.free_symbols | second.free_symbols, key=str)
    numbers = [abs(number) for side in (first, second) for number in side.atoms(Rational)]
    # Below 1, around it and beyond all numbers in them: |x - 2024| is no 2024 - x.
    scales = Rational(1, 900), Rational(1, 300), Rational(1, 31) * max([1, *numbers])
    generator = random.Random(0)  # the same points each time: a verdict must not depend on luck
    informative = 0
    for count in range(max(_POINTS, len(symbols))):
        scale = scales[count % 3]
        point = {symbol: generator.randint(101, 899) * scale for symbol in symbols}
        is_same = _same_value(first, second, point)
        informative += is_same is not None
        # One at a time: the root of ab is that of a times that of b.
        symbol = symbols[count % len(symbols)]
        point[symbol] = -point[symbol]
        values = _value(first, point=point), _value(second, point=point)
        # Elsewhere roots and logarithms have branches.
        if is_same and all(value is not None and not value[1] for value in values):
            is_same = _same_value(first, second, point)
        if is_same is False:
            return False
    return informative >= _POINTS // 2


def proportional(first: Any, second: Any, *, positive: bool = False) -> bool:
    """Whether one expression is the other times a constant, or a positive one for inequalities."""
    from sympy import Rational

    first, second = first.doit(), second.doit()
    symbols = sorted(first.free_symbols | second.free_symbols, key=str)
    point = {symbol: Rational(7 * i + 11, 10) for i, symbol in enumerate(symbols)}
    factor = (first / second).subs(point)
    is_factor = factor.is_positive if positive else factor.is_nonzero
    return bool(is_factor) and same(first, factor * second)
