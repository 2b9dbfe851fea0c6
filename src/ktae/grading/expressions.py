r"""Expressions: LaTeX to sympy by math-verify's parser, and whether two are the same.

The parser's own normalisation is off: it deletes units, dots and quotes, and folds case. `prepared`
does what is needed instead: every name becomes one symbol, one to one (`a_{n+1}` is not `a_{n-1}`,
`f'` is not `f`), and plain notation (`2*pi`, `sqrt(2)`, `x**2`) becomes LaTeX.

Two constants are compared exactly, or in many digits. Two expressions in symbols are the same if
they agree at several points: a proof may take minutes, and a point at which they differ takes none.
Symbols are positive; where both are real at negative points too, they have to agree there as well:
`\sqrt{x^2}` is not `x`, and `\sqrt{1/n}` is `1/\sqrt{n}`. `n`, `m` and `k` may be integers.
"""

from __future__ import annotations

import functools
import math
import random
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from ktae.grading import latex, values

DIGITS = 30
"""Significant digits to which constants are evaluated for comparison."""
MIN_DIGITS, MAX_DIGITS = 100, 4000
"""The same for constants without decimals, by their size. Python reads numbers of up to 4,300
digits."""
LARGEST = 20_000
"""Digits of a number that is evaluated, and of an exponent that is: 9."""
LONGEST, DEEPEST = 2000, 25
"""Characters of a formula that is parsed, and braces that may close at one place of it."""
POINTS = 6
"""Points at which two expressions are compared; half of them have to tell something."""
INTEGERS = ("n", "m", "k", "N")
"""Names of what may be an integer, as in `(-1)^{2n}`."""
Complex = tuple[Fraction, Fraction]

_FUNCTIONS = r"arcsin|arccos|arctan|arccot|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt"
_CONSTANTS = r"alpha|beta|gamma|delta|epsilon|theta|lambda|sigma|omega|phi|pi|infty"
_PLAIN = {
    **{name: rf"\{name} " for name in f"{_FUNCTIONS}|{_CONSTANTS}".split("|")},
    **{"infinity": r"\infty ", "inf": r"\infty ", "oo": r"\infty ", "Pi": r"\pi "},
    **{f"a{name}": rf"\arc{name} " for name in ("sin", "cos", "tan")},
}
_PLAIN_WORD = re.compile(r"\\[a-zA-Z]+|(?<![a-zA-Z_{])[a-zA-Z]{2,}|(?<=[{(])[a-zA-Z]{2,}")
_ARGUMENTS = {"frac": 2, "binom": 2} | dict.fromkeys(
    ("sqrt", "mathbb", "overline", "vec", "hat", "bar"), 1
)
_COMMAND = re.compile(r"\\([a-zA-Z]+)\s*")
_INDEXED = re.compile(r"\\(?:log|sum|prod|int|lim|max|min|sup|inf|mathbb|gcd|lcm)\s*$")
"""What has a subscript that is no part of a name."""
_NAME = re.compile(r"(\\[a-zA-Z]+|[A-Za-z])\s*('*)(?:_\{([^{}]*)\})?('*)")
_PARSED = re.compile(rf"\\(?:pi|infty|{_FUNCTIONS}|log|sum|prod|int|lim|max|min)$")
_PRIME = re.compile(r"\^\s*(?:\{((?:\s*\\prime)+)\s*\}|(\\prime))")
_DEGREES = re.compile(
    r"(\d+(?:\.\d+)?|[A-Za-z]|\\[a-z]+)\s*\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![a-z]))"
)
TRIGONOMETRIC = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![a-z])")
_CHOOSE = re.compile(r"\{([^{}]*)\\choose(?![a-z])([^{}]*)\}|^([^{}]*)\\choose(?![a-z])([^{}]*)$")
_TEXT_BELOW = re.compile(
    r"_\s*\{?\s*\\(?:text|mathrm|textbf|mbox|operatorname)\s*\{([^{}]*)\}\s*\}?"
)
_CODES = {"+": "plus", "-": "minus", "*": "star", ",": "comma", "/": "over", "^": "to"}


