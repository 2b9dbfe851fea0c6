"""The runs of a matrix: one cell for each task, method, seed and base model."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from ktae import recipe as recipes
from ktae.errors import InputError
from ktae.recipe import Model, Recipe
from ktae_lab.study.matrix import Matrix, Task

KEYS = ("task", "method", "seed", "base_model")
"""Columns that tell which run a row is of, in each table of a study."""


@dataclasses.dataclass(frozen=True)
class Place:
    """A run's place in the matrix, whatever its recipe says."""

    task: str
    """Empty where the matrix names no tasks."""
    method: str
    seed: int
    base: str
    """`demo:0`, or a path; empty where the matrix lists no base models."""
    path: PurePosixPath
    """Of its run folder, within the study's."""

    @property
    def name(self) -> str:
        """As messages and tables call it."""
        return str(self.path)

    @property
    def key(self) -> tuple[str, ...]:
        """Its `KEYS`, as tables have them."""
        return (self.task, self.method, str(self.seed), self.base)


@dataclasses.dataclass(frozen=True)
class Cell(Place):
    """One run of a study."""

    recipe_file: Path
    overrides: tuple[str, ...]
    """`key=value`, as `ktae train` takes them."""
    recipe: Recipe
    """With all of that applied."""

    @property
    def digest(self) -> str:
        """Changes with any setting of the run."""
        return digest(self.recipe)

    @property
    def model_key(self) -> str:
        """The same for runs that start from the same model."""
        recipe = self.recipe
        # A demo model is pretrained on its language: another language, another model.
        language = recipe.demo.language if recipe.model.path == "demo" else None
        return json.dumps([language, recipe.model.model_dump(mode="json")])


def key_of(row: Mapping[str, str]) -> tuple[str, ...]:
    """The `KEYS` of a table's row."""
    return tuple(row[name] for name in KEYS)


def digest(recipe: Recipe) -> str:
    """The digest of the whole recipe, defaults included."""
    return _digest(recipe.model_dump(mode="json"))


def recipe_digests(cells: Iterable[Cell]) -> dict[str, str]:
    """What the cells of one method on one task train, by `METHOD` or `TASK/METHOD`.

    Seed and base model are left out, in which those cells differ. So are keys at their defaults: a
    later version of ktae may add some, and an announcement holds for longer than a version.
    """
    digests: dict[str, str] = {}
    for cell in cells:
        place = recipe_place(cell.task, cell.method)
        if place not in digests:
            digests[place] = _digest(_common(cell).model_dump(mode="json", exclude_defaults=True))
    return digests


def _common(cell: Cell) -> Recipe:
    """Its recipe with the default seed, and the default base model if the matrix lists some."""
    default = Model()
    base = {"path": default.path, "demo_seed": default.demo_seed} if cell.base else {}
    model = cell.recipe.model.model_copy(update=base)
    seed = Recipe.model_fields["seed"].default
    return cell.recipe.model_copy(update={"seed": seed, "model": model})


def recipe_place(task: str, method: str) -> str:
    """The key of `recipe_digests`."""
    return str(PurePosixPath(task) / method)


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def expand(matrix: Matrix, matrix_file: Path) -> list[Cell]:
    """All runs, seed by seed: a study that is stopped early has whole pairs of the first seeds.

    Raises:
        InputError: a recipe cannot be read, or an override does not fit it; the message names the
            matrix and the method.
    """
    return [_cell(matrix, matrix_file, place, base) for place, base in _places(matrix)]


def places(matrix: Matrix) -> list[Place]:
    """Where the runs of `expand` stand, in its order; no recipe is read."""
    return [place for place, _ in _places(matrix)]


def _places(matrix: Matrix) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    """With the overrides of their base models."""
    for i, seed in enumerate(matrix.seeds):
        for task in matrix.tasks or [""]:
            for base, overrides in _bases(matrix, i):
                for method in matrix.methods:
                    path = _path(matrix, task, method, seed, base)
                    yield Place(task, method, seed, base, path), overrides


def _path(matrix: Matrix, task: str, method: str, seed: int, base: str) -> PurePosixPath:
    within = PurePosixPath(task) / method / f"seed{seed}"
    if base and matrix.base_models is not None and matrix.base_models.pairing == "crossed":
        names = [name for name, _ in _bases(matrix, 0)]
        within = within.with_name(f"{within.name}-base{names.index(base)}")
    return within


def of_methods(cells: Sequence[Cell], methods: Sequence[str]) -> list[Cell]:
    """Those of some methods, in their order.

    Raises:
        InputError: a name is no method of the cells.
    """
    known = dict.fromkeys(cell.method for cell in cells)
    for name in methods:
        if name not in known:
            raise InputError(f"--methods names {name!r}; the matrix has {', '.join(known)}")
    return [cell for cell in cells if cell.method in methods]


def planned_units(matrix: Matrix) -> dict[int, list[str]]:
    """For each seed, the base models that it is run on."""
    return {seed: [base for base, _ in _bases(matrix, i)] for i, seed in enumerate(matrix.seeds)}


def _bases(matrix: Matrix, i: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and overrides of the base models of the i-th seed."""
    if matrix.base_models is None:
        yield "", {}
        return
    every = matrix.base_models.overrides()
    chosen = every if matrix.base_models.pairing == "crossed" else [every[i % len(every)]]
    for overrides in chosen:
        path = overrides["model.path"]
        yield (f"demo:{overrides['model.demo_seed']}" if path == "demo" else path), overrides


def _cell(
    matrix: Matrix, matrix_file: Path, place: Place, base_overrides: Mapping[str, Any]
) -> Cell:
    method = place.method
    arm = matrix.methods[method]
    recipe_file = matrix_file.parent / arm.recipe
    task = matrix.tasks[place.task] if place.task else Task()
    own = task.of_methods.get(method, {})
    merged = _merged([matrix.overrides, task.overrides, arm.overrides, own])
    overrides = _texts(merged | {"name": method, "seed": place.seed, **base_overrides})
    try:
        recipe = recipes.load(recipe_file, overrides)
    except InputError as error:
        raise InputError(f"matrix {matrix_file}, method {method}: {error}") from None
    where = (place.task, place.method, place.seed, place.base, place.path)
    return Cell(*where, recipe_file, overrides, recipe)


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


def _texts(overrides: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{key}={_as_yaml(value)}" for key, value in overrides.items())


def _as_yaml(value: Any) -> str:
    """On one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=float("inf"))
    return text.removesuffix("\n").removesuffix("\n...")
