"""Rows of several rollouts, and rows whose fields a user has named: one row a rollout of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktae.errors import InputError
from ktae.rollouts.conversation import PROMPTS, TURNS, messages_of
from ktae.rollouts.paths import (
    LIKELY,
    MISSING,
    PathError,
    at,
    is_conversation,
    name_of,
    root_of,
    unknown_row,
)
from ktae.rollouts.rows import KINDS, Each, Row, is_null, label_of, list_of, without

ENTRIES = ("rollouts", "samples", "responses", "completions", "generations", "outputs")
"""Fields that hold a row's rollouts, as objects with `response` or `token_ids` and the rest."""
COLUMNS = {
    "response": ("response", "responses", "completions"),
    "reward": ("reward", "score", "rewards", "scores"),
    "advantage": ("advantage", "advantages"),
}
"""Fields that may be lists of one value a rollout, and what they are called."""
ONE_EACH = ("reward", "correct", "group", "prompt", "step", "advantage", "model", "source")
"""Fields that are one value a rollout: a list beside n responses has to be n of them."""
LISTS = ("token_ids", "mask", "log_probs", "entropy")
"""Fields that are one list a rollout."""


def unfolded(row: Row, where: str, is_grouped: bool) -> Row:
    """A row with its rollouts as columns, which are objects in a list, or go by their plurals.

    What a rollout has of its own comes before what stands beside the list. Rollouts of several
    problems are refused unless something says their group (`is_grouped`).
    """
    if name := list_of_rollouts(row):
        entries, row = row[name], without(row, [name])
        keys = dict.fromkeys(key for entry in entries for key in entry)
        if not (is_grouped or {"group", *PROMPTS} & {*row, *keys}):
            for label in LIKELY["group"]:
                n = len({str(entry.get(label)) for entry in entries})
                if 1 < n < len(entries):
                    message = f"its rollouts are of {n} values of {label!r}"
                    raise unknown_row({**row, name: entries}, where, message, ("group",))
        keys = keys or {"response": None}  # of no rollouts
        row = row | {key: Each(entry.get(key, MISSING) for entry in entries) for key in keys}
    for singular, plurals in COLUMNS.items():
        there = next((x for x in plurals if isinstance(row.get(x), list)), None)
        if there is not None and (singular not in row or singular == there):
            row = without(row, [there]) | {singular: row[there]}
    return row


def list_of_rollouts(row: Row) -> str | None:
    """The field that holds a row's rollouts as objects; None where there is none."""
    is_rollouts = list_of(lambda x: isinstance(x, dict) and ("response" in x or "token_ids" in x))
    is_one = not {"response", "token_ids"}.isdisjoint(row)
    return next((x for x in ENTRIES if is_rollouts(row.get(x)) and (row[x] or not is_one)), None)


def is_nested(row: Row) -> bool:
    """Whether a row holds several rollouts, or has an empty list of them."""
    if list_of_rollouts(row):
        return True
    responses = next((row[x] for x in COLUMNS["response"] if x in row), None)
    rewards = next((row[x] for x in (*COLUMNS["reward"], "correct") if x in row), None)
    return KINDS["saids"](responses) and isinstance(rewards, list)