@functools.lru_cache(maxsize=1024)
def parsed(text: str) -> Any:
    r"""A clean answer as a sympy object with its symbols, or None if it does not parse."""
    from latex2sympy2_extended.latex2sympy2 import (  # type: ignore[import-untyped]
        ConversionConfig,
        latex2sympy,
    )

    is_deep = "}" * DEEPEST in text.replace(" ", "")
    if not text or len(text) > LONGEST or is_deep or r"\ldots" in text:
        return None
    if not latex.braces_match(text) or re.search(r"\d\s*_", text):  # no subscripts of numbers
        return None
    try:
        case_kept = ConversionConfig(lowercase_symbols=False)
        expression = latex2sympy(
            prepared(text), normalization_config=None, conversion_config=case_kept
        )
        return _with_constants(expression)
    except MemoryError:
        raise
    except Exception:
        return None


def prepared(text: str) -> str:
    r"""A clean answer in the LaTeX that the parser reads, each name with a spelling of its own."""
    text = text.replace("**", "^").replace(r"\lg", r"\log_{10}").replace(r"\cdotp", r"\cdot")
    text = _CHOOSE.sub(lambda m: rf"\binom{{{m[1] or m[3]}}}{{{m[2] or m[4]}}}", text)
    text = _PRIME.sub(lambda m: "'" * (m[1] or m[2]).count("prime"), text)
    text = _DEGREES.sub(r"(\1\\pi/180)" if TRIGONOMETRIC.search(text) else r"\1", text)
    text = _TEXT_BELOW.sub(r"_{\1}", text)
    text = latex.TEXT.sub(lambda m: f"X_{{{m[1]}}}" if len(m[1].strip()) > 1 else m[1], text)
    text = _PLAIN_WORD.sub(lambda m: _PLAIN.get(m[0], m[0]), text)
    text = _NAME.sub(_spelled, _braced(text))
    return text if r"\sqrt[" in text else text.replace("[", "(").replace("]", ")")


def _braced(text: str) -> str:
    r"""Every argument in braces: `\frac12`, `\sqrt2`, `\sqrt(x+1)`, `2^(1/4)`, `e^-x`, `x_1`.

    A subscript of a name is letters and digits then.
    """
    parts: list[str] = []
    position = 0
    while position < len(text):
        command = _COMMAND.match(text, position)
        count = _ARGUMENTS.get(command[1], 0) if command else 0
        if command:
            parts.append("\\" + command[1] if count else command.group())
            position = command.end()
            if count and text.startswith("[", position):
                end = latex.closing(text, position)
                parts.append(f"[{_braced(text[position + 1 : end])}]")
                position = end + 1
            contents = []
            for _ in range(count):
                content, position = _argument(text, position, brackets=command[1] == "sqrt")
                contents.append(content)
            if command[1] == "binom":  # the parser would evaluate it, whatever its size
                n, k = contents
                parts[-1] = rf"\frac{{({n})!}}{{({k})!(({n})-({k}))!}}"
            else:
                parts.extend(f"{{{content}}}" for content in contents)
        elif text[position] in "^_":
            sign, before = text[position], "".join(parts[-2:])
            content, position = _argument(text, position + 1, brackets=sign == "^")
            if sign == "_" and not _INDEXED.search(before):
                content = _code(content)
            parts.append(f"{sign}{{{content}}}")
        else:
            parts.append(text[position])
            position += 1
    return "".join(parts)


def _argument(text: str, position: int, *, brackets: bool) -> tuple[str, int]:
    """The argument that begins there without its braces, and where it ends."""
    while text[position : position + 1] == " ":
        position += 1
    opening = text[position : position + 1]
    if opening == "{" or (opening == "(" and brackets):
        end = latex.closing(text, position)
        if end < 0:
            raise ValueError("a bracket that is not closed")
        return _braced(text[position + 1 : end]), end + 1
    if opening == "-" and brackets:
        content, end = _argument(text, position + 1, brackets=True)
        return f"-{content}", end
    if command := _COMMAND.match(text, position):
        end = command.end()
        for _ in range(_ARGUMENTS.get(command[1], 0)):
            _, end = _argument(text, end, brackets=False)
        return _braced(text[position:end]).strip(), end
    if not opening:
        raise ValueError("an argument is missing")
    digits = re.compile(r"\d+").match(text, position) if brackets else None
    end = digits.end() if digits else position + 1
    return text[position:end], end


