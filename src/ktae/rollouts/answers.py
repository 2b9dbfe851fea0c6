"""The reference answers of a row, in any of the forms in which files hold them."""

from __future__ import annotations

import ast
import contextlib
import json
import math
from collections.abc import Sequence
from decimal import Decimal

from ktae.errors import InputError
from ktae.files.text import require_text
from ktae.rollouts.values import as_label

UNPARSED = (ValueError, SyntaxError, TypeError, RecursionError, MemoryError)
"""What parsers of lists raise: TypeError of a list as a key, the last two where it is too deep."""


def parse_answers(answer: object, where: str) -> tuple[str, ...]:
    """The accepted answers.

    Text is one answer, unless it is a printed list of texts (JSON or Python). After `####`, as in
    GSM8K, only what follows counts.

    Raises:
        InputError: anything but a text, a number or a list of such; `where` begins the message.
    """
    if isinstance(answer, str):
        require_text(answer, f"{where}: answer")
        listed: object = None
        # What neither parses is no list but an answer with a bracket in front, such as an interval.
        for parse in (json.loads, ast.literal_eval) if answer.lstrip().startswith("[") else ():
            with contextlib.suppress(*UNPARSED):
                listed = listed or parse(answer)
        if isinstance(listed, list) and listed and all(isinstance(x, str) for x in listed):
            return parse_answers(listed, where)
        # GSM8K's answers are worked out, and end in the number after a mark.
        for mark in ("####", "\nA: "):
            answer = answer.rpartition(mark)[2]
        return (answer.strip(),)
    number = as_label(answer)  # tables hold integers as 142.0 where another row has a fraction
    is_decimal = isinstance(number, float | Decimal) and math.isfinite(number)
    if is_decimal or (isinstance(number, int) and not isinstance(number, bool)):
        return (str(number),)
    if isinstance(answer, Sequence) and answer:
        return tuple(dict.fromkeys(x for part in answer for x in parse_answers(part, where)))
    raise InputError(f"{where}: answer is {answer!r:.60}; expected text, a number, or a list")
