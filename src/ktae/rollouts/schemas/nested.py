"""Plain rows, rows with lists of rollouts in them, and rows whose fields a user has named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ktae.errors import InputError, quoted
from ktae.rollouts.rows import PARSERS, as_label, is_null
from ktae.rollouts.schemas.base import (
    Row,
    Schema,
    Source,
    is_number,
    messages_text,
    prompt_label,
    reward_fields,
    without,
)

LISTS = ("rollouts", "samples", "responses", "completions", "generations", "outputs")
"""Fields that hold a row's rollouts, as objects with `response` or `token_ids` and the rest."""

EACH = ("response", "token_ids", "mask", "reward", "correct", "advantage", "log_probs", "entropy")
"""Fields that may be lists of one value a rollout."""

PLURALS = {f"{name}s": name for name in ("response", "reward", "advantage")} | {
    "scores": "reward",
    "completions": "response",
}

VERDICTS = {name: name for name in ("reward", "correct")} | {
    plural: name for plural, name in PLURALS.items() if name == "reward"
}
"""Those that may also stand beside a list of rollouts."""

NAMES = (*PARSERS, "benchmark", "log_probs", "entropy")
"""Fields that `--field` may name."""

LONGEST_LABEL = 80
"""Characters. A longer text in the place of a group becomes a short label."""

_MISSING = object()


def parse_fields(given: Sequence[str]) -> dict[str, str]:
    """`["response=output"]` as {"response": "output"}.

    Raises:
        InputError: no name, no path, or a name that is none of a rollout's fields.
    """
    found = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or not path:
            raise InputError(f"--field {text}: expected NAME=PATH, such as response=output")
        if name not in NAMES:
            raise InputError(
                f"--field {text}: no field {name!r}; expected one of {', '.join(NAMES)}"
            )
        found[name] = path
    return found


def at(value: Any, path: str) -> Any:
    """What a dotted path leads to; through a list, one value an entry, or that of one
    entry (0 the first, -1 the last). `_MISSING` is nothing."""
    if isinstance(value, dict):
        if path in value:
            return value[path]  # its name may hold a dot
        name, dot, rest = path.partition(".")
        return at(value[name], rest) if dot and name in value else _MISSING
    if isinstance(value, list):
        name, _, rest = path.partition(".")
        if name == "-1" or (name.isascii() and name.isdigit()):
            inside = value[int(name)] if int(name) < len(value) and value else _MISSING
            return at(inside, rest) if rest else inside
        found = [at(entry, path) for entry in value]
        return _MISSING if _MISSING in found else found
    return _MISSING


def require_fields(rows: Iterable[tuple[Any, str]], fields: Mapping[str, str]) -> None:
    """Raise an InputError for a path that leads to nothing in every row; no more rows are read than
    it takes.

    Args:
        rows: of one file, each with its place.
        fields: as in `by_fields`.
    """
    missing, first = dict(fields), None
    for row, where in rows:
        if isinstance(row, dict):
            first = first or (where, row)
            missing = {name: x for name, x in missing.items() if at(row, x) is _MISSING}
        if not missing:
            return
    if first is not None:
        name, path = next(iter(missing.items()))
        raise InputError(_nothing_at(path, name, *first))


def _nothing_at(path: str, name: str, where: str, row: Row) -> str:
    """The error of a path that leads to nothing, with the names that there are where it ends."""
    start = f"{where}: nothing at {path!r} for {name};"
    above = path.rpartition(".")[0]
    while above:
        found, below = at(row, above), path[len(above) + 1 :]
        if isinstance(found, list) and found:
            if below.partition(".")[0].lstrip("-").isdigit():
                return f"{start} {above!r} is a list of {len(found)}"
            found = next((entry for entry in found if at(entry, below) is _MISSING), found[0])
        if isinstance(found, dict):
            return f"{start} the fields of {above!r} are {quoted(found)}"
        above = above.rpartition(".")[0]
    return f"{start} its fields are {quoted(row)}"