def spread(row: Row, where: str) -> Iterator[Row]:
    """One row a rollout: what is an `Each`, or plainly a list of one value a rollout, is dealt out.

    Lists that are dealt out together have the same length, and no reward stands for several.
    """
    of = "response" if "response" in row else "token_ids"
    dealt: dict[str, list[Any]] = {k: x for k, x in row.items() if isinstance(x, Each)}
    is_many = isinstance(row.get(of), list) and of not in dealt
    if not (of in dealt or (is_many and KINDS["saids" if of == "response" else "lists"](row[of]))):
        for name, values in dealt.items():
            if len(values) != 1:
                raise InputError(
                    f"{where}: {name} has {len(values)} values for one {of}; name one of them"
                )
        # A single response: a path through a list of one entry leads to its value.
        yield row | {name: values[0] for name, values in dealt.items()}
        return
    n = len(row[of])
    # Where the prompts are a list of n, a row is a batch in columns: all its lists of n are dealt
    # out. Otherwise a list may be one value, such as several accepted answers.
    lists = {k: x for k, x in row.items() if isinstance(x, list) and messages_of(x) is None}
    is_batch = any(len(lists.get(name, ())) == n for name in (*PROMPTS, "group"))
    for name, values in lists.items():
        if name in LISTS:
            is_dealt = any(isinstance(x, list) for x in values)
        else:
            is_dealt = name in ONE_EACH or (is_batch and len(values) == n)
        if name == of or is_dealt or (name in PROMPTS and KINDS["saids"](values)):
            dealt[name] = values
    for name, values in dealt.items():
        if len(values) != n:
            raise InputError(f"{where}: {len(values)} of {name} for {n} of {of}")
    for name in ("reward", "correct"):
        if n > 1 and name not in dealt and not is_null(row.get(name)):
            raise InputError(
                f"{where}: {name} is {row[name]!r:.60}, one for {n} of {of}; name one of them, or "
                f"as {name} a list of {n}"
            )
    for i in range(n):
        of_one = row | {name: values[i] for name, values in dealt.items()}
        yield from spread({k: x for k, x in of_one.items() if x is not MISSING}, where)


# --- rollouts whose fields a user has named


def by_fields(row: Row, fields: Mapping[str, str], where: str) -> list[Row]:
    """The rollouts of a row whose response, or token ids, a user has named."""
    for name in {"response", "token_ids"} & fields.keys():
        if isinstance(at(row, fields[name]), Each) and (turns := turns_in(row, fields[name])):
            raise PathError(
                f"{where}: {name}={fields[name]} takes the turns in {turns!r} for rollouts of a "
                f"group; name the list for all of them, or one of them ({turns}[-1])"
            )
    # What the named fields are taken from is no field of the rollout any more.
    plain = without(row, [*(root_of(row, path) for path in fields.values()), *fields])
    plain |= named(row, fields, where)
    # Of a response that is one message of a conversation, the ones before it are the prompt.
    if match := re.fullmatch(r"(.+?)(?:\.-1|\[-1\])\.content", fields.get("response", "")):
        messages = messages_of(at(row, match[1]))
        if messages is not None and len(messages) > 1:
            plain = {"prompt": messages[:-1]} | plain
    return list(spread(plain, where))


def named(row: Row, fields: Mapping[str, str], where: str) -> Row:
    """What a user has named in a row; null where it has nothing there."""
    values = {name: at(row, path) for name, path in fields.items()}
    for name in ("response", "token_ids", "group"):
        if values.get(name) is MISSING:
            message = f"nothing at {fields[name]!r} for {name}"
            raise unknown_row(row, where, message, (name,))
    values = {name: None if value is MISSING else value for name, value in values.items()}
    return values | ({"group": label_of(values["group"])} if "group" in values else {})


def turns_in(row: Row, path: str) -> str | None:
    """The list of a rollout's turns whose entries a path takes one by one."""
    for match in re.finditer(r"(\[\])?\.(?!-?\d)", path):
        before = path[: match.start()]
        value = at(row, before)
        value = value[0] if isinstance(value, Each) and value else value
        is_list = isinstance(value, list) and (match[1] or len(value) > 1)
        if is_list and (name_of(before) in TURNS or is_conversation(before, value)):
            return before
    return None


def override(rollouts: Sequence[Row], row: Row, fields: Mapping[str, str], where: str) -> list[Row]:
    """A schema's rollouts, with what the user has named in the schema's row.

    What this row lacks is null: never the schema's own value, which would be another quantity. Of a
    row with several rollouts, a list that is named has one value a rollout.
    """
    values = named(row, fields, where)
    # The schema's verdict belongs to its own reward, not to the one that is named.
    if "reward" in values and "correct" not in values:
        rollouts = [without(rollout, ["correct"]) for rollout in rollouts]
    of_each = [values] * len(rollouts)
    if len(rollouts) > 1 or is_nested(row):
        of_each = list(spread({"response": [""] * len(rollouts)} | values, where))
    return [x | {k: y[k] for k in values} for x, y in zip(rollouts, of_each, strict=True)]
