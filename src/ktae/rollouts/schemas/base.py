"""What a schema is: the fields that tell a tool's rows, and where a rollout's fields are."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from ktae.errors import InputError
from ktae.rollouts.conversation import messages_of, plain_text
from ktae.rollouts.paths import MISSING, Each, at, spread
from ktae.rollouts.rows import Row, as_label, as_verdict, is_label, is_null

CORRECTNESS_NAMES = (
    *("correct", "correctness", "correctness_reward", "accuracy", "accuracy_reward"),
    *("exact_match", "math_verify", "extractive_match", "acc", "qem", "em"),
)
"""Rewards and metrics that say whether a rollout is correct, if one alone is there."""

STEP = re.compile(r"(?:step|rollout)[_-]?(\d+)")
"""A training step in the name of a file."""
STEP_FOLDER = re.compile(r"(?:[a-z_]*step|rollout)[_-]?(\d+)")
"""The name of a training step's folder, such as step_7 or global_step_7."""


OF_NAME = "@name"
"""In the place of a path: what the name of the file, or of its folder, says."""


@dataclasses.dataclass
class Source:
    """The file that rows come from, and what was asked for."""

    path: Path
    correctness: Sequence[str] = ()
    """The rewards or metrics that say whether a rollout is correct: the first that is not null."""
    hinted: Sequence[str] = ()
    """Those that the run was trained with, taken where they are there and nothing was asked for."""
    threshold: float = 0.0
    """A reward above it is correct."""
    needs_reward: bool = True
    """Whether a row without one is of no use; grading needs none."""
    state: Row = dataclasses.field(default_factory=dict)
    """What a schema remembers from one row of the file to the next."""
    skipped: int = 0
    """Rows that repeat rollouts which were read already."""
    took: str | None = None
    """Which of several rewards was taken by its name, since nobody said which."""
    chose: bool = False
    """Whether `correctness` was looked for; rows that have one reward alone have no choice."""
    unknown: list[str] = dataclasses.field(default_factory=list)
    """Texts in the place of verdicts that are neither right nor wrong."""


