"""Rollouts whose fields a user has named by their paths (`ktae.rollouts.paths`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ktae.errors import InputError
from ktae.rollouts.conversation import messages_of
from ktae.rollouts.paths import MISSING, at, named_values, spread
from ktae.rollouts.rows import Row
from ktae.rollouts.schemas.base import label_of, without
from ktae.rollouts.schemas.trainers import is_nested


def by_fields(row: Row, fields: Mapping[str, str], where: str) -> list[Row]:
    """The rollouts of a row whose fields a user has named.

    Raises:
        InputError: a path leads nowhere, lists that are dealt out together differ in length, or one
            reward stands beside several responses.
    """
    named = named_values(row, fields, where)
    # What the named fields are taken from is no field of the rollout any more.
    roots = [x if (x := fields[name]) in row else re.split(r"[.\[]", x)[0] for name in named]
    plain = without(row, [*roots, *fields]) | named
    # Of a response that is one message of a conversation, the ones before it are the prompt.
    if match := re.fullmatch(r"(.+?)(?:\.-1|\[-1\])\.content", fields.get("response", "")):
        messages = messages_of(at(row, match[1]))
        if messages is not None and len(messages) > 1:
            plain = {"prompt": messages[:-1]} | plain
    if "group" in named:
        plain["group"] = label_of(named["group"])
    rollouts = list(spread(plain, where))
    for rollout in rollouts:
        if isinstance(label := rollout.get("group"), list):
            raise InputError(
                f"{where}: group is a list of {len(label)}; expected one label for each rollout"
            )
    return rollouts


def override(row: Row, rollouts: Sequence[Row], fields: Mapping[str, str], where: str) -> list[Row]:
    """A schema's rollouts, with what the user has named in the schema's row.

    What this row lacks is null: never the schema's own value, which would be another quantity. Of a
    row with a list of rollouts, a list that is named has one value a rollout.

    Raises:
        InputError: there are more or fewer values than rollouts.
    """
    named = {name: at(row, path) for name, path in fields.items()}
    named = {name: None if value is MISSING else value for name, value in named.items()}
    if "group" in named:
        named["group"] = label_of(named["group"])
    # The schema's verdict belongs to its own reward, not to the one that is named.
    if "reward" in named and "correct" not in named:
        rollouts = [without(rollout, ["correct"]) for rollout in rollouts]
    values = [named] * len(rollouts)
    if len(rollouts) > 1 or is_nested(row):
        spread_ones = list(spread({"response": [""] * len(rollouts)} | named, where))
        values = [{name: each[name] for name in named} for each in spread_ones]
    return [rollout | each for rollout, each in zip(rollouts, values, strict=True)]
