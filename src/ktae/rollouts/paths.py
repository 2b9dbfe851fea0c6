"""What fields are called in files of any tool (`names.toml`, which explains its lists), and where a
field is in a row: names joined by dots, such as `state.history`, `messages[-1].content`.

In the path to the rows of a container `[]` means each entry of a list, and `*` each value of an
object: `results[].completions[]`, `eval.*[]`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ktae.errors import InputError

_LISTS = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))
NAMES = SimpleNamespace(**{name: tuple(x) for name, x in _LISTS["fields"].items()})
"""Names of a row's fields: `NAMES.responses` and so on."""
MESSAGES = SimpleNamespace(**_LISTS["messages"])
CONDITIONS = (*NAMES.splits, *NAMES.turn_numbers, *NAMES.conditions)
"""Rollouts that differ in these are seldom meant to be compared."""
_CERTAIN = {
    "response": (*NAMES.responses, *NAMES.turns),
    "group": (*NAMES.labels, *NAMES.prompts),
    "reward": ("reward", "correct", *NAMES.verdicts, *NAMES.rewards),
    "answer": NAMES.answers,
    "prompt": NAMES.prompts,
}
LIKELY = {name: (*x, *_LISTS["likely"][name]) for name, x in _CERTAIN.items()}
"""What a field may be called where its values fit."""

MISSING = object()  # what a path leads to that leads nowhere
_ENTRY = re.compile(r"\[(-?\d+)\]|(-?\d+)(?=[.\[]|$)")  # `[2]` or `2`, at a path's beginning


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
