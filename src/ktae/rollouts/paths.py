"""Where a rollout's fields are in a row: `samples[].completion`, `messages[-1].content`.

Names are joined by dots. `[]` means each entry of a list, and `[0]` or `[-1]` one of them. Several
levels are allowed: `results[].completions[].score` beside `results[].question`. Lists that are
dealt out together must have the same length. A path without `[]` is read where it can mean one
thing only: what lies in a list's entries is meant of each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktae.errors import InputError
from ktae.rollouts.conversation import PROMPTS, TURNS, messages_of
from ktae.rollouts.rows import PARSERS, Row, is_null

NAMES = (*(x for x in PARSERS if x != "context_spans"), "benchmark", "log_probs", "entropy")
"""Fields that `--field` may name."""
ONE_EACH = ("reward", "correct", "group", "prompt", "step", "advantage", "model", "source")
"""Fields that are one value a rollout: a list beside n responses has to be n of them."""
LISTS = ("token_ids", "mask", "log_probs", "entropy")
"""Fields that are one list a rollout."""

MISSING = object()
_STEP = re.compile(r"([^.\[]*)((?:\[-?\d*\])*)(?:\.|$)")
_INDEX = re.compile(r"\[(-?\d*)\]")


class PathError(InputError):
    """A path that the user has named does not fit, which no other row makes good."""


class Each(list[Any]):
    """Values of one rollout each, or, of several levels, lists of such."""


def parse_fields(options: Sequence[str]) -> dict[str, str]:
    """`["response=output"]` as {"response": "output"}.

    Raises:
        InputError: no name, no path, or a name that is none of a rollout's fields.
    """
    fields = {}
    for text in options:
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise InputError(f"--field {text}: expected NAME=PATH, such as response=output")
        if name not in NAMES:
            raise InputError(
                f"--field {text}: no field {name!r}; expected one of {', '.join(NAMES)}"
            )
        fields[name] = path
    return fields


def at(value: Any, path: str) -> Any:
    """What a path leads to, `MISSING` for nothing; values of each entry of a list are an `Each`."""
    if not path:
        return value
    if isinstance(value, dict):
        if path in value:
            return value[path]  # its name may hold a dot or a bracket
        name, brackets, rest = _split(path)
        if name not in value and (longer := _longest_name(value, path)):
            name, (_, brackets, rest) = longer, _split(path[len(longer) :])
        if name not in value:
            return MISSING
        return _inside(value[name], brackets, rest)
    if isinstance(value, list):
        name, brackets, rest = _split(path)
        if re.fullmatch(r"-1|\d+", name):  # the form without brackets
            return _inside(value, [name, *brackets], rest)
        entries = [at(entry, path) for entry in value]
        return MISSING if any(x is MISSING for x in entries) else Each(entries)
    return MISSING


def _inside(value: Any, brackets: Sequence[str], rest: str) -> Any:
    """What brackets and the rest of a path lead to in a value."""
    if not brackets:
        return at(value, rest)
    if not isinstance(value, list):
        return MISSING
    if brackets[0] == "":
        entries = [_inside(entry, brackets[1:], rest) for entry in value]
        return MISSING if any(x is MISSING for x in entries) else Each(entries)
    index = int(brackets[0])
    if not -len(value) <= index < len(value):
        return MISSING
    return _inside(value[index], brackets[1:], rest)


def _split(path: str) -> tuple[str, list[str], str]:
    """The first name of a path, what its brackets hold, and what follows."""
    match = _STEP.match(path)
    if match is None:
        return path, [], ""
    return match[1], _INDEX.findall(match[2]), path[match.end() :]


def _longest_name(value: dict[str, Any], path: str) -> str | None:
    """The longest key with a dot in it that the path begins with."""
    keys = (
        key for key in value if isinstance(key, str) and path.startswith((f"{key}.", f"{key}["))
    )
    return max(keys, key=len, default=None)


def named_values(row: Row, fields: Mapping[str, str], where: str) -> Row:
    """The values that a user has named; what is absent in this row is left out.

    Raises:
        PathError: the response goes through a list of turns.
        InputError: the response, or the group, leads to nothing.
    """
    values = {name: at(row, path) for name, path in fields.items()}
    for name in ("response", "token_ids", "group"):
        if values.get(name) is MISSING:
            raise InputError(nothing_at(fields[name], name, where, row))
    for name in ("response", "token_ids"):
        if isinstance(values.get(name), Each):
            for turns in TURNS:
                if re.search(rf"(^|\.){turns}(\[\])?\.", fields[name]) and not re.search(
                    rf"(^|\.){turns}(\[-?\d+\]|\.-?\d+)", fields[name]
                ):
                    raise PathError(
                        f"{where}: {name}={fields[name]} takes the turns in {turns!r} for rollouts "
                        f"of a group; name the list for all of them, or one of them ({turns}[-1])"
                    )
    return {name: value for name, value in values.items() if value is not MISSING}


def nothing_at(path: str, name: str, where: str, row: Row) -> str:
    """The error of a path that leads to nothing, with the paths that lead to something."""
    there = ", ".join(repr(x) for x, _ in leaves(row))
    there = there if len(there) <= 500 else f"{there[:497]}..."
    return f"{where}: nothing at {path!r} for {name}; there are {there}"


def leaves(value: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Paths and what they lead to; a list of objects stands for its first one, as `list[]`."""
    if isinstance(value, dict) and depth < 6 and (path == "" or value):
        for name, inside in value.items():
            yield from leaves(inside, f"{path}.{name}" if path else str(name), depth + 1)
    elif isinstance(value, list) and value and isinstance(value[0], dict) and depth < 6:
        if messages_of(value) is not None:
            yield path, value
        else:
            yield from leaves(value[0], f"{path}[]", depth)
    else:
        yield path, value


