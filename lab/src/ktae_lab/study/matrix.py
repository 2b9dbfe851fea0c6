"""A study as a typed file: methods × tasks × seeds, and what will be compared."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic
from pydantic import BeforeValidator, Field

from ktae.errors import expected_one_of
from ktae.files.typed import Section, read_mapping, validated

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Overrides = dict[str, Any]


def _seeds(value: Any) -> Any:
    """`{first: 100, count: 20}` as the seeds 100 to 119."""
    if not isinstance(value, dict):
        return value
    if set(value) != {"first", "count"} or any(type(n) is not int for n in value.values()):
        raise ValueError(f"{value!r} is no range; expected {{first: 100, count: 20}} or a list")
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


class Outcome(Section):
    """One number of a run, from its summary or from its curve."""

    summary: str | None = None
    """A key of `summary.json`, dotted: `after.sampled_accuracy`, `seconds_per_step`."""

    curve: str | None = None
    """A curve to average over the run: `accuracy`, `length`, `entropy`, or a key of a line of
    `metrics.jsonl`."""

    last: Annotated[int, Field(gt=0)] | None = None
    """Average the curve over its last so many steps only."""

    @pydantic.model_validator(mode="after")
    def _one_source(self) -> Outcome:
        if (self.summary is None) == (self.curve is None):
            raise ValueError("expected either summary or curve")
        if self.last is not None and self.curve is None:
            raise ValueError(f"last is {self.last}, which averages a curve; there is none")
        return self


OUTCOMES = {
    "sampled_accuracy": Outcome(summary="after.sampled_accuracy"),
    "greedy_accuracy": Outcome(summary="after.greedy_accuracy"),
    "length": Outcome(summary="after.sampled_length"),
    "entropy": Outcome(summary="after.entropy"),
    "validated_accuracy": Outcome(summary="validated.accuracy"),
    "mean_accuracy": Outcome(curve="accuracy"),
    "mean_length": Outcome(curve="length"),
    "mean_entropy": Outcome(curve="entropy"),
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
    """`confirmatory`: announced before the runs. Each kind is a family of Holm's correction."""


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

    demo_seeds: Seeds = ()
    """The first seed starts from the embedded base model of the first of these pretraining seeds,
    the second from the second, and from the start again; none: from what each recipe names."""

    tasks: dict[Name, Task] = Field(default={})
    """Every method runs on each; none: what the recipes say."""

    outcomes: dict[Name, Outcome] = Field(default={})
    """Outcomes besides the built-in ones, or in their place."""

    contrasts: tuple[Contrast, ...] = ()
    """Announced comparisons."""

    @pydantic.model_validator(mode="after")
    def _names_exist(self) -> Matrix:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("a seed is there twice")
        for name, task in self.tasks.items():
            _known(f"tasks.{name}.of_methods", task.of_methods, self.methods, "method")
        for i, contrast in enumerate(self.contrasts):
            where = f"contrasts.{i}"
            _known(where, (contrast.treatment, contrast.baseline), self.methods, "method")
            _known(where, contrast.outcomes, self.all_outcomes, "outcome")
            if contrast.treatment == contrast.baseline:
                raise ValueError(f"{where} compares {contrast.baseline} with itself")
        triples = [(c.treatment, c.baseline, o) for c in self.contrasts for o in c.outcomes]
        if len(set(triples)) < len(triples):
            raise ValueError("contrasts has an outcome of two methods twice")
        return self

    @property
    def all_outcomes(self) -> dict[str, Outcome]:
        """The built-in ones and the matrix's own."""
        return OUTCOMES | self.outcomes


def load(path: str | Path) -> Matrix:
    """Read a matrix from YAML; its recipes are not read yet: `cells.expand` does.

    Raises:
        InputError: it cannot be read, or has an unknown key or name or a value out of range.
    """
    path = Path(path)
    return validated(Matrix, read_mapping(path, "matrix"), f"matrix {path}")


def _known(where: str, names: Iterable[str], known: Iterable[str], what: str) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{where} names no {what}: {name!r}; {expected_one_of(known, name)}")
