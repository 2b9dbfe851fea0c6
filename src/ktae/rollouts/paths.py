"""Where a field is in a row, and where the rows are in a container.

Names are joined by dots: `state.history`, `messages[-1].content`. In a path to rows `[]` means each
entry of a list, and `*` each value of an object: `results[].completions[]`, `eval.*[]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from ktae.errors import InputError
from ktae.rollouts.conversation import messages_of
from ktae.rollouts.names import RESPONSES, TURNS

NAMES = (
    *("group", "step", "prompt", "response", "answer", "token_ids", "mask", "reward", "correct"),
    *("advantage", "model", "source", "benchmark", "log_probs", "entropy"),
)
"""Fields that `--field` may name."""
MISSING = object()
_ENTRY = re.compile(r"\[(-?\d*)\]|(-1|\d+)(?=[.\[]|$)")
"""`[]`, `[2]`, or the form without brackets, at the beginning of a path."""
MAX_LOOKED_AT = 50
"""Entries of a list in which a path is looked for."""
MAX_DEPTH = 6
"""Levels of a row that are shown and looked at."""


class UnknownRowsError(InputError):
    """Rows in no known form. After the first line of the message come their paths."""


class PathError(InputError):
    """A path that the user has named does not fit, which no other row makes good."""


def parse_fields(options: Sequence[str]) -> dict[str, str]:
    """`["response=output"]` as {"response": "output"}."""
    fields = {}
    for text in options:
        name, _, path = text.partition("=")
        if not path:
            raise InputError(f"--field {text}: expected NAME=PATH, such as response=output")
        if name not in NAMES:
            raise InputError(
                f"--field {text}: no field {name!r}; expected one of {', '.join(NAMES)}"
            )
        fields[name] = path
    return fields


def resolve(value: Any, path: str) -> str | None:
    """The path with `[]` for each list that it leads through; None if it leads nowhere."""
    if not path:
        return ""
    if isinstance(value, dict):
        path = path.removeprefix(".")
        if path == "*" or path.startswith(("*.", "*[")):
            inner = islice(value.values(), MAX_LOOKED_AT)
            rest = next((x for x in (resolve(y, path[1:]) for y in inner) if x is not None), None)
            return None if rest is None else f"*{_joined(rest)}"
        starts = [x for x in value if isinstance(x, str) and path.startswith((f"{x}.", f"{x}["))]
        for name in [path] if path in value else sorted(starts, key=len, reverse=True):
            rest = resolve(value[name], path[len(name) :])
            if rest is not None:
                return f"{name}{_joined(rest)}"
        return None
    if not isinstance(value, list):
        return None
    path = path.removeprefix(".")
    entry = _ENTRY.match(path)
    rest_path = path[entry.end() :] if entry else path
    if entry and (index := entry[1] or entry[2]):
        inside = value[int(index)] if -len(value) <= int(index) < len(value) else None
        rest = resolve(inside, rest_path)
        return None if rest is None else f"[{index}]{_joined(rest)}"
    paths = (resolve(x, rest_path) for x in value[:MAX_LOOKED_AT])
    rest = next((x for x in paths if x is not None), None)
    return None if rest is None else f"[]{_joined(rest)}"


def _joined(rest: str) -> str:
    return f".{rest}" if rest and not rest.startswith("[") else rest


def at(value: Any, path: str) -> Any:
    """What a path leads to; `MISSING` for nothing, and for a path through each entry of a list."""
    if not path:
        return value
    if isinstance(value, dict) and (path in value or path.isidentifier()):
        return value.get(path, MISSING)  # a name may hold a dot or a bracket
    path = path.removeprefix(".")
    if isinstance(value, dict):
        starts = [x for x in value if isinstance(x, str) and path.startswith((f"{x}.", f"{x}["))]
        name = path if path in value else max(starts, key=len, default=None)
        return MISSING if name is None else at(value[name], path[len(name) :])
    entry = _ENTRY.match(path) if isinstance(value, list) else None
    index = (entry[1] or entry[2]) if entry else None
    if entry is None or not index or not -len(value) <= int(index) < len(value):
        return MISSING
    return at(value[int(index)], path[entry.end() :])


def first_of(value: Any, *paths: str) -> Any:
    """What the first of these paths leads to that leads to something."""
    values = (at(value, path) for path in paths)
    return next((x for x in values if x is not MISSING and x is not None), None)


def name_of(path: str) -> str:
    """The last name in a path."""
    return re.sub(r"(\[-?\d*\])+$", "", path).rpartition(".")[2].lower()


def rows_and_fields(value: Any, fields: Mapping[str, str]) -> tuple[str | None, dict[str, str]]:
    """The path to the rows that named fields imply, and the fields relative to such a row.

    `value` is a container. The rows are where the response (or else any field) leads through a
    list: `response=samples[].text` are the entries of `samples`. Lists beside it go along.

    Raises:
        PathError: the entries of the list are turns of a rollout.
    """
    full = {name: resolve(value, path) or path for name, path in fields.items()}
    main = next((full[x] for x in ("response", "token_ids") if x in full), "")
    rows = max(_rows_path(main), *map(_rows_path, [] if main else full.values()), "", key=len)
    of_messages = at(value, rows.removesuffix("[]")) if rows else None
    if (rows and is_conversation(rows.removesuffix("[]"), of_messages)) or name_of(rows) in TURNS:
        turns = rows.removesuffix("[]")
        raise PathError(
            f"{main or rows} takes the turns in {turns!r} for rollouts of a group; name the list "
            f"for all of them, or one of them ({turns}[-1])"
        )
    if not rows:
        response = at(value, main) if main else MISSING
        if response is MISSING or (isinstance(response, list) and main in RESPONSES):
            return None, dict(fields)
        if isinstance(response, list) and response and messages_of(response) is None:
            rows = f"{main}[]"
        else:
            return "", dict(fields)
    return rows, {name: relative(path, rows) for name, path in full.items()}


def _rows_path(path: str) -> str:
    """A path up to the last list each of whose entries it means."""
    match = re.match(r".*(\[\]|\*(?=\.|\[|$))", path)
    return match[0] if match else ""


def relative(path: str, rows: str) -> str:
    """A path as it is from a row: without the lists on the way, whose fields the row has, too."""
    if path == rows:
        return name_of(path)
    if not (prefix := _rows_path(path)):
        return path
    return path[len(prefix) :].removeprefix(".") or name_of(path)


def leaves(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Paths of a row and what they lead to; a list of objects stands for its first one, as
    `list[]`, and one of turns for its last one."""
    if isinstance(value, dict) and depth < MAX_DEPTH and (path == "" or value):
        for name, inside in value.items():
            yield from leaves(inside, f"{path}.{name}" if path else str(name), depth + 1)
    elif (
        isinstance(value, list)
        and value
        and isinstance(value[0], dict)
        and depth < MAX_DEPTH
        and not is_conversation(path, value)
    ):
        index = -1 if name_of(path) in TURNS else 0
        yield from leaves(value[index], f"{path}[{index or ''}]", depth)
    else:
        yield path, value


def is_conversation(path: str, value: Any) -> bool:
    """Whether a list is of messages; of objects with a response only if its name says turns."""
    if not isinstance(value, list) or messages_of(value) is None:
        return False
    return name_of(path) in TURNS or any({"role", "from", "type"} & x.keys() for x in value)
