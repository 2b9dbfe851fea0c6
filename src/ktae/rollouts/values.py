"""What a value of a row is, and what becomes of it in the record."""

from __future__ import annotations

import functools
import hashlib
import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from ktae.errors import InputError
from ktae.rollouts.conversation import as_json, author, choices_of, list_in, messages_of, plain_text
from ktae.rollouts.paths import NAMES

Row = dict[str, Any]
WORDS = dict.fromkeys(NAMES.correct, 1.0) | dict.fromkeys(NAMES.incorrect, 0.0)
"""Texts that are verdicts, in small letters."""
LONGEST_LABEL = 80  # characters; a longer text in the place of a group becomes a short label


def as_verdict(value: object) -> float | None:
    """1 for a verdict that says correct, 0 for incorrect; None for what is no verdict."""
    if isinstance(value, str):
        return WORDS.get(value.strip().lower())
    return float(value == 1) if value in (0, 1) else None


def is_null(value: object) -> bool:
    """Null; NaN too, since that is what pandas writes for null in a column of numbers."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def is_number(value: object) -> bool:
    """Whether it is a number, and not true or false."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def as_label(value: Any) -> Any:
    """A group's label as it was meant: pandas has integers as 7.0 where others are null, and
    databases have them as decimals."""
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        return int(value)
    return value


def is_label(value: object) -> bool:
    """Whether it can be a group's label: text or an integer."""
    return isinstance(as_label(value), int | str) and not isinstance(value, bool)


def are_all(kind: str, value: Any) -> bool:
    """Whether it is a list of at least one entry, each of which is of a kind."""
    return isinstance(value, list) and bool(value) and all(map(KINDS[kind], value))


KINDS: dict[str, Callable[[Any], bool]] = {
    "any": lambda value: True,
    "policy": lambda value: any(map(author, messages_of(value) or ())),  # speaks in it
    "response": lambda value: KINDS["said"](value) or choices_of(value) is not None,
    "decided": lambda value: as_verdict(value) is not None,
    "text": lambda value: isinstance(value, str),
    "said": lambda value: isinstance(value, str) or messages_of(value) is not None,
    "messages": lambda value: messages_of(value) is not None,
    "number": is_number,
    "number?": lambda value: value is None or is_number(value),
    "score": lambda value: value is None or is_number(value) or as_verdict(value) is not None,
    "verdict": lambda value: value is None or as_verdict(value) is not None,
    "label": is_label,
    "texts by name": lambda value: isinstance(value, dict) and KINDS["texts"]([*value.values()]),
    "part": lambda value: KINDS["texts by name"](value) and value.keys() == {"role", "text"},
    "dict": lambda value: isinstance(value, dict),
    "list": lambda value: isinstance(value, list),
    "saids": lambda value: are_all("said", value) and messages_of(value) is None,
}
KINDS |= {
    f"{x}s": functools.partial(are_all, x) for x in ("text", "score", "label", "list", "part")
}
"""What a field may hold, by the name that a schema's signature has for it."""


def text(value: str) -> str:
    """Text. Half a surrogate pair, which JSON can spell and nothing can write, is U+FFFD."""
    if str.isascii(value):  # most, and this takes no time
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def any_text(value: Any) -> str:
    """Text; of anything else its JSON."""
    return text(value if isinstance(value, str) else as_json(value))


def _answer(value: Any) -> str:
    """Text; of a list of accepted answers the texts, which numbers become as they are written."""
    if isinstance(value, list) and {*map(type, value)} <= {str, int, float, Decimal}:
        value = [str(as_label(x)) for x in value]  # no booleans among them
    return any_text(value)


def _number(value: Any) -> float:
    if not (is_number(value) and math.isfinite(value)):
        raise ValueError
    return float(value)


def _token_ids(value: Any) -> np.ndarray:
    """(T,) int32: a column of arrays is made much faster than one of lists."""
    ids = np.array(array("i", value))
    if {*map(type, value)} - {int} or ids.min(initial=0) < 0 or not isinstance(value, list):
        raise ValueError
    return ids


PARSERS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "group": (lambda x: text(str(as_label(x)) if is_label(x) else x), "text or an integer"),
    "step": (
        lambda x: array("i", [int(x) if isinstance(x, str) else as_label(x)])[0],
        "an integer within ±(2^31 - 1)",
    ),
    "prompt": (any_text, "text"),
    "response": (text, "text or messages"),
    "answer": (_answer, "text"),
    "token_ids": (_token_ids, "a list of integers from 0 to 2^31 - 1"),
    "mask": (lambda x: np.array(array("d", x)), "a list of booleans"),
    "reward": (_number, "a finite number"),
    "correct": (lambda x: _number(as_verdict(x)), f"one of {', '.join(WORDS)}, or null"),
    "advantage": (_number, "a finite number"),
    "model": (any_text, "text"),
    "source": (any_text, "text"),
    "segments": (
        lambda x: (
            [{k: text(y) for k, y in part.items()} for part in x] if KINDS["parts"](x) else None
        ),
        "parts with role and text",
    ),
}
"""What becomes of each field's value, null aside, with an exception where it is none; and what an
error expects."""


def parse_answers(value: object, where: str) -> tuple[str, ...]:
    """The accepted answers.

    Text is one answer, unless it is a printed list of texts (JSON or Python). After `####`, as in
    GSM8K, only what follows counts.

    Raises:
        InputError: anything but a text, a number or a list of such; `where` begins the message.
    """
    if isinstance(value, str):
        # A list of anything else is an answer, such as an interval.
        if (listed := list_in(value)) and KINDS["texts"](listed):
            return parse_answers(listed, where)
        return (text(value).rpartition("####")[2].rpartition("\nA: ")[2].strip(),)
    number = as_label(value)  # tables hold integers as 142.0 where another row has a fraction
    if is_number(number) and abs(number) < math.inf:
        return (str(number),)
    if isinstance(value, Sequence) and value:
        return tuple(dict.fromkeys(x for part in value for x in parse_answers(part, where)))
    raise InputError(f"{where}: answer is {value!r:.60}; expected text, a number, or a list")


@functools.lru_cache(maxsize=256)  # rollouts of one prompt often follow each other
def prompt_digest(prompt: str) -> str:
    """16 hexadecimal digits that tell a prompt, the same in every step."""
    return hashlib.blake2s(prompt.strip().encode(), digest_size=8).hexdigest()


def label_of(value: Any) -> Any:
    """A group's label: of a long text or a conversation one made of it."""
    if is_null(value) or (isinstance(value, list) and messages_of(value) is None):
        return None if is_null(value) else value  # a list is of no use
    if is_label(value) and not (isinstance(value, str) and len(value) > LONGEST_LABEL):
        return as_label(value)
    return f"prompt {prompt_digest(any_text(plain_text(value)))}"


def without(row: Row, names: Iterable[str]) -> Row:
    """The other fields of a row."""
    names = frozenset(names)
    return {name: value for name, value in row.items() if name not in names}
