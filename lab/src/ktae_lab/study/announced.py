"""What a study announced before its first run, and what of it has changed since."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pydantic

from ktae_lab.study.cells import Cell, recipe_digests, recipe_place
from ktae_lab.study.matrix import Matrix, Outcome


class Comparison(NamedTuple):
    """One difference on one task."""

    treatment: str
    baseline: str
    outcome: str
    task: str
    """Empty where the matrix has no tasks."""


class Announced(pydantic.BaseModel):
    """The comparisons as they were before the first run."""

    date: str
    confirmatory: list[tuple[str, str, str]]
    """Treatment, baseline, outcome."""
    matrix: Matrix | None = None
    """The matrix as it was then; None: announced before it was kept."""
    recipes: dict[str, str] | None = None
    """`recipe_digests` of its cells then: the matrix has but the recipes' paths. None: announced
    before they were kept."""

    @classmethod
    def of(cls, matrix: Matrix, cells: Iterable[Cell]) -> Announced:
        """What the matrix announces, now; `cells` are all of it."""
        return cls(
            date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            confirmatory=[
                (contrast.treatment, contrast.baseline, outcome)
                for contrast in matrix.contrasts
                if contrast.kind == "confirmatory"
                for outcome in contrast.outcomes
            ],
            matrix=matrix,
            recipes=recipe_digests(cells),
        )

    def why_exploratory(
        self, matrix: Matrix, recipes: Mapping[str, str] | None, one: Comparison
    ) -> str:
        """Why a comparison is not confirmatory, whatever the matrix says now; empty: it is.

        A comparison stays confirmatory only where the matrix and its recipes say of it what they
        said then: seeds, base models, the two methods' recipes with all overrides, the outcome's
        definition. Not covered is what they only name (a model's or data's folder) and the code:
        `trained_by.json` has the commits that trained.

        Args:
            matrix: as it is now.
            recipes: `recipe_digests` of its cells now. None: what the methods train is not looked
                at, since results are read for longer than a version's recipes have the same keys.
            one: the comparison.
        """
        if one[:3] not in self.confirmatory:
            return "not announced as confirmatory before the first run"
        if self.matrix is None:
            return ""
        then = self.matrix
        if one.task not in _tasks(then):
            return "announced without this task"
        pairs: dict[str, tuple[object, object]] = {
            "seeds": (then.seeds, matrix.seeds),
            "base_models": (then.base_models, matrix.base_models),
            f"outcomes.{one.outcome}": (
                _measured(then.all_outcomes[one.outcome]),
                _measured(matrix.all_outcomes[one.outcome]),
            ),
        }
        if recipes is not None:
            pairs |= self._trained(then, matrix, recipes, one)
        changed = [name for name, (before, now) in pairs.items() if before != now]
        return f"changed since the announcement: {', '.join(changed)}" if changed else ""

    def _trained(
        self, then: Matrix, matrix: Matrix, recipes: Mapping[str, str], one: Comparison
    ) -> dict[str, tuple[object, object]]:
        """What decides on what the two methods train, then and now.

        The digests have all overrides in them, and not where a recipe's file lies: it may move.
        Announced before digests were kept, the matrix alone can tell.
        """
        names = (one.treatment, one.baseline)
        if self.recipes is not None:
            places = [recipe_place(one.task, name) for name in names]
            return {
                f"the recipe of {place}": (self.recipes.get(place), recipes.get(place))
                for place in places
            }
        return {
            "overrides": (then.overrides, matrix.overrides),
            f"tasks.{one.task}": (then.tasks.get(one.task), matrix.tasks.get(one.task)),
            **{f"methods.{name}": (then.methods[name], matrix.methods[name]) for name in names},
        }

    def comparisons(self, matrix: Matrix) -> list[Comparison]:
        """All that were announced as confirmatory; `matrix` has the tasks where none were kept."""
        tasks = _tasks(self.matrix or matrix)
        return [Comparison(*triple, task) for triple in self.confirmatory for task in tasks]


def _measured(outcome: Outcome) -> Outcome:
    """Without what figures call it."""
    return outcome.model_copy(update={"label": None})


def _tasks(matrix: Matrix) -> list[str]:
    return list(matrix.tasks) or [""]
