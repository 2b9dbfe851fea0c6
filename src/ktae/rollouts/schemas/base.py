"""What a schema is: the fields that tell a tool's rows, and where a rollout's fields are."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ktae.errors import InputError, passed_on, quoted
from ktae.rollouts.conversation import from_json
from ktae.rollouts.locate import Located
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import MISSING, NAMES, at
from ktae.rollouts.values import (
    KINDS,
    Row,
    is_null,
    label_of,
    without,
)

FINAL = "_group_is_final"
"""Field of a plain row: its label is its group, whatever the prompt says. `_prompt_is_final`: the
prompt takes nothing from the conversation; `_task`: the text that tells the problem."""
SCORES = "_scores"
"""Field of a plain row: its rewards or metrics by name, of which one becomes its reward."""
CORRECTNESS_NAMES = (
    *("correct", "correctness", "correctness_reward", "accuracy", "accuracy_reward"),
    *("exact_match", "math_verify", "extractive_match", "acc", "qem", "em", "score", "reward"),
)
"""Rewards and metrics that say whether a rollout is correct; the first that is there counts."""
OF_FORM = re.compile("form|len|tag|style|penalt")
STEP = re.compile(r"(?:step|rollout)[_-]?(\d+)")
STEP_FOLDER = re.compile(r"(?:[a-z_]*step|rollout)[_-]?(\d+)(?:_epoch_\d+)?")
"""The name of a training step's folder, such as step_7, global_step_7 or train_step_7_epoch_0."""
Items = Iterator[tuple[Row, Located]]  # rows of a file, each with where it was found


@dataclasses.dataclass
class Source:
    """The file that rows come from, and what was asked for."""

    path: Path
    options: ReadOptions
    notes: Notes
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)  # named, from a row
    run: dict[Any, Any] = dataclasses.field(default_factory=dict)
    """What converters remember from one row, or file, to the next."""

    def named(self, row: Row) -> Row:
        """What the user has named in a row, null where it has nothing there; which is final."""
        values = {k: None if (x := at(row, p)) is MISSING else x for k, p in self.fields.items()}
        if parts := [at(row, path) for path in self.options.group_by]:
            label = parts[0] if len(parts) == 1 else json.dumps(parts, default=str)
            values["group"] = None if MISSING in parts else label
        if "group" in values:
            values |= {"group": label_of(values["group"]), FINAL: True}
        if "prompt" in values:
            values["_prompt_is_final"] = True
        return values


@dataclasses.dataclass(eq=False)
class Schema:
    """One tool's way to write rollouts; `tools.toml` explains its fields."""

    title: str
    has: str = ""
    has_any: str = ""
    reads: str = ""
    drops: str = ""
    run: str = ""
    convert: Callable[[Row, Row, str, Source], Iterable[Row]] | None = None
    once: Callable[[Items, Source], Items] = lambda items, source: items
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

        return all(fits(*x) for x in self.all) and (not self.any or any(fits(*x) for x in self.any))

    def rollouts(self, row: Row, where: str, source: Source) -> list[Row]:
        """The plain rows in a row; an InputError where a field is not what it has to be."""
        options, is_read = source.options, self.fields or self.convert
        if not (is_read or source.fields or options.correctness or options.group_by):
            return [row]  # it is what it says
        broken = f"{where}: looks like {self.title}, but a field is not as it should be"
        with passed_on(broken, TypeError, ValueError, LookupError, AttributeError):
            plain = self._read(row, source.path)
            rollouts = list(self.convert(plain, row, where, source)) if self.convert else [plain]
        for rollout in rollouts:
            scores = rollout.pop(SCORES, None)
            if options.correctness:
                scores = scores_in(row | rollout) | (scores or {})
            if scores is not None:
                rollout |= {"reward": choose(scores, CORRECTNESS_NAMES, where, source)}
                rollout.pop("correct", None)
        if not (named := source.named(row)):
            return rollouts
        taken = {x for x in source.fields.values() if self.is_plain and x not in NAMES.prompts}
        if "reward" in named and "correct" not in named:
            taken.add("correct")  # the row's verdict belongs to its own reward
        return [without(x, taken - source.fields.keys()) | named for x in rollouts]

    def _read(self, row: Row, path: Path) -> Row:
        """A row with the fields of `reads` by their names."""
        used, plain = set(self.drops.split()), dict[str, Any]()
        for name, paths in self.fields:
            is_final, name = name.endswith("!"), name.removesuffix("!")
            for place in paths:
                value: Any = step_of(path) if place == "@name" else at(row, place)
                if value is MISSING or (is_null(value) and name not in ("reward", "correct")):
                    continue
                plain[name] = label_of(value) if name == "group" else value
                plain |= {FINAL: True} if is_final else {}
                used.add(place if place in row else re.split(r"[.\[]", place, maxsplit=1)[0])
                if not is_null(value):
                    break
        return without(row, used | plain.keys()) | plain


def scores_in(row: Row) -> Row:
    """The scores of a row by name: its own, and those in fields that hold several."""
    inner: Row = {}
    for name in ("metrics", "scores", "rewards", "reward", "metric", "extra"):
        value = from_json(row.get(name))
        inner |= value if isinstance(value, dict) else {}
    return {name: value for name, value in (inner | row).items() if KINDS["score"](value)}


def choose(scores: Row, likely: Sequence[str], where: str, source: Source) -> Any:
    """The value that says whether a rollout is correct, out of several by name.

    That is the one that was asked for, else the only one, else the first of `likely`, else the only
    one that is not about form. Where none is needed and none can be told, it is None.
    """
    options, wanted = source.options, source.options.correctness
    names = [x for x in ([wanted] if wanted else likely) if x in scores][:1]
    if not (wanted or names):
        names = [x for x in scores if len(scores) == 1 or not OF_FORM.search(x.lower())]
    if len(names) == 1:
        if not wanted and len(scores) > 1:
            source.notes.add("taken", repr(names[0]))
        return scores[names[0]]
    # Grading needs no reward, and one that the user has named need not be found.
    if not wanted and (not options.needs_reward or "reward" in options.fields):
        return None
    raise InputError(
        f"{where}: correctness is {wanted!r}; expected the reward function that says whether a "
        "rollout is correct (--correctness on the command line), one of "
        f"{quoted(scores) or 'none here'}"
    )


def step_of(path: Path) -> int | None:
    """The step that the name of a file, or else of a folder above it, tells; None where none."""
    matches = map(STEP.search, (path.name, *(folder.name for folder in list(path.parents)[:3])))
    return next((int(match[1]) for match in matches if match), None)
