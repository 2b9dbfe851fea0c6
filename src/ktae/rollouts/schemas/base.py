"""What a schema is: the fields that tell a tool's rows, and where a rollout's fields are."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ktae.errors import InputError, one_line
from ktae.rollouts.locate import Located
from ktae.rollouts.names import NAMES
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.paths import at
from ktae.rollouts.values import (
    KINDS,
    MISSING,
    Row,
    as_label,
    is_label,
    is_null,
    is_score,
    label_of,
    without,
)

FINAL = "_group_is_final"
"""Field of a plain row: its label is its group, whatever the prompt says. `_prompt_is_final`: the
prompt takes nothing from the conversation; `_task`: the text that tells the problem."""
CORRECTNESS_NAMES = (
    *("correct", "correctness", "correctness_reward", "accuracy", "accuracy_reward"),
    *("exact_match", "math_verify", "extractive_match", "acc", "qem", "em"),
)
"""Rewards and metrics that say whether a rollout is correct, if one alone is there."""
OF_FORM = re.compile(r"form|length|len_|_len|tag|style|lang|xml|repet|penalt|soft|over")
"""Rewards of such names say nothing about what is correct."""
STEP = re.compile(r"(?:step|rollout)[_-]?(\d+)")
"""A training step in the name of a file."""
STEP_FOLDER = re.compile(r"(?:[a-z_]*step|rollout)[_-]?(\d+)(?:_epoch_\d+)?")
"""The name of a training step's folder, such as step_7, global_step_7 or train_step_7_epoch_0."""

Items = Iterator[tuple[Row, Located]]
"""Rows of a file, each with where it was found."""


@dataclasses.dataclass
class Source:
    """The file that rows come from, and what was asked for."""

    path: Path
    options: ReadOptions = DEFAULT
    notes: Notes = dataclasses.field(default_factory=Notes)
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Those that the user has named, as they are from a row."""
    state: Row = dataclasses.field(default_factory=dict)
    """What a schema remembers from one row of the file to the next."""
    run: Row = dataclasses.field(default_factory=dict)
    """What it remembers from one file to the next."""

    def named(self, row: Row) -> Row:
        """What the user has named in a row, null where it has nothing there; which is final."""
        values = {name: at(row, path) for name, path in self.fields.items()}
        values = {name: None if value is MISSING else value for name, value in values.items()}
        if "prompt" in values:
            values["_prompt_is_final"] = True
        if paths := self.options.group_by:
            parts = [at(row, path) for path in paths]
            label = label_of(parts[0] if len(parts) == 1 else json.dumps(parts, default=str))
            values |= {"group": None if MISSING in parts else label, FINAL: True}
        elif "group" in values:
            values |= {"group": label_of(values["group"]), FINAL: True}
        return values


@dataclasses.dataclass(eq=False)
class Schema:
    """One tool's way to write rollouts."""

    title: str
    """As in "read as verl's rollout dump"."""
    has: str = ""
    """The paths that a row of it has, each with what is there: `step:number gts:any` (`KINDS`)."""
    has_any: str = ""
    """The same, of which one is enough."""
    reads: str = ""
    """Where a rollout's fields are (`tools.toml` has what this and `drops` may say)."""
    drops: str = ""
    """Fields that are in no rollout as they are."""
    run: str = ""
    """What the tool calls the files of a run, as a pattern: those of a folder are one run."""
    also: Callable[[Row], bool] = lambda row: True
    """What else has to hold for a row of it."""
    prepare: Callable[[Row], Row] = lambda row: row
    """What a row becomes before its fields are looked for."""
    convert: Callable[[Row, Row, str, Source], Iterable[Row]] | None = None
    """What paths cannot say: from a row's other fields with those of `reads`, the row itself, its
    place (which begins errors) and its source to the plain rows in it."""
    once: Callable[[Items, Source], Items] = lambda items, source: items
    """The rows that count, of those that follow each other in a file."""
    chooses: bool = False
    """Whether `convert` looks for the `correctness` that was asked for; or else a score of the row
    by that name is taken."""
    is_plain: bool = False
    """Whether no tool has written the rows, so that their fields mean what all of them say."""

    def __post_init__(self) -> None:
        self.all, self.any = (
            [field.rsplit(":", 1) for field in some.split()] for some in (self.has, self.has_any)
        )
        pairs = (field.split("=", 1) for field in self.reads.split())
        self.fields = [(name, paths.split("|")) for name, paths in pairs]

    def detects(self, row: Row) -> bool:
        """Whether a row is one of this schema."""

        def fits(path: str, kind: str) -> bool:
            value = row[path] if path in row else at(row, path) if "[" in path else MISSING
            return value is not MISSING and KINDS[kind](value)

        return (
            all(fits(*x) for x in self.all)
            and (not self.any or any(fits(*x) for x in self.any))
            and self.also(row)
        )

    def rollouts(self, row: Row, where: str, source: Source) -> list[Row]:
        """The plain rows in a row.

        Raises:
            InputError: a field is not what it has to be.
        """
        options = source.options
        is_changed = self.fields or self.drops or self.convert or source.fields
        if not (is_changed or options.correctness or options.group_by):
            return [row]  # it is what it says
        row = self.prepare(row)
        try:
            plain = self._read(row, source.path)
            convert = self.convert
            rollouts = list(convert(plain, row, where, source)) if convert else [plain]
        except InputError:
            raise
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            raise InputError(
                f"{where}: looks like {self.title}, but a field is not as it should be: "
                f"{type(error).__name__} ({one_line(error)})"
            ) from None
        if source.options.correctness and not self.chooses:
            scores = [scores_in(row | rollout) for rollout in rollouts]
            rewards = [choose(x, (), where, source) for x in scores]
            pairs = zip(rollouts, rewards, strict=True)
            rollouts = [without(x, ["correct"]) | {"reward": reward} for x, reward in pairs]
        named = source.named(row) if source.fields or source.options.group_by else {}
        # The row's verdict belongs to its own reward, not to the one that is named.
        if "reward" in named and "correct" not in named:
            rollouts = [without(rollout, ["correct"]) for rollout in rollouts]
        n = len(rollouts)
        for i, rollout in enumerate(rollouts if named else ()):
            # In a row with several rollouts, a list that is named has one value a rollout.
            is_dealt = {k for k, x in named.items() if n > 1 and type(x) is list and len(x) == n}
            taken = {x for x in source.fields.values() if self.is_plain and x not in NAMES.prompts}
            values = {k: x[i] if k in is_dealt else x for k, x in named.items()}
            rollouts[i] = without(rollout, taken - source.fields.keys()) | values
        return rollouts

    def _read(self, row: Row, path: Path) -> Row:
        """A row with the fields of `reads` by their names."""
        used, plain = set(self.drops.split()), dict[str, Any]()
        for name, paths in self.fields:
            is_final, name = name.endswith("!"), name.removesuffix("!")
            for place in paths:
                value: Any = step_of(path) if place == "@name" else at(row, place)
                if "/" in place:
                    labels = filter(is_label, map(row.get, place.split("/")))
                    value = "/".join(str(as_label(x)) for x in labels)
                if value is MISSING or (is_null(value) and name not in ("reward", "correct")):
                    continue
                if name == "group":
                    value = label_of(value)
                    plain |= {FINAL: True} if is_final else {}
                plain[name] = value
                used.add(place if place in row else re.split(r"[.\[]", place, maxsplit=1)[0])
                if not is_null(value):
                    break
        return without(row, used | plain.keys()) | plain if used or plain else row


