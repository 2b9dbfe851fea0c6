"""One row of a file, whatever its format, checked and turned into a row of the record.

The fields of a row (`?`: may be absent):

    group           string or integer; 7, 7.0 and "7" are the same group
    response?       text. One of response and token_ids is required; where both are given the
    token_ids?      ids are what is scored
    mask?           booleans, 0 and 1, or labels of which -100 is masked, as long as token_ids
    reward          a finite number; a verdict as in `correct`, where the row has none; or null,
                    there is none, in a row that has `correct`
    correct?        a verdict: true, false, 1, 0, a word of `WORDS`, or null for unknown. Where the
                    field is absent, a rollout is correct if its reward is above the threshold
    step?           integer
    advantage?      number
    prompt?, answer?, model?, source?   text; anything else is kept as JSON text. Other
                    names of a prompt are `ktae.rollouts.conversation.PROMPTS`

Any other field is kept, as JSON, in the record's column `extra`. A field `extra` that holds a JSON
object as text, as that column does, is taken apart again.
"""

from __future__ import annotations

import contextlib
import json
import math
from array import array
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from ktae.arrays import MAX_TOKEN_ID, is_above
from ktae.errors import InputError, quoted
from ktae.files.text import require_text

Row = dict[str, Any]

WORDS = {
    **dict.fromkeys(("true", "correct", "pass", "passed", "c", "1"), True),
    **dict.fromkeys(("false", "incorrect", "fail", "failed", "i", "0"), False),
}
"""Texts that are verdicts, in small letters; C and I are inspect's."""

NEEDED = {
    "response": ("response", "token_ids"),
    "group": ("group",),
    "reward": ("reward", "correct"),
}
"""What a row needs one of, by the field that an error names."""

_AS_JSON = json.JSONEncoder(ensure_ascii=False, default=str).encode
IGNORED = -100
"""The label of a token that no loss is computed of."""


def to_record_row(row: object, where: str, threshold: float) -> dict[str, Any]:
    """One row of the record from one row of a file.

    Args:
        row: what was read.
        where: file and line or row, the beginning of every error.
        threshold: a rollout without a field `correct` is correct if its reward is above this.

    Raises:
        InputError: a field is missing or is not what it should be.
    """
    if not isinstance(row, dict):
        raise InputError(f"{where}: {_show(row)}; expected an object with group, response, reward")
    fields = dict(row)
    reward = fields.get("reward")
    if isinstance(reward, bool | str) and (verdict := as_verdict(reward)) is not None:
        fields = {"correct": verdict} | fields | {"reward": float(verdict)}
    for name, either in NEEDED.items():
        if not any(field in fields for field in either):
            instead = {"group": "group or prompt", "reward": "reward or correct"}
            raise InputError(
                f"{where}: no field {name!r}; its fields are {quoted(row)}; expected "
                f"{instead.get(name, name)}, or --field {name}=NAME for one of them"
            )
    has_verdict = "correct" in fields  # null is one, too: that nothing is known
    parsed: Row = dict.fromkeys(PARSERS)
    for name, parse in PARSERS.items():
        if name in fields:
            value = fields.pop(name)
            if value is not None or name == "group":  # any other field may be null
                parsed[name] = parse(value, f"{where}: {name}")
    if not has_verdict:
        if parsed["reward"] is None:
            raise InputError(
                f"{where}: reward is {_show(row['reward'])}; expected a finite number, or a field "
                "correct, which is null where nothing is known"
            )
        parsed["correct"] = float(is_above(parsed["reward"], threshold))
    if parsed["response"] is None and parsed["token_ids"] is None:
        raise InputError(f"{where}: response is null; expected text, or token_ids")
    n_ids = 0 if parsed["token_ids"] is None else len(parsed["token_ids"])
    if parsed["mask"] is not None and len(parsed["mask"]) != n_ids:
        raise InputError(
            f"{where}: mask has {len(parsed['mask'])} entries for {n_ids} token_ids; expected as "
            "many"
        )
    if parsed["mask"] is not None and parsed["mask"].dtype != bool:
        # Labels: the token itself, or -100 where no loss is computed.
        labels = parsed["mask"]
        wrong = np.flatnonzero((labels != IGNORED) & (labels != parsed["token_ids"]))
        if wrong.size:
            raise InputError(
                f"{where}: mask[{wrong[0]}] is {labels[wrong[0]]}; expected true or false, 0 or 1, "
                "or -100 and the token id"
            )
        parsed["mask"] = labels != IGNORED
    # A record's column `extra` is a JSON object as text; anything else by that name is a field.
    extra = fields.pop("extra", None)
    try:
        further = json.loads(extra) if isinstance(extra, str) else None
    except (ValueError, RecursionError):
        further = None
    if not isinstance(further, dict):
        further = {} if extra is None else {"extra": extra}
    return parsed | {"extra": any_text(further | fields or None, f"{where}: extra")}


def group_label(value: object, where: str) -> str:
    """Text, or the digits of an integer."""
    if not is_label(value):
        raise InputError(f"{where} is {_show(value)}; expected text or an integer")
    return require_text(str(as_label(value)), where)


