"""Where a field is in a row, and where the rows are in a container.

Names are joined by dots: `state.history`, `messages[-1].content`. In a path `[]` means each entry
of a list, and `*` each value of an object: `results[].completions[]`, `eval.*[]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ktae.errors import InputError
from ktae.rollouts.conversation import messages_of
from ktae.rollouts.names import NAMES
from ktae.rollouts.values import MISSING

_ENTRY = re.compile(r"\[(-?\d*)\]|(-?\d+)(?=[.\[]|$)")
"""`[]`, `[2]`, or the form without brackets, at the beginning of a path."""


class UnknownRowsError(InputError):
    """Rows in no known form. After the first line of the message come their paths."""


class PathError(InputError):
    """A path that the user has named does not fit, which no other row makes good."""


class Hop(NamedTuple):
    """A step of a path: from a container to what it holds."""

    container: Any
    key: Any
    """A name, or the number of an entry."""
    sign: str
    """How a path has it: a name, `*`, `[]` or `[2]`."""


Trail = tuple[Hop, ...]


def walk(
    value: Any, path: str, trail: Trail = (), each: bool = True
) -> Iterator[tuple[Any, Trail]]:
    """Whatever a path leads to, each with its way there; nothing where it leads nowhere.

    A list in the way of a name is meant as `[]`. `each`: whether paths may go through each entry.
    """
    if not path:
        yield value, trail
        return
    path, hops, rest = path.removeprefix("."), list[Hop](), ""
    if isinstance(value, dict) and (path == "*" or path.startswith(("*.", "*["))):
        hops = [Hop(value, k, "*") for k, x in value.items() if isinstance(x, dict | list) and each]
        rest = path[1:]
    elif isinstance(value, dict):  # a name may hold a dot or a bracket
        names = [x for x in value if isinstance(x, str) and path.startswith(x)]
        names = [x for x in names if path[len(x) :][:1] in ("", ".", "[")]
        if names:
            name = max(names, key=len)
            hops, rest = [Hop(value, name, name)], path[len(name) :]
    elif isinstance(value, list):
        entry = _ENTRY.match(path)
        rest = path[entry.end() :] if entry else path
        if entry and (index := entry[1] or entry[2]):
            is_inside = -len(value) <= int(index) < len(value)
            hops = [Hop(value, int(index), f"[{index}]")] if is_inside else []
        else:
            hops = [Hop(value, n, "[]") for n in range(len(value)) if each]
    for hop in hops:
        yield from walk(hop.container[hop.key], rest, (*trail, hop), each)


def at(value: Any, path: str) -> Any:
    """What a path leads to; `MISSING` for nothing, and for a path through each entry of a list."""
    if isinstance(value, dict) and (path in value or path.isidentifier()):
        return value.get(path, MISSING)
    return next(walk(value, path, each=False), (MISSING,))[0]


def first_of(value: Any, *paths: str) -> Any:
    """What the first of these paths leads to that leads to something; or else None."""
    values = (at(value, path) for path in paths)
    return next((x for x in values if x is not MISSING and x is not None), None)


def resolve(value: Any, path: str) -> str | None:
    """The path with `[]` for each list that it leads through; None if it leads nowhere."""
    trail = next(walk(value, path), (None, None))[1]
    if trail is None:
        return None
    return "".join(x.sign if x.sign[:1] == "[" else f".{x.sign}" for x in trail).removeprefix(".")


def name_of(path: str) -> str:
    """The last name in a path, in small letters with underscores."""
    name = re.sub(r"(\[-?\d*\])+$", "", path).rpartition(".")[2]
    return re.sub(r"(?<=[a-z\d])(?=[A-Z])", "_", name).lower()


def is_conversation(path: str, value: Any) -> bool:
    """Whether a list is of messages; of objects with a response only if its name says turns."""
    if not isinstance(value, list) or messages_of(value) is None:
        return False
    return name_of(path) in NAMES.turns or any({"role", "from", "type"} & x.keys() for x in value)


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


def rows_and_fields(value: Any, fields: Mapping[str, str]) -> tuple[str | None, dict[str, str]]:
    """The path to the rows that named fields imply, and the fields relative to such a row.

    `value` is a container. The rows are where the response (or else any field) leads through a
    list: `response=samples[].text` are the entries of `samples`. Lists beside it go along.

    Raises:
        PathError: the entries of the list are turns of a rollout.
    """
    full = {name: resolve(value, path) or path for name, path in fields.items()}
    main = next((full[x] for x in ("response", "token_ids") if x in full), "")
    rows = max(map(_rows_path, [main] if main else full.values()), default="", key=len)
    turns = rows.removesuffix("[]")
    if rows and (is_conversation(turns, at(value, turns)) or name_of(rows) in NAMES.turns):
        raise PathError(
            f"{main or rows} takes the turns in {turns!r} for rollouts of a group; name the list "
            f"for all of them, or one of them ({turns}[-1])"
        )
    if not rows:
        response = at(value, main) if main else MISSING
        if response is MISSING or (isinstance(response, list) and main in NAMES.responses):
            return None, dict(fields)
        if not isinstance(response, list) or not response or messages_of(response) is not None:
            return "", dict(fields)
        rows = f"{main}[]"
    return rows, {name: relative(path, rows) for name, path in full.items()}


def _rows_path(path: str) -> str:
    """A path up to the last list each of whose entries it means."""
    match = re.match(r".*(\[\]|\*(?=\.|\[|$))", path)
    return match[0] if match else ""


def relative(path: str, rows: str) -> str:
    """A path as it is from a row: without the lists on the way, whose fields the row has, too."""
    if path == rows:
        return name_of(path)
    prefix = _rows_path(path)
    return path[len(prefix) :].removeprefix(".") or name_of(path) if prefix else path
