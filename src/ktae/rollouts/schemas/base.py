"""What a schema is: the fields that tell a tool's rows, and where a rollout's fields are."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ktae.errors import InputError
from ktae.rollouts.locate import Located
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import DEFAULT, ReadOptions
from ktae.rollouts.paths import MISSING, at
from ktae.rollouts.rows import FINAL
from ktae.rollouts.values import (
    KINDS,
    Row,
    as_label,
    is_label,
    is_null,
    is_score,
    label_of,
    without,
)

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
    state: Row = dataclasses.field(default_factory=dict)
    """What a schema remembers from one row of the file to the next."""
    run: Row = dataclasses.field(default_factory=dict)
    """What it remembers from one file to the next."""


@dataclasses.dataclass(eq=False)
class Schema:
    """One tool's way to write rollouts."""

    title: str
    """As in "read as verl's rollout dump"."""
    signature: str
    """The paths that a row of it has, each with what is there: `step:number gts:any` (`KINDS`)."""
    reads: str = ""
    """Where a rollout's fields are, but for those that a row has by their names: `NAME=PATH`, or
    `a|b` for the first that is there and not null. `a/b` are two labels, joined, and `@name` is
    the step that the name of the file, or its folder, says. `group!`: the tool's own task is the
    group, whatever a simulated user asks; `_task` is the text that tells such a task."""
    convert: Callable[[Row, Row, str, Source], Iterable[Row]] | None = None
    """What paths cannot say: from a row's other fields with those of `reads`, the row itself, its
    place (which begins errors) and its source to the plain rows in it."""
    also: Callable[[Row], bool] = lambda row: True
    """What else has to hold for a row of it."""
    prepare: Callable[[Row], Row] = lambda row: row
    """What a row becomes before its fields are looked for."""
    drops: str = ""
    """Fields that are in no rollout as they are."""
    chooses: bool = False
    """Whether `convert` looks for the `correctness` that was asked for; or else a score of the row
    by that name is taken."""
    once: Callable[[Items, Source], Items] = lambda items, source: items
    """The rows that count, of those that follow each other in a file."""
    run: str = ""
    """What the tool calls the files of a run, as a pattern: those of a folder are one run."""

    def __post_init__(self) -> None:
        self.fits = [field.rsplit(":", 1) for field in self.signature.split()]
        self.fields = [field.split("=", 1) for field in self.reads.split()]
        self.dropped = self.drops.split()

    def detects(self, row: Row) -> bool:
        """Whether a row is one of this schema."""
        for path, kind in self.fits:
            value = row[path] if path in row else at(row, path) if "[" in path else MISSING
            if value is MISSING or not KINDS[kind](value):
                return False
        return self.also(row)

    def rollouts(self, row: Row, where: str, source: Source) -> list[Row]:
        """The plain rows in a row."""
        row, plain = self.prepare(row), dict[str, Any]()
        used = [*self.dropped]
        for name, paths in self.fields:
            is_final, name = name.endswith("!"), name.removesuffix("!")
            for path in paths.split("|"):
                value: Any = step_of(source.path) if path == "@name" else at(row, path)
                if "/" in path:
                    labels = filter(is_label, map(row.get, path.split("/")))
                    value = "/".join(str(as_label(x)) for x in labels)
                if value is MISSING or (is_null(value) and name != "reward"):
                    continue
                if name == "group":
                    value = label_of(value)
                    plain |= {FINAL: True} if is_final else {}
                plain[name] = value
                used.append(path if path in row else re.split(r"[.\[]", path, maxsplit=1)[0])
                if not is_null(value):
                    break
        rest = without(row, [*used, *plain]) | plain if used else row
        convert = self.convert
        rollouts = list(convert(rest, row, where, source)) if convert else [rest]
        if source.options.correctness and not self.chooses:
            for i, rollout in enumerate(rollouts):
                reward = choose(scores_in(row | rollout), (), where, source)
                rollouts[i] = without(rollout, ["correct"]) | {"reward": reward}
        return rollouts


def dealt(row: Row, columns: dict[str, Sequence[Any]], where: str) -> Iterator[Row]:
    """One row for each of several responses, with its entry of each column."""
    n = len(columns["response"])
    for name, values in columns.items():
        if len(values) != n:
            raise InputError(f"{where}: {len(values)} of {name} for {n} of response")
    for entries in zip(*columns.values(), strict=True):
        yield row | dict(zip(columns, entries, strict=True))


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
    values = [rewards[name] for name in wanted or options.hinted if name in rewards]
    if values:
        if not wanted:
            notes.add("trained", f"correctness {' or '.join(options.hinted)}")
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