def text(value: object, where: str) -> str | None:
    """Text alone."""
    if value is not None and not isinstance(value, str):
        raise InputError(f"{where} is {_show(value)}; expected text")
    return None if value is None else require_text(value, where)


def any_text(value: object, where: str) -> str | None:
    """Text; of anything else its JSON."""
    if value is None or isinstance(value, str):
        return text(value, where)
    return require_text(_AS_JSON(value), where)


def answer(value: object, where: str) -> str | None:
    """Text; of a list of accepted answers the texts, which numbers become as they are written."""
    if isinstance(value, list) and value and set(map(type, value)) <= {str, int, float, Decimal}:
        value = [str(as_label(x)) for x in value]  # no booleans among them
    return any_text(value, where)


def number(value: object, where: str) -> float | None:
    """A finite number."""
    if is_null(value):
        return None
    parsed = math.inf
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError, ValueError):  # too large; a Decimal that signals
            parsed = float(value)
    if not math.isfinite(parsed):
        raise InputError(f"{where} is {_show(value)}; expected a finite number")
    return parsed


def integer(value: object, where: str) -> int | None:
    """An integer, also as 7.0, which is how pandas has it where others are null."""
    parsed = number(value, where)
    if parsed is None:
        return None
    if parsed != int(parsed) or abs(parsed) > MAX_TOKEN_ID:
        raise InputError(f"{where} is {_show(value)}; expected an integer within ±(2^31 - 1)")
    return int(parsed)


def verdict(value: object, where: str) -> float | None:
    """1, 0, or null where nothing is known."""
    if is_null(value):
        return None
    known = as_verdict(value)
    if known is None:
        raise InputError(
            f"{where} is {_show(value)}; expected true or false, 1 or 0, "
            "correct or incorrect, pass or fail, C or I, or null (unknown)"
        )
    return float(known)


def as_verdict(value: object) -> bool | None:
    """Whether a verdict says correct; None for what is no verdict."""
    if isinstance(value, str):
        return WORDS.get(value.strip().lower())
    return bool(value == 1) if value in (0, 1) else None


def token_ids(value: object, where: str) -> np.ndarray | None:
    """(T,) int32: a column of arrays is made much faster than one of lists."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise InputError(f"{where} is {_show(value)}; expected a list of token ids")
    try:
        ids = np.array(array("i", value))
        # Among them may be True and False, which an array takes for 1 and 0.
        looked_at: Sequence[int] = np.flatnonzero(ids < 2).tolist()
    except (TypeError, OverflowError):  # something else than a number, or too large a one
        looked_at = range(len(value))
    for position in looked_at:
        token = value[position]
        if type(token) is not int or not 0 <= token <= MAX_TOKEN_ID:
            raise InputError(
                f"{where}[{position}] is {_show(token)}; expected an integer from 0 to 2^31 - 1"
            )
    return ids


def mask(value: object, where: str) -> np.ndarray | None:
    """(T,) bool, or (T,) int64 labels where an entry is neither 0 nor 1."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise InputError(f"{where} is {_show(value)}; expected a list of booleans")
    if not set(map(type, value)) <= {bool}:
        for position, entry in enumerate(value):
            if entry not in (0, 1) and (type(entry) is not int or abs(entry) > MAX_TOKEN_ID):
                raise InputError(f"{where}[{position}] is {_show(entry)}; expected true or false")
        if any(entry not in (0, 1) for entry in value):
            return np.array(value, dtype=np.int64)
    return np.array(value, dtype=bool)


def spans(value: object, where: str) -> list[int] | None:
    """Begins and ends within a text, as the record has them; anything else by that name is none."""
    is_list = isinstance(value, list) and all(type(x) is int and x >= 0 for x in value)
    return value if isinstance(value, list) and is_list and value == sorted(value) else None


PARSERS: dict[str, Callable[[object, str], Any]] = {
    "group": group_label,
    "step": integer,
    "prompt": any_text,
    "response": text,
    "answer": answer,
    "token_ids": token_ids,
    "mask": mask,
    "reward": number,
    "correct": verdict,
    "advantage": number,
    "model": any_text,
    "source": any_text,
    "context_spans": spans,
}
"""What becomes of each field: (value, null where absent; place and name) to the record's value."""


def as_label(value: object) -> object:
    """A group's label as it was meant: pandas has integers as 7.0 where others are null, and
    databases have them as decimals."""
    if isinstance(value, float | Decimal) and math.isfinite(value) and value == int(value):
        return int(value)
    return value


def is_label(value: object) -> bool:
    """Whether it can be a group's label: text or an integer."""
    return isinstance(as_label(value), int | str) and not isinstance(value, bool)


def is_null(value: object) -> bool:
    """Null; NaN too, since that is what pandas writes for null in a column of numbers."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _show(value: object, length: int = 60) -> str:
    """A value as JSON, after its type where JSON has none; cut to `length`, safe for a terminal."""
    shown = json.dumps(value, default=str)
    if not isinstance(value, str | int | float | list | dict | None):
        shown = f"{type(value).__name__} {shown}"
    return shown if len(shown) <= length else f"{shown[: length - 3]}..."