def by_fields(row: Row, fields: Mapping[str, str], where: str) -> Iterable[Row]:
    """The rollouts of a row whose fields a user has named.

    Raises:
        InputError: a path leads nowhere, or one reward stands beside several responses.
    """
    found = {name: at(row, path) for name, path in fields.items()}
    for name, value in found.items():
        if value is _MISSING and name in ("response", "token_ids", "group"):
            raise InputError(_nothing_at(fields[name], name, where, row))
    found = {name: value for name, value in found.items() if value is not _MISSING}
    roots = {fields[name] if fields[name] in row else fields[name].partition(".")[0]
             for name in found}  # fmt: skip
    rest = without(row, [*roots, *fields])
    if "group" in found:
        found["group"] = _label(found["group"])
    inside = {name for name in found if _root(fields, name) == _root(fields, "response")}
    whole = _asked(row, fields) | rest | found
    _require_rewards_of_each(row, whole, fields, where)
    return (_typed(one) for one in _spread(whole, (*EACH, *inside), where))


def _asked(row: Row, fields: Mapping[str, str]) -> Row:
    """The prompt of a response that is the last message of a conversation: the ones before it."""
    path, last, _ = fields.get("response", "").rpartition(".-1.content")
    messages = at(row, path) if last else None
    if not (isinstance(messages, list) and len(messages) > 1 and _is_conversation(messages)):
        return {}
    return {"prompt": messages[:-1]}


def _require_rewards_of_each(row: Row, whole: Row, fields: Mapping[str, str], where: str) -> None:
    """Raise an InputError where one reward or verdict stands beside several responses."""
    n = _n_rollouts(whole) or 1
    for name in ("reward", "correct"):
        value = whole.get(name)
        if n > 1 and value is not None and not isinstance(value, list):
            of = "response" if isinstance(whole.get("response"), list) else "token_ids"
            raise InputError(
                f"{where}: {name} is {value!r:.60}, one for the {n} entries of "
                f"{of}={fields.get(of, of)}; name one of them, such as "
                f"{of}={_last_of(row, fields.get(of, of))}, or as {name} a list of {n}"
            )


def _last_of(row: Row, path: str) -> str:
    """`path` with its first list replaced by the list's last entry: messages.1.content."""
    parts = [path] if path in row else path.split(".")
    for i in range(1, len(parts) + 1):
        start = ".".join(parts[:i])
        if isinstance(inside := at(row, start), list) and inside:
            return ".".join([start, str(len(inside) - 1), *parts[i:]])
    return path


def override(row: Row, rollouts: Sequence[Row], fields: Mapping[str, str], where: str) -> list[Row]:
    """A schema's rollouts, with what the user has named in the schema's row.

    What this row lacks is null: never the schema's own value, which would be another quantity. Of a
    row with a list of rollouts, a list that is named has one value a rollout.

    Raises:
        InputError: there are more or fewer rewards than rollouts.
    """
    found = {name: at(row, path) for name, path in fields.items()}
    found = {name: None if value is _MISSING else value for name, value in found.items()}
    if "group" in found:
        found["group"] = _label(found["group"])
    if "reward" in found and "correct" not in found:
        rollouts = [without(one, ["correct"]) for one in rollouts]
    values = [found] * len(rollouts)
    if _is_nested(row):
        placeholder = {"response": [None] * len(rollouts)}
        values = [
            {name: one[name] for name in found} for one in _spread(placeholder | found, EACH, where)
        ]
    return [_typed(one | named) for one, named in zip(rollouts, values, strict=True)]


def _root(fields: Mapping[str, str], name: str) -> str:
    return fields.get(name, fields.get("token_ids", "")).partition(".")[0]


def _label(value: Any) -> Any:
    """What may be a group's label: conversations and long texts get a short one."""
    if is_null(value):
        return None
    value = as_label(value)
    is_short = isinstance(value, str) and len(value) <= LONGEST_LABEL
    if is_short or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    return prompt_label(value)


def _typed(plain: Row) -> Row:
    """The row with a boolean reward read as a verdict, and conversations as texts."""
    if isinstance(plain.get("reward"), bool):
        plain = plain | {"correct": plain.get("correct", plain["reward"])}
        plain["reward"] = float(plain["reward"])
    return plain | {name: messages_text(plain[name]) for name in ("response", "prompt")
                    if _is_conversation(plain.get(name))}  # fmt: skip


