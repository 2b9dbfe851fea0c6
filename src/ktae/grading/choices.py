r"""Choices of a multiple-choice question, alone (`(C)`, `option C`) or with their value.

`\textbf{(C) } 12`, `(C)\ 12`, `C. 12` and `C) 12` are the choice C, whose value is 12. What is no
mark but a factor or a function, as in `C 12`, `(x) 12` or `f(5)`, is no choice.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ktae.grading import values

_MARK = r"(?:(?:[Oo]ption|[Cc]hoice)\s+)?(?:\(([A-J])\)|([A-J])[).])"
_ALONE = re.compile(rf"{_MARK}|(?:(?:[Oo]ption|[Cc]hoice)\s+)?([A-J])")
_WITH_VALUE = re.compile(rf"{_MARK}\s+(?![-+*/=^]\s|[+*/=^_])(\S.*)", re.DOTALL)
_ANOTHER = re.compile(r"(?<!\w)\(?[A-J][).]\s")


class Choice(NamedTuple):
    """A choice, and its value where that is written beside it."""

    letter: str
    value: str = ""


def choice(answer: str) -> Choice | None:
    """The choice that an answer is, or None if it is none or several."""
    text = values.tidy(values.TEXT.sub(r" \1 ", values.tidy(answer)))
    alone = _ALONE.fullmatch(text)
    if alone:
        return Choice(alone[1] or alone[2] or alone[3])
    with_value = _WITH_VALUE.fullmatch(text)
    if with_value is None or _ANOTHER.search(with_value[3]):
        return None
    return Choice(with_value[1] or with_value[2], with_value[3])