def is_number(value: object) -> bool:
    """Whether it is a number, and not true or false."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def is_score(value: object) -> bool:
    """Whether it is a number, a verdict, or null."""
    return value is None or is_number(value) or as_verdict(value) is not None


KINDS: dict[str, Callable[[Any], bool]] = {
    "any": lambda value: True,
    "text": lambda value: isinstance(value, str),
    "said": lambda value: isinstance(value, str) or messages_of(value) is not None,
    "messages": lambda value: messages_of(value) is not None,
    "number": is_number,
    "number?": lambda value: value is None or is_number(value),
    "score": is_score,
    "label": is_label,
    "dict": lambda value: isinstance(value, dict),
    "list": lambda value: isinstance(value, list),
    "texts": lambda value: isinstance(value, list) and all(isinstance(x, str) for x in value),
    "saids": lambda value: (
        isinstance(value, list) and messages_of(value) is None and all(map(KINDS["said"], value))
    ),
    "scores": lambda value: isinstance(value, list) and all(map(is_score, value)),
    "lists": lambda value: isinstance(value, list) and all(isinstance(x, list) for x in value),
}
"""What a field of a signature may hold."""


@dataclasses.dataclass(frozen=True)
class Schema:
    """One tool's way to write rollouts."""

    title: str
    """As in "read as verl's rollout dump"."""
    fits: Mapping[str, str]
    """The paths that a row of it has, and what is there (`KINDS`)."""
    fields: Mapping[str, str | tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Where a rollout's fields are, but for those that a row has by their names: paths, or `a|b`
    for the first that is there and not null. Of several for a group, the parts are joined. A step
    may be that `OF_NAME`."""
    convert: Callable[[Row, str, Source], Iterable[Row]] | None = None
    """In place of `fields`: the plain rows in a row. Its second argument, the place, begins the
    errors."""
    also: Callable[[Row], bool] = lambda row: True
    """What else has to hold for a row of it."""
    prepare: Callable[[Row], Row] = lambda row: row
    """What a row becomes before its `fields` are looked for."""
    by_prompt: bool = False
    """Whether the label of a group is made of its prompt, because the tool writes none."""
    run: str = ""
    """What the tool calls the files of a run, as a pattern: those of a folder are one run."""

    def detects(self, row: Row) -> bool:
        """Whether a row is one of this schema."""
        for path, kind in self.fits.items():
            value = row[path] if path in row else at(row, path) if "[" in path else MISSING
            if value is MISSING or not KINDS[kind](value):
                return False
        return self.also(row)

    def rollouts(self, row: Row, where: str, source: Source) -> Iterable[Row]:
        """The plain rows in a row."""
        if self.convert is not None:
            return self.convert(row, where, source)
        row = self.prepare(row)
        plain: Row = {}
        used = set()
        for name, paths in self.fields.items():
            if isinstance(paths, tuple):
                parts = (at(row, path) for path in paths)
                plain[name] = "/".join(str(as_label(x)) for x in parts if is_label(x))
                continue
            for path in paths.split("|"):
                value: Any = step_of(source.path) if path == OF_NAME else at(row, path)
                if value is not MISSING and not is_null(value):
                    plain[name] = label_of(value) if name == "group" else value
                    used.add(path if path in row else re.split(r"[.\[]", path, maxsplit=1)[0])
                    break
        if source.correctness and not isinstance(plain.get("reward"), Each):
            plain["reward"] = choose(scores_in(row), (), where, source)
            plain.pop("correct", None)
        elif "reward" not in plain:
            # A reward that is null is an unknown verdict; one that is absent is asked for.
            rewards = str(self.fields.get("reward", "reward")).split("|")
            if any(is_null(at(row, path)) for path in rewards):
                plain |= reward_fields(None)
        return list(spread(without(row, [*used, *plain]) | plain, where))


def without(row: Row, names: Iterable[str]) -> Row:
    """The other fields of a row."""
    names = frozenset(names)
    return {name: value for name, value in row.items() if name not in names}


def prompt_label(prompt: object) -> str:
    """A group's label made of its prompt: the same prompt has the same label in every step."""
    text = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True, default=str)
    digest = hashlib.blake2s(text.strip().encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return f"prompt {digest}"


LONGEST_LABEL = 80
"""Characters. A longer text in the place of a group becomes a short label."""


def label_of(value: Any) -> Any:
    """What may be a group's label: conversations and long texts get a short one."""
    if is_null(value):
        return None
    if isinstance(value, Each):
        return Each(map(label_of, value))
    if isinstance(value, list) and messages_of(value) is None:
        return value  # of one label a rollout, or of no use
    is_short = is_label(value) and not (isinstance(value, str) and len(value) > LONGEST_LABEL)
    return as_label(value) if is_short else prompt_label(plain_text(value))


def scores_in(row: Row) -> Row:
    """The scores of a row by name: its own, and those of `metrics`, `scores` and `rewards`."""
    inner: Row = {}
    for name in ("metrics", "scores", "rewards", "metric"):
        value = row.get(name)
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(value) if isinstance(value, str) else value
        inner |= value if isinstance(value, dict) else {}
    return {name: value for name, value in (inner | row).items() if is_score(value)}


def reward_fields(value: object) -> Row:
    """The fields of a plain row for a reward, a verdict, or neither (null)."""
    if value is None:
        return {"reward": None, "correct": None}
    if isinstance(value, bool | str) and (verdict := as_verdict(value)) is not None:
        return {"reward": float(verdict), "correct": verdict}
    return {"reward": value}


def choose(rewards: Row, likely: Sequence[str], where: str, source: Source) -> object:
    """The value that says whether a rollout is correct, out of several by name.

    That is the one that was asked for, else the only one, else the only one of `likely`. Where
    none is needed and none can be told, it is None.

    Raises:
        InputError: it cannot be told, or the one that was asked for is not there.
    """
    source.chose = True
    names = source.correctness or source.hinted
    asked = [rewards[name] for name in names if name in rewards]
    if asked:
        return next((value for value in asked if value is not None), None)
    if not source.correctness:
        names = list(rewards) if len(rewards) == 1 else [x for x in likely if x in rewards]
        if len(names) == 1:
            source.took = names[0] if len(rewards) > 1 else source.took
            return rewards[names[0]]
        if not source.needs_reward:  # grading needs none, so nobody has to say which
            return None
    wanted = " or ".join(map(repr, source.correctness)) or None
    raise InputError(
        f"{where}: correctness is {wanted}; expected the reward function that says "
        "whether a rollout is correct (--correctness on the command line), one of "
        f"{', '.join(map(repr, rewards)) or 'none here'}"
    )


def constant(values: object) -> float | None:
    """The number itself, or the one that a whole list repeats; None for anything else."""
    if isinstance(values, list):
        return values[0] if values and all(x == values[0] for x in values) else None
    return values if isinstance(values, int | float) else None


def step_of(path: Path) -> int | None:
    """The step that a file's name tells, or else a folder's above it; None where neither does."""
    if match := STEP.search(path.name):
        return int(match[1])
    folders = (STEP_FOLDER.fullmatch(folder.name) for folder in list(path.parents)[:3])
    return next((int(match[1]) for match in folders if match), None)
