"""What a schema is, and what schemas have in common.

A schema is one way in which a tool writes rollouts: how its rows are recognised, and how a row
becomes plain rows, whose fields `ktae.rollouts.rows` describes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from ktae.errors import InputError

Row = dict[str, Any]


@dataclasses.dataclass
class Source:
    """The file that rows come from, and what was asked for."""

    path: Path
    correctness: str | None = None
    """The reward or metric that says whether a rollout is correct."""
    needs_reward: bool = True
    """Whether a row without one is of no use; grading needs none."""
    state: Row = dataclasses.field(default_factory=dict)
    """What a schema remembers from one row of the file to the next."""
    skipped: int = 0
    """Rows that repeat rollouts which were read already."""
    split: int = 0
    """Rows that are told apart by their prompt from others of the group that they name."""
    took: str | None = None
    """Which of several rewards was taken by its name, since nobody said which."""
    chose: bool = False
    """Whether `correctness` was looked for; rows that have one reward alone have no choice."""


@dataclasses.dataclass(frozen=True)
class Schema:
    """One tool's way to write rollouts."""

    title: str
    """As in "read as verl's rollout dump"."""
    detects: Callable[[Row], bool]
    """Whether a row is one of this schema."""
    rollouts: Callable[[Row, str, Source], Iterable[Row]]
    """The plain rows in a row. Its second argument, the place, begins the errors."""
    by_prompt: bool = False
    """Whether the label of a group is made of its prompt, because the tool writes none."""
    files: str = ""
    """How the names of the tool's files begin; others beside them are left alone in a folder."""


def has(*names: str) -> Callable[[Row], bool]:
    """A test for rows that have all these fields."""
    wanted = frozenset(names)
    return lambda row: wanted <= row.keys()


def without(row: Row, names: Sequence[str]) -> Row:
    """The other fields of a row."""
    return {name: value for name, value in row.items() if name not in names}


def prompt_label(prompt: object) -> str:
    """A group's label made of its prompt: the same prompt has the same label in every step."""
    text = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True, default=str)
    digest = hashlib.blake2s(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return f"prompt {digest}"


def is_conversation(value: object) -> bool:
    """Whether it is a list of messages."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(message, dict) and "content" in message for message in value)
    )


def messages_text(value: object) -> object:
    """The texts of a conversation's messages, or the value itself where it is none."""
    if not isinstance(value, list):
        return value
    parts = []
    # A message's content is text, or a list of parts of which some are text.
    for message in value:
        content = message.get("content") if isinstance(message, dict) else message
        for part in content if isinstance(content, list) else [content]:
            text = part.get("text") if isinstance(part, dict) else part
            if isinstance(text, str):
                parts.append(text)
    return "\n".join(parts)


def is_number(value: object) -> bool:
    """Whether it is a number, and not true or false."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def reward_fields(value: object) -> Row:
    """The fields of a plain row for a reward, a verdict (true, false), or neither (null)."""
    if value is None:
        return {"reward": None, "correct": None}
    if isinstance(value, bool):
        return {"reward": float(value), "correct": value}
    return {"reward": value}


def choose(rewards: Row, likely: Sequence[str], where: str, source: Source) -> object:
    """The value that says whether a rollout is correct, out of several by name.

    That is the one that was asked for, else the only one, else the only one of `likely`. Where
    none is needed and none can be told, it is None.

    Raises:
        InputError: it cannot be told, or the one that was asked for is not there.
    """
    source.chose = True
    if source.correctness in rewards:
        return rewards[source.correctness]
    names = list(rewards) if len(rewards) == 1 else [name for name in likely if name in rewards]
    if source.correctness is None and len(names) == 1:
        source.took = names[0] if len(rewards) > 1 else source.took
        return rewards[names[0]]
    # Grading needs no reward, so nobody has to say which.
    if source.correctness is None and not source.needs_reward:
        return None
    raise InputError(
        f"{where}: correctness is {source.correctness!r}; expected the reward function that says "
        "whether a rollout is correct (--correctness on the command line), one of "
        f"{', '.join(map(repr, rewards)) or 'none here'}"
    )


def constant(values: object) -> float | None:
    """The number itself, or the one that a whole list repeats; None for anything else."""
    if isinstance(values, list):
        return values[0] if values and all(x == values[0] for x in values) else None
    return values if isinstance(values, int | float) else None