def scores_in(row: Row) -> Row:
    """The scores of a row by name: its own, and those in fields that hold several."""
    inner: Row = {}
    for value in map(row.get, ("metrics", "scores", "rewards", "metric", "extra")):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(value) if isinstance(value, str) else value
        inner |= value if isinstance(value, dict) else {}
    return {name: value for name, value in (inner | row).items() if is_score(value)}


def choose(
    rewards: Row,
    likely: Sequence[str],
    where: str,
    source: Source,
    asked: Sequence[str] | None = None,
) -> Any:
    """The value that says whether a rollout is correct, out of several by name.

    That is the one that was asked for, else the only one, else the only one of `likely`. Where
    none is needed and none can be told, it is None.
    """
    options, notes = source.options, source.notes
    wanted = options.correctness_names if asked is None else asked
    values = [rewards[name] for name in wanted if name in rewards]
    if values:
        return next((value for value in values if value is not None), None)
    if not wanted:
        names = list(rewards) if len(rewards) == 1 else [x for x in likely if x in rewards]
        names = names or [x for x in rewards if not OF_FORM.search(x.lower())]
        if len(names) == 1:
            if len(rewards) > 1:
                notes.add("taken", repr(names[0]))
            return rewards[names[0]]
        # Grading needs no reward, and one that the user has named need not be found.
        if not options.needs_reward or "reward" in options.fields:
            return None
    raise InputError(
        f"{where}: correctness is {' or '.join(map(repr, wanted)) or None}; expected the reward "
        "function that says whether a rollout is correct (--correctness on the command line), one "
        f"of {', '.join(map(repr, rewards)) or 'none here'}"
    )


def step_of(path: Path) -> int | None:
    """The step that a file's name tells, or else a folder's above it; None where neither does."""
    if match := STEP.search(path.name):
        return int(match[1])
    folders = (STEP_FOLDER.fullmatch(folder.name) for folder in list(path.parents)[:3])
    return next((int(match[1]) for match in folders if match), None)
