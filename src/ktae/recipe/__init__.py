"""One experiment as a typed file: what to train, on what, with which method."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import pydantic
from pydantic import Field

from ktae.errors import InputError
from ktae.estimators.transforms import require_scale
from ktae.files.typed import Section, dump_yaml, parse_yaml, read_mapping, validated
from ktae.recipe.sections import (
    Algorithm,
    Credit,
    Demo,
    Logging,
    Model,
    Optimizer,
    Positive,
    Problems,
    ReasoningGym,
    Rollout,
    Task,
    Trl,
    Verl,
)

__all__ = [
    "Algorithm",
    "Demo",
    "Logging",
    "Model",
    "Optimizer",
    "Problems",
    "ReasoningGym",
    "Recipe",
    "Rollout",
    "Trl",
    "Verl",
    "changes",
    "dotted",
    "dump",
    "flat",
    "load",
    "require_same",
]

JUST_BELOW_ONE = 1 - 2**-20
"""Also in float32."""


class Recipe(Section):
    """One experiment."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=200)]
    """The run's name: letters, digits, `.`, `_`, `-`, at most 200 characters.

    File systems take 255 bytes, and what is made of the name has ends of its own.
    """

    task: Task = "demo"
    """Where prompts, answers and the reward come from: `demo`, `math` (with `data`), or a mapping
    whose `source` is `reasoning-gym`, `gsm8k`, `math12k`, `math-l3-5` or `file`."""

    data: str | None = None
    """The folder that `ktae data prepare` wrote, for task `math`."""

    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    """Seed of sampling and data order."""

    steps: Positive
    """Training steps: batches of rollouts that are sampled."""

    demo: Demo = Demo()
    """For task `demo`."""
    model: Model = Model()
    rollout: Rollout = Rollout()
    algorithm: Algorithm = Algorithm()
    credit: Credit | None = None
    """The estimator of token credit: the name of a preset, such as `calibrated`, or a mapping with
    `estimator`, its settings and `transforms`; null trains on the rollout advantages alone."""
    optimizer: Optimizer = Optimizer()
    trl: Trl = Trl()
    verl: Verl = Verl()
    logging: Logging = Logging()

    @property
    def task_source(self) -> str:
        """`demo`, `math`, or the source of a mapping, such as `reasoning-gym`."""
        return self.task if isinstance(self.task, str) else self.task.source

    @property
    def wants_scores(self) -> bool:
        """Whether the reward is the task's own score, and not its verdict."""
        return (
            isinstance(self.task, ReasoningGym)
            and self.credit is not None
            and self.credit.score_range is not None
        )

    @property
    def correct_above(self) -> float:
        """A rollout is correct where its reward is above this: of own scores 1 alone is."""
        return JUST_BELOW_ONE if self.wants_scores else 0.0

    @pydantic.model_validator(mode="after")
    def _sections_fit(self) -> Recipe:
        """Check what no section can check alone."""
        rollouts = self.rollout.prompts_per_step * self.rollout.group_size
        if rollouts % self.algorithm.minibatches:
            raise ValueError(
                f"algorithm.minibatches is {self.algorithm.minibatches}; expected a divisor of the "
                f"{rollouts} rollouts of a step (rollout.prompts_per_step × rollout.group_size)"
            )
        scaled = self.algorithm.scale_by_std
        if self.credit is not None:
            require_scale(self.credit, scaled, f"algorithm.scale_by_std is {scaled}")
        longest = self.rollout.max_response_length
        if self.algorithm.overlong_buffer >= longest:
            raise ValueError(
                f"algorithm.overlong_buffer is {self.algorithm.overlong_buffer}; expected less "
                f"than rollout.max_response_length, which is {longest}"
            )
        if self.demo != Demo() and self.task != "demo":
            raise ValueError(
                f"demo.language is {self.demo.language} and task is {self.task_source}; only task "
                "demo has a language"
            )
        if (self.data is None) != (self.task != "math"):
            raise ValueError(
                f"task is {self.task_source} and data is {self.data!r}; task math needs the folder "
                "that `ktae data prepare` wrote, other tasks make their own problems"
            )
        return self


def load(path: str | Path, overrides: Iterable[str] = ()) -> Recipe:
    """Read a recipe from YAML and apply `key=value` overrides (dotted keys, YAML values).

    Raises:
        InputError: no such file, broken YAML, an unknown key (the nearest known one is named), a
            value out of range.
    """
    path = Path(path)
    if os.path.isdir(path):  # that of Path raises for a name that is too long
        raise InputError(
            f"recipe {path} is a folder; expected a YAML file. To continue the run in it, give its "
            "recipe, and the folder with --output and --resume"
        )
    content = read_mapping(path, "recipe")
    for override in overrides:
        _apply(content, override)
    return validated(Recipe, content, f"recipe {path}")


def dump(recipe: Recipe) -> str:
    """The whole recipe as YAML, defaults included."""
    return dump_yaml(recipe.model_dump(mode="json"))


def flat(recipe: Recipe) -> dict[str, Any]:
    """The recipe as dotted keys and values."""
    return dotted(recipe.model_dump(mode="json"))


def dotted(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Mappings in mappings as dotted keys and values; an empty one has none."""
    values: dict[str, Any] = {}
    for key, value in content.items():
        is_section = isinstance(value, dict)
        values |= dotted(value, f"{prefix}{key}.") if is_section else {prefix + key: value}
    return values


def changes(there: Recipe, here: Recipe) -> list[str]:
    """The dotted keys in which two recipes differ, each with both values, for messages."""
    old, new = flat(there), flat(here)
    return [
        f"{key} ({old.get(key)!r} there, {new.get(key)!r} here)"
        for key in sorted({*old, *new})  # a key of either: `credit: null` has none of the other's
        if old.get(key) != new.get(key)
    ]


def require_same(recipe: Recipe, file: Path) -> None:
    """Raise an InputError unless the file, of a run to resume, is there and holds this recipe."""
    if not file.exists():
        raise InputError(f"{file.parent} holds no run to resume; leave --resume out to start one")
    if changed := changes(load(file), recipe):
        raise InputError(
            f"{file} differs from the recipe given in {', '.join(changed)}; "
            "resume with the recipe that the run was started with"
        )


def _apply(content: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise InputError(f"override {override!r} has no value; expected key=value")
    value = parse_yaml(text, f"override {override!r}")
    # Sections on the way are made where they are not there yet.
    *parents, last = key.split(".")
    section = content
    for parent in parents:
        if section.get(parent) is None:  # absent, or null as in `credit: null`
            section[parent] = {}
        if parent == "credit" and isinstance(section[parent], str):  # a name, to which a key comes
            section[parent] = {"estimator": section[parent]}
        section = section[parent]
        if not isinstance(section, dict):
            raise InputError(f"override {override!r}: {parent} is a value, not a section")
    section[last] = value