def _spelled(match: re.Match[str]) -> str:
    r"""A name with its primes and its subscript as one that the parser keeps.

    Those to which the parser gives a meaning of its own are spelled otherwise: `I`, `E_1`.
    """
    name, before, subscript, after = match.groups()
    rest = match.string[match.end() : match.end() + 1]
    is_gamma = name == r"\Gamma" and rest in ("(", "{")
    if is_gamma or _PARSED.match(name):
        return match.group()
    suffix = (subscript or "") + "prime" * len(before + after)
    if not suffix and name not in ("I", r"\gamma", r"\Gamma"):
        return match.group()
    if len(name) > 1 or name in "IEeid":
        name, suffix = "X", name.lstrip("\\") + suffix
    return f"{name}_{{{suffix}}}"


def _code(subscript: str) -> str:
    """A subscript as letters and digits, one to one."""
    text = re.sub(r"\\(?:text|mathrm|rm|textbf|mathbf|operatorname)(?![a-z])", "", subscript)
    text = re.sub(r"[\s{}\\]", "", text)
    return "".join(c if c.isalnum() else _CODES.get(c, f"u{ord(c):x}") for c in text) or "x"


def _with_constants(expression: Any) -> Any:
    """With the imaginary unit for `i`, unless it is an index or one of the vectors i and j.

    What is said of a function that nobody has written out, f(x) or df/dx, becomes a symbol.
    """
    from sympy import Derivative, I, Symbol
    from sympy.core.function import AppliedUndef

    if not hasattr(expression, "atoms"):
        return expression
    unknown = [d for d in expression.atoms(Derivative) if not d.expr.has(*d.variables)]
    for some in (expression.atoms(AppliedUndef), unknown):
        names = {x: Symbol(str(x).replace(" ", "")) for x in some}
        expression = expression.xreplace(names) if names else expression
    i, j = Symbol("i"), Symbol("j")
    free = expression.free_symbols
    return expression.xreplace({i: I}) if i in free and j not in free else expression


def is_evaluable(expression: Any) -> bool:
    """Whether its value has so few digits that it can be worked out."""
    try:
        return _digits(expression) <= LARGEST
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
    exponent, size = expression.args[-1], 1.0
    if exponent.is_number:
        if inner[-1] > 9:
            return math.inf
        size = max(1.0, abs(complex(exponent.evalf(15))))
    return max(inner[0], 1.0) * size if expression.is_Pow else size * math.log10(size + 2)


def real_value(expression: Any) -> Fraction | None:
    """A finite real value, or None. Integers and fractions are exact."""
    parts = complex_value(expression) if is_evaluable(expression) else None
    return None if parts is None or parts[1] else parts[0]


