"""What a study announced before its first run, and what of it has changed since."""

from __future__ import annotations

import datetime
from typing import NamedTuple

import pydantic

from ktae.study.matrix import Matrix


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

    @classmethod
    def of(cls, matrix: Matrix) -> Announced:
        """What the matrix announces, now."""
        return cls(
            date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            confirmatory=[
                (contrast.treatment, contrast.baseline, outcome)
                for contrast in matrix.contrasts
                if contrast.kind == "confirmatory"
                for outcome in contrast.outcomes
            ],
            matrix=matrix,
        )

    def why_exploratory(self, matrix: Matrix, one: Comparison) -> str:
        """Why a comparison is not confirmatory, whatever the matrix says now; empty: it is.

        A comparison stays confirmatory only where everything that decides on its numbers is as
        announced: seeds, base models, settings, the two methods, the outcome's definition.
        """
        if one[:3] not in self.confirmatory:
            return "not announced as confirmatory before the first run"
        if self.matrix is None:
            return ""
        then = self.matrix
        if one.task not in _tasks(then):
            return "announced without this task"
        pairs = {
            "seeds": (then.seeds, matrix.seeds),
            "base_models": (then.base_models, matrix.base_models),
            "overrides": (then.overrides, matrix.overrides),
            f"tasks.{one.task}": (then.tasks.get(one.task), matrix.tasks.get(one.task)),
            f"outcomes.{one.outcome}": tuple(m.all_outcomes[one.outcome] for m in (then, matrix)),
        } | {
            f"methods.{name}": (then.methods[name], matrix.methods[name])
            for name in (one.treatment, one.baseline)
        }
        changed = [name for name, (before, now) in pairs.items() if before != now]
        return f"changed since the announcement: {', '.join(changed)}" if changed else ""

    def comparisons(self, matrix: Matrix) -> list[Comparison]:
        """All that were announced as confirmatory; `matrix` has the tasks where none were kept."""
        tasks = _tasks(self.matrix or matrix)
        return [Comparison(*triple, task) for triple in self.confirmatory for task in tasks]


def _tasks(matrix: Matrix) -> list[str]:
    return list(matrix.tasks) or [""]