def spread(row: Row, where: str) -> Iterator[Row]:
    """One row a rollout: what is an `Each`, or plainly a list of one value a rollout, is dealt out.

    Raises:
        InputError: lists that are dealt out together differ in length, or one reward stands beside
            several responses.
    """
    of = "response" if "response" in row else "token_ids"
    responses: Any = row.get(of)
    if not is_many(of, responses):
        for name, value in row.items():
            if isinstance(value, Each):
                # A single response: a path through a list of one entry leads to its value.
                if len(value) != 1:
                    raise InputError(
                        f"{where}: {name} has {len(value)} values for one {of}; name one of them"
                    )
                row = row | {name: value[0]}
        yield row
        return
    n = len(responses)
    # Where the prompts are a list of n, a row is a batch in columns: all its lists of n are dealt
    # out. Otherwise a list may be one value, such as several accepted answers.
    columns = any(_is_list_of(row.get(name), n) for name in (*PROMPTS, "group"))
    dealt = {}
    for name, value in row.items():
        if name == of or isinstance(value, Each):
            dealt[name] = value
        elif name in LISTS:
            if isinstance(value, list) and any(isinstance(x, list) for x in value):
                dealt[name] = value
        elif (
            isinstance(value, list)
            and messages_of(value) is None
            and (
                name in ONE_EACH
                or (name in PROMPTS and is_many("response", value))
                or (columns and len(value) == n)
            )
        ):
            dealt[name] = value
        if name in dealt and len(dealt[name]) != n:
            raise InputError(f"{where}: {len(dealt[name])} of {name} for {n} of {of}")
    for name in ("reward", "correct"):
        if n > 1 and name not in dealt and not is_null(row.get(name)):
            raise InputError(
                f"{where}: {name} is {row[name]!r:.60}, one for {n} of {of}; name one of them, or "
                f"as {name} a list of {n}"
            )
    for i in range(n):
        yield from spread(row | {name: values[i] for name, values in dealt.items()}, where)


def is_many(name: str, value: Any) -> bool:
    """Whether a response, or token ids, are a list of one value a rollout."""
    if isinstance(value, Each):
        return True
    if not isinstance(value, list):
        return False
    if name == "token_ids":
        return bool(value) and all(isinstance(x, list) for x in value)
    return messages_of(value) is None and all(
        isinstance(x, str) or messages_of(x) is not None for x in value
    )


def _is_list_of(value: Any, n: int) -> bool:
    return isinstance(value, list) and len(value) == n and messages_of(value) is None