def complex_value(
    expression: Any, precision: int = DIGITS, point: dict[Any, Any] | None = None
) -> Complex | None:
    """The real and imaginary part of a finite value, or None.

    Args:
        expression: a constant, or an expression in the symbols of `point`.
        precision: significant digits. Integers and fractions are exact.
        point: the values of symbols.
    """
    try:
        exact = expression if point else expression.doit()
        evaluated = exact if exact.is_Rational else exact.evalf(precision, subs=point)
        real, imaginary = (_fraction(part) for part in evaluated.as_real_imag())
    except MemoryError:
        raise
    except Exception:
        return None
    if real is None or imaginary is None:
        return None
    # What is left of a cancellation is no imaginary part.
    noise = max(abs(real), abs(imaginary)) / 10 ** (precision * 2 // 3)
    zero = Fraction(0)
    return (real if abs(real) > noise else zero), (imaginary if abs(imaginary) > noise else zero)


def _fraction(part: Any) -> Fraction | None:
    if part.is_Rational:
        return Fraction(int(part.p), int(part.q))
    return Fraction(str(part)) if part.is_Float and part.is_finite else None


def same(first: Any, second: Any) -> bool:
    """Whether two sympy expressions are the same: constants, expressions in symbols, matrices."""
    from sympy import Expr, Float, MatrixBase, MatrixExpr, nan, zoo

    if isinstance(first, MatrixBase | MatrixExpr) or isinstance(second, MatrixBase | MatrixExpr):
        matrices = [m.doit() for m in (first, second) if isinstance(m, MatrixBase | MatrixExpr)]
        if len(matrices) < 2 or matrices[0].shape != matrices[1].shape:
            return False
        return all(same(a, b) for a, b in zip(*map(list, matrices), strict=True))
    if not (isinstance(first, Expr) and isinstance(second, Expr)) or second in (nan, zoo):
        return False
    if first == second:
        return True
    if not (is_evaluable(first) and is_evaluable(second)):
        return False
    if first.free_symbols or second.free_symbols:
        return _same_at_points(first, second)
    a, b = complex_value(first), complex_value(second)
    if a is None or b is None:  # infinite, or without a value
        return bool(first.doit() == second.doit())
    is_close = all(values.close(x, y) for x, y in zip(a, b, strict=True))
    if first.has(Float) or second.has(Float) or not is_close:
        return is_close
    return _same_exactly(first, second, max(map(abs, a)))


def _same_exactly(first: Any, second: Any, size: Fraction) -> bool:
    """Whether two constants agree, integers and fractions in all digits, others in many.

    In thirty digits 2^2024 is 2^2024 - 1. Where the value has n digits before the point, 2 n are
    taken after it: enough to tell the root of 10^2n + 1 from 10^n. More take minutes.
    """
    if first.doit().is_Rational and second.doit().is_Rational:
        return bool(first.doit() == second.doit())
    # Three tenths of the bits are the digits: log10(2) is .301.
    before_the_point = max(0, size.numerator.bit_length() - size.denominator.bit_length()) * 3 // 10
    precision = min(MIN_DIGITS + 3 * before_the_point, MAX_DIGITS)
    a, b = complex_value(first, precision), complex_value(second, precision)
    return a is not None and b is not None and _close(a, b, Fraction(1, 10 ** (precision - 10)))


def _close(a: Complex, b: Complex, tolerance: Fraction) -> bool:
    largest = max(map(abs, (*a, *b)))
    return all(abs(x - y) <= tolerance * largest for x, y in zip(a, b, strict=True))


def _same_at_points(first: Any, second: Any) -> bool:
    """Whether two expressions in symbols agree wherever both have a value."""
    has_rounded = any(atom.is_Float for e in (first, second) for atom in e.atoms())
    tolerance = Fraction(1, 10 ** (5 if has_rounded else 18))

    def agree_at(kind: str) -> bool | None:
        told = False
        for count, (a, b) in enumerate(values_at((first, second), kind), start=1):
            if kind == "negative" and (a[1] or b[1]):  # roots and logarithms have branches
                continue
            if not _close(a, b, tolerance):
                return False
            told = count >= POINTS // 2
        return told or None

    if (agreed := agree_at("positive")) is None:
        return bool((first - second).simplify() == 0)
    if agreed:
        return agree_at("negative") is not False
    symbols = first.free_symbols | second.free_symbols
    return any(str(symbol) in INTEGERS for symbol in symbols) and bool(agree_at("integer"))


def proportional(first: Any, second: Any, *, positive: bool = False) -> bool:
    """Whether one expression is the other times a constant, as both sides of one equation are.

    Args:
        first: an expression in symbols.
        second: another one.
        positive: the constant has to be positive, as it has to be for an inequality.
    """
    ratios = []
    for a, b in values_at((first, second), "positive"):
        x, y = complex(*map(float, a)), complex(*map(float, b))
        if bool(x) != bool(y):
            return False
        ratios += [x / y] if y else []
    if len(ratios) < POINTS // 2 or any(abs(r - ratios[0]) > 1e-9 * abs(r) for r in ratios):
        return False
    return not positive or (abs(ratios[0].imag) < 1e-9 and ratios[0].real > 0)


def values_at(expressions: Sequence[Any], kind: str) -> Iterator[list[Complex]]:
    """The values of expressions at the same few points, where all of them have one.

    Args:
        expressions: in any symbols; a symbol has the same value in all of them.
        kind: symbols are `positive`, or some are `negative`, or `INTEGERS` are integers.
    """
    from sympy import Mod, Rational, ceiling, floor

    symbols = sorted(set().union(*(e.free_symbols for e in expressions)), key=str)
    evaluated = [e.doit() for e in expressions]
    has_steps = any(e.has(floor, ceiling, Mod) for e in expressions)
    generator = random.Random(0)  # the same points each time: a verdict must not depend on luck
    for count in range(POINTS * (8 if has_steps else 1)):
        point = {}
        for symbol in symbols:
            # Below 1, around it and far above: there `x^{2024} + 1` differs from `x^{2024}`.
            place = Rational(generator.randint(101, 899), (300, 900, 31)[count % 3])
            if kind == "integer" and str(symbol) in INTEGERS:
                place = Rational(count + 2 + generator.randint(0, 9))
            point[symbol] = -place if kind == "negative" and generator.random() < 0.7 else place
        results = [complex_value(e, point=point) for e in evaluated]
        if None not in results:
            yield results  # type: ignore[misc]
