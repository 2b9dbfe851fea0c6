"""Plain rows, rows with lists of rollouts in them, and rows whose fields a user has named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ktae.errors import InputError, quoted
from ktae.rollouts.rows import PARSERS, as_label, is_label, is_null
from ktae.rollouts.schemas.base import (
    Row,
    Schema,
    Source,
    is_conversation,
    is_number,
    messages_text,
    prompt_label,
    reward_fields,
    without,
)
from ktae.rollouts.suggestion import leaves

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
        entries = [at(entry, path) for entry in value]
        return _MISSING if _MISSING in entries else entries
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
    """The error of a path that leads to nothing, with the paths that lead to something."""
    there = quoted(path for path, _ in leaves(row))
    return f"{where}: nothing at {path!r} for {name}; there are {there}"


def by_fields(row: Row, fields: Mapping[str, str], where: str) -> Iterable[Row]:
    """The rollouts of a row whose fields a user has named.

    Raises:
        InputError: a path leads nowhere, or one reward stands beside several responses.
    """
    named = {name: at(row, path) for name, path in fields.items()}
    for name, value in named.items():
        if value is _MISSING and name in ("response", "token_ids", "group"):
            raise InputError(_nothing_at(fields[name], name, where, row))
    named = {name: value for name, value in named.items() if value is not _MISSING}
    if "group" in named:
        named["group"] = label_of(named["group"])
    # What the named fields are taken from is no field of the rollout any more.
    roots = [x if (x := fields[name]) in row else x.partition(".")[0] for name in named]
    plain = without(row, [*roots, *fields]) | named
    # Of a response that is a conversation's last message, the ones before it are the prompt.
    path, last, _ = fields.get("response", "").rpartition(".-1.content")
    messages = at(row, path) if last else None
    if messages is not None and is_conversation(messages) and len(messages) > 1:
        plain = {"prompt": messages[:-1]} | plain
    n = _n_rollouts(plain) or 1
    for name in ("reward", "correct"):
        value = plain.get(name)
        if n > 1 and value is not None and not isinstance(value, list):
            of = "response" if isinstance(plain.get("response"), list) else "token_ids"
            raise InputError(
                f"{where}: {name} is {value!r:.60}, one for the {n} entries of "
                f"{of}={fields.get(of, of)}; name one of them, or as {name} a list of {n}"
            )
    # Whatever lies in the same list of objects as the response has one value a rollout, too.
    response = fields.get("response", fields.get("token_ids", "")).partition(".")[0]
    inside = [name for name in named if fields[name].partition(".")[0] == response]
    return (_typed(rollout) for rollout in _spread(plain, (*EACH, *inside), where))


def override(row: Row, rollouts: Sequence[Row], fields: Mapping[str, str], where: str) -> list[Row]:
    """A schema's rollouts, with what the user has named in the schema's row.

    What this row lacks is null: never the schema's own value, which would be another quantity. Of a
    row with a list of rollouts, a list that is named has one value a rollout.

    Raises:
        InputError: there are more or fewer rewards than rollouts.
    """
    named = {name: at(row, path) for name, path in fields.items()}
    named = {name: None if value is _MISSING else value for name, value in named.items()}
    if "group" in named:
        named["group"] = label_of(named["group"])
    # The schema's verdict belongs to its own reward, not to the one that is named.
    if "reward" in named and "correct" not in named:
        rollouts = [without(rollout, ["correct"]) for rollout in rollouts]
    values = [named] * len(rollouts)
    if _is_nested(row):
        spread = _spread({"response": [None] * len(rollouts)} | named, EACH, where)
        values = [{name: each[name] for name in named} for each in spread]
    return [_typed(rollout | each) for rollout, each in zip(rollouts, values, strict=True)]


def label_of(value: Any) -> Any:
    """What may be a group's label: conversations and long texts get a short one."""
    if is_null(value):
        return None
    is_long = isinstance(value, str) and len(value) > LONGEST_LABEL
    return as_label(value) if is_label(value) and not is_long else prompt_label(value)


