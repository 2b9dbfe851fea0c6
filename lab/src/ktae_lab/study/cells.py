"""The runs of a matrix: one cell for each task, method and seed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from ktae import recipe as recipes
from ktae.errors import InputError
from ktae.files.typed import dump_yaml
from ktae.recipe import Model, Recipe
from ktae_lab.study.matrix import Matrix, Task

KEYS = ("task", "method", "seed", "base_model")
"""Columns that tell which run a row is of, in each table of a study."""


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run of a study."""

    task: str
    """Empty where the matrix names no tasks."""
    method: str
    seed: int
    base: str
    """`demo:0`; empty where the matrix lists no base models."""
    recipe_file: Path
    overrides: tuple[str, ...]
    """`key=value`, as `ktae train` takes them."""
    recipe: Recipe
    """With all of that applied."""

    @property
    def name(self) -> str:
        """As messages call it: the place of its run folder within the study's."""
        return str(PurePosixPath(self.task) / self.method / f"seed{self.seed}")

    @property
    def key(self) -> tuple[str, ...]:
        """Its `KEYS`, as tables have them."""
        return (self.task, self.method, str(self.seed), self.base)

    @property
    def model_key(self) -> str:
        """The same for runs that start from the same model."""
        recipe = self.recipe
        # A demo model is pretrained on its language: another language, another model.
        language = recipe.demo.language if recipe.model.path == "demo" else None
        return json.dumps([language, recipe.model.model_dump(mode="json")])


def recipe_digests(cells: Iterable[Cell]) -> dict[str, str]:
    """What the cells of one method on one task train, by `METHOD` or `TASK/METHOD`.

    Seed and base model are left out, in which those cells differ. So are keys at their defaults: a
    later version of ktae may add some, and an announcement holds for longer than a version.
    """
    default, seed = Model(), Recipe.model_fields["seed"].default
    digests: dict[str, str] = {}
    for cell in cells:
        place = str(PurePosixPath(cell.task) / cell.method)
        if place not in digests:
            base = {"path": default.path, "demo_seed": default.demo_seed} if cell.base else {}
            model = cell.recipe.model.model_copy(update=base)
            common = cell.recipe.model_copy(update={"seed": seed, "model": model})
            content = common.model_dump(mode="json", exclude_defaults=True)
            text = json.dumps(content, sort_keys=True)
            digests[place] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return digests


def expand(matrix: Matrix, matrix_file: Path) -> list[Cell]:
    """All runs, seed by seed: a study that is stopped early has whole pairs of the first seeds.

    Raises:
        InputError: a recipe cannot be read, or an override does not fit it.
    """
    bases = matrix.demo_seeds or (None,)
    return [
        _cell(matrix, matrix_file, (task, method, seed, bases[i % len(bases)]))
        for i, seed in enumerate(matrix.seeds)
        for task in matrix.tasks or [""]
        for method in matrix.methods
    ]


def _cell(matrix: Matrix, matrix_file: Path, where: tuple[str, str, int, int | None]) -> Cell:
    """The run of a task, method, seed and base model."""
    task_name, method, seed, demo_seed = where
    arm = matrix.methods[method]
    recipe_file = matrix_file.parent / arm.recipe
    task = matrix.tasks[task_name] if task_name else Task()
    of_method = task.of_methods.get(method, {})
    merged = _merged([matrix.overrides, task.overrides, arm.overrides, of_method])
    last: dict[str, Any] = {"name": method, "seed": seed}
    if demo_seed is not None:
        last |= {"model.path": "demo", "model.demo_seed": demo_seed}
    try:
        if clash := {*last, *("model" for key in last if key.startswith("model."))} & merged.keys():
            raise InputError(f"sets {min(clash)}, which the matrix sets itself")
        overrides = tuple(f"{key}={_as_yaml(value)}" for key, value in (merged | last).items())
        recipe = recipes.load(recipe_file, overrides)
    except InputError as error:
        raise InputError(f"matrix {matrix_file}, method {method}: {error}") from None
    base = "" if demo_seed is None else f"demo:{demo_seed}"
    return Cell(task_name, method, seed, base, recipe_file, overrides, recipe)


def _merged(levels: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """What each level sets, later ones over earlier ones.

    Within one a section comes before its keys, so that `credit: {...}` does not undo `credit.h3`;
    and keys that an earlier level has set do not outlive a section: `credit: null` is null.
    """
    merged: dict[str, Any] = {}
    for overrides in levels:
        for key, value in sorted(overrides.items(), key=lambda item: item[0].count(".")):
            merged = {k: v for k, v in merged.items() if not k.startswith(f"{key}.")}
            merged[key] = value
    return merged


def _as_yaml(value: Any) -> str:
    """On one line."""
    text = dump_yaml(value, default_flow_style=True, width=float("inf"))
    return text.removesuffix("\n").removesuffix("\n...")
