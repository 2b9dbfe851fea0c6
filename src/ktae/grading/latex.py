r"""The characters of an answer in one way of writing: plain LaTeX, without what carries no meaning.

`clean` drops, on purpose and nothing else: delimiters of formulas, thin spaces and `\left`, fonts,
sizes and colours, a final stop, quotes around all of it. What it does not know, it leaves.
"""

from __future__ import annotations

import re
import unicodedata

from ktae.grading.tables import SIGNS

_WRAPPERS = (
    *(("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("`", "`")),
    *(("'", "'"), ('"', '"'), ("“", "”"), ("``", "''")),
)
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_NOISE = re.compile(
    r"(\\\\)(?:\[[\d.]+\w*\])?|\\(?:left|right|middle)(?![a-zA-Z])\.?"
    r"|\\(?:displaystyle|textstyle|limits|nolimits|hfill|[bB]igg?[lrm]?)(?![a-zA-Z])"
    r"|\\[,!;:>\s]|~|\\(?:[hv]space|phantom|tag|label)\*?\s*\{[^{}]*\}"
)
_FONT = re.compile(r"\\(?:bf|it|tiny|small|normalsize|large|Large|LARGE|huge|Huge)(?![a-zA-Z])\s*")
_STYLED = re.compile(
    r"\\(?:boldsymbol|bm|mathbf|mathit|mathsf|mathnormal|underline|uline|text(?:color)\s*(?:\[\w+\])?\s*\{\w+\}"
    r"|color\s*\{[\w!]+\}|colorbox\s*\{\w+\}|boxed|fbox|mathop|ensuremath)\s*(?=\{)"
)
_COLOUR = re.compile(r"\\color\s*\{[\w!]+\}\s*")
_UPRIGHT = re.compile(
    r"\\(?:mathrm|rm|operatorname|text)\s*\{\s*([eid])\s*\}|\{\\rm\s+([eid])\s*\}"
    r"|\\(?:hat|vec)\s*\{\s*(?:\\(?=i|j)|\\math(?:bf|rm)\s*\{)?\s*([ijk])(?:math)?\s*\}"
)
_TRANSLATED = str.maketrans(
    SIGNS["plain"]
    # Full-width signs, letters and digits.
    | {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    | {pair[0]: rf"\{pair[2:]} " for pair in SIGNS["latex"].split("|")}
)
_VULGAR = re.compile("[¼-¾⅐-⅞]")
_RAISED = re.compile("[⁰¹²³⁴-⁹⁻ⁿ]+")
_LOWERED = re.compile("[₀-₉]+")
_ROOT = re.compile(r"√\s*(?:\{([^{}]*)\}|\(([^()]*)\)|(\d+(?:\.\d+)?|\\?[a-zA-Z]+))")
_ABOUT = re.compile(r"^(?:\\approx(?![a-z])|≈|\\sim(?![a-z])|~)\s*")
_WHOLE_TEXT = re.compile(
    r"\\(?:text|mathrm|textbf|textrm|mbox|textit|operatorname|emph)\s*\{([^{}]*)\}"
)
_GROUPED = re.compile(r"(?<![\d.,])(\d{1,3})((?:(?:\{,\}|,\\!|\\,|\\!)\s*\d{3})+)(?!\d)")
_DECIMAL_COMMA = re.compile(r"(?<![\d.,])(-?\d+)\{,\}(\d+)(?![\d{])")
_THOUSANDS = re.compile(
    r"((?:[^\d.,(\[{]|(?<!\\)\{)*[1-9]\d{0,2})((?:,\d{3})+|(?: \d{3})+)(?![\d,])([^,]*)"
)
_EUROPEAN = re.compile(r"([\[\]])([^\[\](),;]+)[,;]([^\[\](),;]+)([\[\]])")
_OTHER_NAMES = (
    {rf"\{name}": other for name, other in (pair.split() for pair in SIGNS["commands"].split("|"))}
    | {r"\not=": r"\ne"}
    | dict.fromkeys((r"\lvert", r"\rvert", r"\vert"), "|")
)
_DOLLAR = re.compile(r"(?<!\\)\$")
_COMMAND = re.compile(r"\\not\s*=|\\[a-zA-Z]+")
TEXT = re.compile(r"\\(?:text|mathrm|textbf|textrm|mbox|textit|operatorname|emph)\s*\{([^{}]*)\}")
"""Text within a formula."""


def clean(answer: str, *, thousands: bool = True) -> str:
    r"""The answer without what carries no meaning.

    With `thousands`, `54,108` is taken for one number and not for a list of two. Within brackets it
    never is: `(2,251,252)` has three coordinates.
    """
    text = _UPRIGHT.sub(
        lambda m: m[m.lastindex or 0], _COLOUR.sub("", _STYLED.sub("", in_latex(answer)))
    )
    text = _FONT.sub("", text).replace("...", r"\ldots ")
    # Wrappers hide in wrappers, as in $\text{{5}}.$: until nothing changes any more.
    changed = True
    while changed:
        before = text
        for ending in (r"\!", r"\quad", r"\qquad", r"\newline"):
            text = text.strip().removesuffix(ending)
        text = text.rstrip(".,;: \\")
        for start, end in _WRAPPERS:
            if len(text) > len(start) + len(end) and text.startswith(start) and text.endswith(end):
                inner = text[len(start) : -len(end)]
                if (start.strip("$") or "$" not in inner) and (
                    start != r"\(" or r"\(" not in inner
                ):
                    text = inner
        if text.startswith("{") and text.endswith("}") and braces_match(text[1:-1]):
            text = text[1:-1]
        text = _ABOUT.sub("", text)
        inside = _WHOLE_TEXT.fullmatch(text)
        text = inside[1] if inside else text
        changed = text != before
    text = _COMMAND.sub(lambda m: _OTHER_NAMES.get(m[0].replace(" ", ""), m[0]), text)
    text = _GROUPED.sub(_joined, text)
    text = _DECIMAL_COMMA.sub(r"\1.\2", text)
    if thousands and _THOUSANDS.fullmatch(text):  # "27,54,108" is a list
        text = _THOUSANDS.sub(_joined, text)
    text = _DOLLAR.sub(" ", _NOISE.sub(lambda match: match.group(1) or " ", text))
    text = _EUROPEAN.sub(_in_english, text)
    return " ".join(text.split())


def in_latex(answer: str) -> str:
    r"""The answer with Unicode's mathematical signs in LaTeX: `2√3 x²` as `2\sqrt{3} x^{2}`."""
    if answer.isascii():
        return answer
    text = "".join(c for c in answer if unicodedata.category(c) != "Cf").translate(_TRANSLATED)
    text = _VULGAR.sub(lambda m: r"\frac{{{}}}{{{}}}".format(*_compatible(m[0]).split("⁄")), text)
    text = _RAISED.sub(lambda m: f"^{{{_compatible(m[0])}}}", text)
    text = _LOWERED.sub(lambda m: f"_{{{_compatible(m[0])}}}", text)
    return _ROOT.sub(lambda m: rf"\sqrt{{{m[1] or m[2] or m[3]}}}", text)


def _compatible(signs: str) -> str:
    return unicodedata.normalize("NFKC", signs).replace("−", "-")


def _joined(match: re.Match[str]) -> str:
    first, groups, *rest = match.groups()
    return str(first) + re.sub(r"\D", "", groups) + "".join(rest)


def _in_english(match: re.Match[str]) -> str:
    """An interval with outward brackets, `]a,b[`, as `(a,b)`; a closed one as it is."""
    left, start, end, right = match.groups()
    return f"{'[' if left == '[' else '('}{start},{end}{']' if right == ']' else ')'}"


def braces_match(text: str) -> bool:
    r"""Whether every brace that is not escaped (`\{`) has its counterpart."""
    depth = 0
    for token in _BRACE.findall(text):
        depth += (token == "{") - (token == "}")
        if depth < 0:
            return False
    return depth == 0


def split(text: str, separator: re.Pattern[str]) -> list[str]:
    """The parts between separators that stand outside all brackets; one part where none does."""
    return cut(text, separator)[0]


def cut(text: str, separator: re.Pattern[str]) -> tuple[list[str], list[str]]:
    r"""As `split`, with the separators."""
    parts: list[str] = []
    separators: list[str] = []
    depth, start, position = 0, 0, 0
    while position < len(text):
        if depth <= 0 and (match := separator.match(text, position)) and match.end() > position:
            parts.append(text[start : match.start()].strip())
            separators.append(match.group().strip())
            start = position = match.end()
            continue
        if text.startswith((r"\begin{", r"\end{"), position):
            depth += 1 if text[position + 1] == "b" else -1
        step = 2 if text[position] == "\\" and text[position + 1 : position + 2] else 1
        bracket = text[position + step - 1]
        depth += (bracket in "([{") - (bracket in ")]}")
        position += step
    return [*parts, text[start:].strip()], separators


def closing(text: str, opening: int) -> int:
    """Where the bracket that opens at this place is closed; -1 if it is not."""
    depth, pairs = 0, {"(": ")", "{": "}", "[": "]"}
    left, right = text[opening], pairs[text[opening]]
    for position in range(opening, len(text)):
        if text[position] in (left, right) and text[position - 1 : position] != "\\":
            depth += 1 if text[position] == left else -1
            if depth == 0:
                return position
    return -1


def plain(answer: str) -> str:
    """`clean` as plain lower-case text without spaces or markup, for answers in words."""
    text = TEXT.sub(r"\1", clean(answer)).replace(r"\mathbb", "").replace(r"\quad", "")
    return re.sub(r"[\s\\$*_{}]|(?:^|\s)the\s", "", text).casefold()


def words(answer: str) -> str | None:
    r"""The words of an answer that is nothing but words (`\text{Evelyn}`, `east`), or None."""
    text = TEXT.sub(r" \1 ", clean(answer)).strip(" *_()")
    if len(text) > 1 and re.fullmatch(r"[^\W\d_]+(?:[\s'-]+[^\W\d_]+)*", text):
        return " ".join(text.casefold().split())
    return None
