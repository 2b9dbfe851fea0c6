"""One row of a file, whatever its format, checked and turned into a row of the record.

The fields of a row (`?`: may be absent):

    group           string or integer; 7, 7.0 and "7" are the same group
    response?       text. One of response and token_ids is required; where both are given the
    token_ids?      ids are what is scored
    mask?           booleans or 0 and 1, as long as token_ids: 0 neither counts nor gets credit
    reward          a finite number; true or false, which is the verdict where the row has no
                    `correct`; or null, there is none, in a row that has `correct`
    correct?        true, false, 1, 0, or null for unknown. Where the field is absent, a rollout is
                    correct if its reward is above the threshold
    step?           integer
    advantage?      number
    prompt?, answer?, model?, source?   text; anything else is kept as JSON text. `problem`, as the
                    public math sets call it, is taken for an absent prompt

Any other field is kept, as JSON, in the record's column `extra`. A field `extra` that holds a JSON
object as text, as that column does, is taken apart again.
"""

from __future__ import annotations

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

NEEDED = {
    "response": ("response", "token_ids"),
    "group": ("group",),
    "reward": ("reward", "correct"),
}
"""What a row needs one of, by the field that an error names."""

_ABSENT = object()


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
    if fields.get("prompt") is None and "problem" in fields:
        fields["prompt"] = fields.pop("problem")
    if isinstance(fields.get("reward"), bool):
        fields = {"correct": fields["reward"]} | fields | {"reward": float(fields["reward"])}
    for name, either in NEEDED.items():
        if not any(field in fields for field in either):
            instead = {"group": "group or prompt", "reward": "reward or correct"}
            raise InputError(
                f"{where}: no field {name!r}; its fields are {quoted(row)}; expected "
                f"{instead.get(name, name)}, or --field {name}=NAME for one of them"
            )
    parsed = {
        name: parse(fields.pop(name, _ABSENT), f"{where}: {name}")
        for name, parse in PARSERS.items()
    }
    if parsed["correct"] is _ABSENT:
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
    # A record's column `extra` is a JSON object as text; anything else by that name is a field.
    extra = fields.pop("extra", None)
    try:
        further = json.loads(extra) if isinstance(extra, str) else None
    except (ValueError, RecursionError):
        further = None
    if not isinstance(further, dict):
        further = {} if extra is None else {"extra": extra}
    return parsed | {"extra": _as_text(further | fields or None, f"{where}: extra")}


def _group(value: object, where: str) -> str:
    if not is_label(value):
        raise InputError(f"{where} is {_show(value)}; expected text or an integer")
    return require_text(str(as_label(value)), where)


def _text(value: object, where: str) -> str | None:
    if value is _ABSENT or value is None:
        return None
    if not isinstance(value, str):
        raise InputError(f"{where} is {_show(value)}; expected text")
    return require_text(value, where)


def _as_text(value: object, where: str) -> str | None:
    if isinstance(value, str) or value is _ABSENT or value is None:
        return _text(value, where)
    return require_text(json.dumps(value, ensure_ascii=False, default=str), where)


def _answer(value: object, where: str) -> str | None:
    """Text; of a list of accepted answers the texts, which numbers become as they are written."""
    if isinstance(value, list) and value and set(map(type, value)) <= {str, int, float, Decimal}:
        value = [str(as_label(x)) for x in value]  # no booleans among them
    return _as_text(value, where)


def _number(value: object, where: str) -> float:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        try:
            number = float(value)
        except (OverflowError, ValueError):  # too large; a Decimal that signals
            number = math.inf
        if math.isfinite(number):
            return number
    raise InputError(f"{where} is {_show(value)}; expected a finite number")


def _number_or_none(value: object, where: str) -> float | None:
    return None if _is_missing(value) else _number(value, where)


def _reward(value: object, where: str) -> float | None:
    if isinstance(value, dict) and value:
        name = next(
            (key for key, x in value.items() if isinstance(x, int | float)), next(iter(value))
        )
        raise InputError(
            f"{where} is {_show(value)}; expected a finite number: name one of its fields, such as "
            f"--field reward=reward.{name}"
        )
    return _number_or_none(value, where)


def _integer_or_none(value: object, where: str) -> int | None:
    if _is_missing(value):
        return None
    number = _number(value, where)
    if number != int(number) or abs(number) > MAX_TOKEN_ID:
        raise InputError(f"{where} is {_show(value)}; expected an integer within ±(2^31 - 1)")
    return int(number)


def _verdict(value: object, where: str) -> Any:
    if value is _ABSENT:
        return value
    if _is_missing(value):
        return None
    if value not in (0, 1):
        raise InputError(f"{where} is {_show(value)}; expected true, false, 1, 0 or null (unknown)")
    return float(value == 1)


def _token_ids(value: object, where: str) -> np.ndarray | None:
    """(T,) int32: a column of arrays is made much faster than one of lists."""
    if value is _ABSENT or value is None:
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


def _mask(value: object, where: str) -> np.ndarray | None:
    """(T,) bool."""
    if value is _ABSENT or value is None:
        return None
    if not isinstance(value, list):
        raise InputError(f"{where} is {_show(value)}; expected a list of booleans")
    if not set(map(type, value)) <= {bool}:
        for position, entry in enumerate(value):
            if entry not in (0, 1):
                raise InputError(f"{where}[{position}] is {_show(entry)}; expected true or false")
    return np.array(value, dtype=bool)


PARSERS: dict[str, Callable[[object, str], Any]] = {
    "group": _group,
    "step": _integer_or_none,
    "prompt": _as_text,
    "response": _text,
    "answer": _answer,
    "token_ids": _token_ids,
    "mask": _mask,
    "reward": _reward,
    "correct": _verdict,
    "advantage": _number_or_none,
    "model": _as_text,
    "source": _as_text,
}
"""What becomes of each field: (value or _ABSENT, place and name) to the record's value."""


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


def _is_missing(value: object) -> bool:
    return value is _ABSENT or is_null(value)


def _show(value: object, length: int = 60) -> str:
    """A value as JSON, after its type where JSON has none; cut to `length`, safe for a terminal."""
    text = json.dumps(value, default=str)
    if not isinstance(value, str | int | float | list | dict | None):
        text = f"{type(value).__name__} {text}"
    return text if len(text) <= length else f"{text[: length - 3]}..."