def _is_conversation(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(
        isinstance(message, dict) and "content" in message for message in value
    )  # fmt: skip


def _spread(row: Row, names: Iterable[str], where: str) -> Iterator[Row]:
    """One row a rollout, where `response` or `token_ids` is a list of one value a rollout.

    Raises:
        InputError: there are more or fewer rewards than responses.
    """
    n = _n_rollouts(row)
    if n is None:
        yield row
        return
    lists = {name: row[name] for name in set(names) if isinstance(row.get(name), list)}
    for name in ("reward", "correct", "token_ids"):
        if name in lists and len(lists[name]) != n:
            raise InputError(f"{where}: {len(lists[name])} of {name} for {n} rollouts")
    lists = {name: values for name, values in lists.items() if len(values) == n}
    for i in range(n):
        yield row | {name: values[i] for name, values in lists.items()}


def _n_rollouts(row: Row) -> int | None:
    """How many rollouts the lists of a row hold; None where it is a single one."""
    responses, ids = row.get("response"), row.get("token_ids")
    if isinstance(responses, list) and not _is_conversation(responses):
        return len(responses)
    if isinstance(ids, list) and ids and all(isinstance(one, list) for one in ids):
        return len(ids)
    return None


def _nested(row: Row, where: str, source: Source) -> Iterator[Row]:
    """Objects in a list, each with what stands beside the list; or lists of one value a rollout."""
    name = _list_of_rollouts(row)
    if name is not None:
        beside = _beside(row, name)
        shared = {
            key: value
            for key, value in row.items()
            if key != name and (key in PARSERS or not isinstance(value, dict | list))
        }
        for i, entry in enumerate(row[name]):
            own = entry if "score" not in entry else {"reward": None} | entry
            each = {key: values[i] for key, values in beside.items() if key not in own}
            yield _with_reward(shared | each | entry)
        return
    for plural, singular in PLURALS.items():
        if isinstance(row.get(plural), list) and singular not in row:
            row = without(row, [plural]) | {singular: row[plural]}
    yield from map(_with_reward, _spread(row, EACH, where))


def _beside(row: Row, name: str) -> Row:
    """Lists of one number a rollout, rewards or verdicts, that stand beside the list of rollouts.

    What a rollout has of its own comes before them.
    """
    found: Row = {}
    for key, own in VERDICTS.items():
        values = row.get(key)
        if not isinstance(values, list) or len(values) != len(row[name]):
            continue
        if all(is_number(x) or isinstance(x, bool) or is_null(x) for x in values):
            found.setdefault(own, values)
    return found


def _with_reward(row: Row) -> Row:
    if "reward" not in row and "score" in row:
        row = without(row, ["score"]) | reward_fields(row["score"])
    return _typed(row)


def _list_of_rollouts(row: Row) -> str | None:
    return next((name for name in LISTS if _are_rollouts(row.get(name))), None)


def _are_rollouts(entries: Any) -> bool:
    return isinstance(entries, list) and bool(entries) and all(
        isinstance(x, dict) and ("response" in x or "token_ids" in x) for x in entries
    )  # fmt: skip


def _is_nested(row: Row) -> bool:
    if _list_of_rollouts(row):
        return True
    responses = next((row[x] for x in ("response", "responses", "completions") if x in row), None)
    rewards = next((row[x] for x in ("reward", "rewards", "scores", "correct") if x in row), None)
    return (
        isinstance(responses, list)
        and isinstance(rewards, list)
        and all(isinstance(x, str) for x in responses)
    )


PLAIN = Schema(
    "plain rollouts",
    lambda row: "group" in row and _is_plain(row),
    lambda row, *_: [_with_text(row) if _is_conversation(row.get("response")) else row],
)
NESTED = Schema("rollouts nested in rows", _is_nested, _nested)


def _with_text(row: Row) -> Row:
    return row | {"response": messages_text(row["response"])}


def _is_plain(row: Row) -> bool:
    response = row.get("response")
    return isinstance(response, str) or _is_conversation(response) or "token_ids" in row
