"""A study as a typed file: methods × tasks × seeds × base models, and what will be compared."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import BeforeValidator, Field

from ktae.files.typed import Section, read_mapping, validated

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Overrides = dict[str, Any]

OWN_KEYS = ("name", "seed")
"""Keys of a recipe that the matrix itself sets."""
BASE_KEYS = ("model", "model.path", "model.demo_seed")
"""Those that it sets where it lists base models."""
MAX_SEEDS = 10_000


def _seeds(value: Any) -> Any:
    """`{first: 100, count: 20}` as the seeds 100 to 119."""
    if not isinstance(value, dict):
        return value
    numbers = [value.get("first"), value.get("count")]
    if set(value) != {"first", "count"} or any(type(number) is not int for number in numbers):
        raise ValueError(
            f"{value!r} is no range of seeds; expected {{first: 100, count: 20}} or a list"
        )
    if not 1 <= value["count"] <= MAX_SEEDS:
        raise ValueError(f"count is {value['count']}; expected 1 to {MAX_SEEDS:,}")
    return list(range(value["first"], value["first"] + value["count"]))


Seeds = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(_seeds)]


class Method(Section):
    """One arm of the study."""

    recipe: str
    """The recipe's path, relative to the matrix file."""

    overrides: Overrides = Field(default={})
    """Keys of the recipe (dotted) with their values, for this method alone."""


class Task(Section):
    """One thing to train on."""

    overrides: Overrides = Field(default={})
    """Keys of the recipe (dotted) that make it this task."""

    of_methods: dict[Name, Overrides] = Field(default={})
    """By method, keys that it has on this task alone, such as the learning rate that suits it. They
    win over all others."""


class BaseModels(Section):
    """The policies that runs start from, and which seed starts from which."""

    demo_seeds: Seeds = ()
    """The embedded base models of these pretraining seeds."""

    paths: tuple[str, ...] = ()
    """Or folders and hub names. As in a recipe, a folder is relative to where the command runs: the
    matrix cannot tell it from a hub name."""

    pairing: Literal["crossed", "cycled"]
    """`crossed`: every seed on every base model. `cycled`: the first seed on the first model, the
    second on the second, and from the start again."""

    @pydantic.model_validator(mode="after")
    def _one_kind(self) -> BaseModels:
        if bool(self.demo_seeds) == bool(self.paths):
            raise ValueError("expected either demo_seeds or paths, with at least one entry")
        if "demo" in self.paths:
            raise ValueError("paths has 'demo'; use demo_seeds: [0] for embedded base models")
        _no_twice("base model", [*self.demo_seeds, *self.paths])
        return self

    def overrides(self) -> list[Overrides]:
        """What sets each of them in a recipe."""
        demo = [{"model.path": "demo", "model.demo_seed": seed} for seed in self.demo_seeds]
        return demo or [{"model.path": path} for path in self.paths]


class Outcome(Section):
    """One number of a run, from its summary or from its curve."""

    summary: str | None = None
    """A key of `summary.json`, dotted: `after.sampled_accuracy`, `seconds_per_step`."""

    curve: str | None = None
    """A curve to average over the run: `accuracy`, `length`, `entropy`, or a key of a line of
    `metrics.jsonl`."""

    last: Annotated[int, Field(gt=0)] | None = None
    """Average the curve over its last so many steps only."""

    label: str | None = None
    """The name on figures."""

    @pydantic.model_validator(mode="after")
    def _one_source(self) -> Outcome:
        if (self.summary is None) == (self.curve is None):
            raise ValueError("expected either summary or curve")
        if self.last is not None and self.curve is None:
            raise ValueError(f"last is {self.last}, which averages a curve; there is none")
        return self


OUTCOMES = {
    "sampled_accuracy": Outcome(summary="after.sampled_accuracy", label="final sampled accuracy"),
    "greedy_accuracy": Outcome(summary="after.greedy_accuracy", label="final greedy accuracy"),
    "length": Outcome(summary="after.sampled_length", label="final length, tokens"),
    "entropy": Outcome(summary="after.entropy", label="final entropy, nats a token"),
    "validated_accuracy": Outcome(
        summary="validated.accuracy", label="accuracy at the best temperature"
    ),
    "mean_accuracy": Outcome(curve="accuracy", label="mean accuracy over the run"),
    "last_accuracy": Outcome(curve="accuracy", last=15, label="accuracy, last 15 steps"),
    "mean_length": Outcome(curve="length", label="mean length over the run, tokens"),
    "mean_entropy": Outcome(curve="entropy", label="mean entropy over the run, nats a token"),
}
"""Known without being written down; a matrix may replace them and add others."""