def _typed(plain: Row) -> Row:
    """The row with a boolean reward read as a verdict, and conversations as texts."""
    if isinstance(plain.get("reward"), bool):
        plain = plain | {"correct": plain.get("correct", plain["reward"])}
        plain["reward"] = float(plain["reward"])
    talks = [name for name in ("response", "prompt") if is_conversation(plain.get(name))]
    return plain | {name: messages_text(plain[name]) for name in talks}


def _spread(row: Row, names: Iterable[str], where: str) -> Iterator[Row]:
    """One row a rollout, where `response` or `token_ids` is a list of one value a rollout.

    Raises:
        InputError: there are more or fewer rewards than responses.
    """
    # A single rollout is its own row.
    n = _n_rollouts(row)
    if n is None:
        yield row
        return
    lists = {name: row[name] for name in set(names) if isinstance(row.get(name), list)}
    for name in ("reward", "correct", "token_ids"):
        if name in lists and len(lists[name]) != n:
            raise InputError(f"{where}: {len(lists[name])} of {name} for {n} rollouts")
    # Other lists of that length have one value a rollout; any other list is a value as it is.
    lists = {name: values for name, values in lists.items() if len(values) == n}
    for i in range(n):
        yield row | {name: values[i] for name, values in lists.items()}


def _n_rollouts(row: Row) -> int | None:
    """How many rollouts the lists of a row hold; None where it is a single one."""
    responses, ids = row.get("response"), row.get("token_ids")
    if isinstance(responses, list) and not is_conversation(responses):
        return len(responses)
    if isinstance(ids, list) and ids and all(isinstance(x, list) for x in ids):
        return len(ids)
    return None


def nested_rows(row: Row, where: str, source: Source) -> Iterator[Row]:
    """Objects in a list, each with what stands beside the list; or lists of one value a rollout."""
    name = _list_of_rollouts(row)
    if name is None:
        for plural, singular in PLURALS.items():
            if isinstance(row.get(plural), list) and singular not in row:
                row = without(row, [plural]) | {singular: row[plural]}
        rollouts = list(_spread(row, EACH, where))
    else:
        # Lists of one reward or verdict a rollout may stand beside the list of rollouts. What a
        # rollout has of its own comes before them.
        beside: Row = {}
        for key, verdict in VERDICTS.items():
            values = row.get(key)
            if not isinstance(values, list) or len(values) != len(row[name]):
                continue
            if all(is_number(x) or isinstance(x, bool) or is_null(x) for x in values):
                beside.setdefault(verdict, values)
        shared = {
            key: value
            for key, value in row.items()
            if key != name and (key in PARSERS or not isinstance(value, dict | list))
        }
        rollouts = []
        for i, entry in enumerate(row[name]):
            of_entry = entry if "score" not in entry else {"reward": None} | entry
            each = {key: values[i] for key, values in beside.items() if key not in of_entry}
            rollouts.append(shared | each | entry)
    for rollout in rollouts:
        if "reward" not in rollout and "score" in rollout:
            score = reward_fields(rollout["score"])
            rollout = without(rollout, ["score"]) | score
        yield _typed(rollout)


def _list_of_rollouts(row: Row) -> str | None:
    for name in LISTS:
        entries = row.get(name)
        if isinstance(entries, list) and entries:
            kinds = (isinstance(x, dict) and ("response" in x or "token_ids" in x) for x in entries)
            if all(kinds):
                return name
    return None


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


def plain_row(row: Row, where: str, source: Source) -> list[Row]:
    """The row itself, with the text of a response that is a conversation."""
    if is_conversation(row.get("response")):
        row = row | {"response": messages_text(row["response"])}
    return [row]


PLAIN = Schema(
    "plain rollouts",
    lambda row: (
        "group" in row
        and (
            "token_ids" in row
            or isinstance(row.get("response"), str)
            or is_conversation(row.get("response"))
        )
    ),
    plain_row,
)
NESTED = Schema("rollouts nested in rows", _is_nested, nested_rows)
