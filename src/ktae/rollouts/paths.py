"""Where a field is in a row: names joined by dots, such as `state.history`, `messages[-1].content`.

In the path to the rows of a container `[]` means each entry of a list, and `*` each value of an
object: `results[].completions[]`, `eval.*[]`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ktae.errors import InputError
from ktae.rollouts.names import NAMES
from ktae.rollouts.values import MISSING

_ENTRY = re.compile(r"\[(-?\d+)\]|(-?\d+)(?=[.\[]|$)")
"""`[2]`, or the form without brackets, at the beginning of a path."""


class UnknownRowsError(InputError):
    """Rows in no known form. After the first line of the message come their paths."""


def at(value: Any, path: str) -> Any:
    """What a path leads to; `MISSING` for nothing."""
    if isinstance(value, dict) and (path in value or path.isidentifier()):
        return value.get(path, MISSING)
    path = path.removeprefix(".")
    if not path:
        return value
    if isinstance(value, dict):  # a name may hold a dot or a bracket
        names = [x for x in value if isinstance(x, str) and path.startswith(x)]
        fits = (x for x in names if path[len(x) :][:1] in ("", ".", "["))
        name = max(fits, key=len, default=None)
        return MISSING if name is None else at(value[name], path[len(name) :])
    entry = _ENTRY.match(path) if isinstance(value, list) else None
    index = int(entry[1] or entry[2]) if entry else 0
    if entry is None or not -len(value) <= index < len(value):
        return MISSING
    return at(value[index], path[entry.end() :])


def first_of(value: Any, *paths: str) -> Any:
    """What the first of these paths leads to that leads to something; or else None."""
    values = (at(value, path) for path in paths)
    return next((x for x in values if x is not MISSING and x is not None), None)


def name_of(path: str) -> str:
    """The last name in a path, in small letters with underscores."""
    name = re.sub(r"(\[-?\d*\])+$", "", path).rpartition(".")[2]
    return re.sub(r"(?<=[a-z\d])(?=[A-Z])", "_", name).lower()


def parse_fields(options: Sequence[str]) -> dict[str, str]:
    """`["response=output"]` as {"response": "output"}."""
    fields = dict(text.partition("=")[::2] for text in options)
    for name, path in fields.items():
        if not path or name not in NAMES.fields:
            raise InputError(
                f"--field {name}={path}: expected NAME=PATH, such as response=output; NAME is one "
                f"of {', '.join(NAMES.fields)}"
            )
    return fields