class Contrast(Section):
    """A comparison of two methods, announced before the runs."""

    treatment: str
    """The method whose outcome the difference is positive for."""

    baseline: str
    """The method that is subtracted."""

    outcomes: Annotated[tuple[str, ...], Field(min_length=1)] = ("sampled_accuracy",)
    """What is compared."""

    kind: Literal["confirmatory", "exploratory"]
    """`confirmatory`: the hypothesis was there before these seeds were run; its seeds must be none
    of `explored_seeds`. Each kind is one family of Holm's correction."""


class Matrix(Section):
    """One study."""

    name: Name
    """The study's name: letters, digits, `.`, `_`, `-`."""

    methods: Annotated[dict[Name, Method], Field(min_length=1)]
    """The arms, by name."""

    overrides: Overrides = Field(default={})
    """Keys of the recipe (dotted) for every run. A task's win over these, a method's over both."""

    seeds: Annotated[Seeds, Field(min_length=1)]
    """A list, or `{first: 100, count: 20}`. Runs of one seed are paired."""

    explored_seeds: Seeds = ()
    """Seeds on which the hypotheses were found."""

    base_models: BaseModels | None = None
    """Null: the base model that each recipe names."""

    tasks: dict[Name, Task] = Field(default={})
    """Every method runs on each; none: what the recipes say."""

    groups: dict[Name, tuple[str, ...]] = Field(default={})
    """Methods that share a figure; none: all of them in one."""

    outcomes: dict[Name, Outcome] = Field(default={})
    """Outcomes besides the built-in ones, or in their place."""

    contrasts: tuple[Contrast, ...] = ()
    """Announced comparisons."""

    @pydantic.model_validator(mode="after")
    def _names_exist(self) -> Matrix:
        _no_twice("seed", self.seeds)
        for group, methods in self.groups.items():
            _known(f"groups.{group}", methods, self.methods, "method")
        for name, task in self.tasks.items():
            _known(f"tasks.{name}.of_methods", task.of_methods, self.methods, "method")
        for i, contrast in enumerate(self.contrasts):
            where = f"contrasts.{i}"
            _known(where, (contrast.treatment, contrast.baseline), self.methods, "method")
            _known(where, contrast.outcomes, self.all_outcomes, "outcome")
            if contrast.treatment == contrast.baseline:
                raise ValueError(f"{where} compares {contrast.baseline} with itself")
        triples = [(c.treatment, c.baseline, o) for c in self.contrasts for o in c.outcomes]
        _no_twice("contrast", [" ".join(triple) for triple in triples])
        return self

    @pydantic.model_validator(mode="after")
    def _confirmed_on_fresh_seeds(self) -> Matrix:
        used = sorted(set(self.seeds) & set(self.explored_seeds))
        if used and any(contrast.kind == "confirmatory" for contrast in self.contrasts):
            raise ValueError(
                f"{len(used)} of the seeds are explored_seeds, such as {used[0]}; confirmatory "
                "contrasts need fresh ones (or call them exploratory)"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _keys_are_free(self) -> Matrix:
        taken = OWN_KEYS + (BASE_KEYS if self.base_models else ())
        sections = {"overrides": self.overrides}
        sections |= {f"methods.{name}": method.overrides for name, method in self.methods.items()}
        for name, task in self.tasks.items():
            of_methods = {f"tasks.{name}.of_methods.{m}": x for m, x in task.of_methods.items()}
            sections |= {f"tasks.{name}": task.overrides, **of_methods}
        for where, overrides in sections.items():
            for key in overrides:
                if key in taken:
                    raise ValueError(
                        f"{where} sets {key}, which the matrix sets itself: see methods, seeds and "
                        "base_models"
                    )
        return self

    @property
    def all_outcomes(self) -> dict[str, Outcome]:
        """The built-in ones and the matrix's own."""
        return OUTCOMES | self.outcomes

    @property
    def compares_validated(self) -> bool:
        """Whether a contrast needs what was measured of the final models, after the runs."""
        asked = [self.all_outcomes[name] for one in self.contrasts for name in one.outcomes]
        return any((outcome.summary or "").startswith("validated.") for outcome in asked)

    @property
    def figure_groups(self) -> dict[str, tuple[str, ...]]:
        """`groups`, or all methods in one that is named as the study."""
        return self.groups or {self.name: tuple(self.methods)}


def load(path: str | Path) -> Matrix:
    """Read a matrix from YAML.

    Raises:
        InputError: no such file, broken YAML, an unknown key or name (the nearest known one is
            named), a value out of range. Recipes are not read yet: `cells.expand` does.
    """
    path = Path(path)
    return validated(Matrix, read_mapping(path, "matrix"), f"matrix {path}")


def _known(where: str, names: Iterable[str], known: Iterable[str], what: str) -> None:
    known = list(known)
    for name in names:
        if name not in known:
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(known)}"
            raise ValueError(f"{where} names no {what}: {name!r}; {hint}")


def _no_twice(what: str, items: Iterable[Any]) -> None:
    seen = set()
    for item in items:
        if item in seen:
            raise ValueError(f"the {what} {item!r} is there twice")
        seen.add(item)
