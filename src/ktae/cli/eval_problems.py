"""What `ktae eval` asks a model: benchmarks, or the held-out problems of a recipe's task."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ktae.errors import InputError

if TYPE_CHECKING:
    from ktae.evaluation.benchmarks import BenchmarkProblem
    from ktae.evaluation.outputs import Output
    from ktae.grading import Verdict

OwnVerdicts = Callable[["Sequence[Output]"], "list[Verdict]"]

OF_RECIPE = "recipe"
"""Stands for a template where the prompts are a recipe's."""
MAX_NEW_TOKENS = 3000
"""As in the paper's evaluation."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """The problems, and what comes with them."""

    load: Callable[[], list[BenchmarkProblem]]
    max_new_tokens: int = MAX_NEW_TOKENS
    template: str = "chat"
    """Where none is asked for."""
    own_verdicts: OwnVerdicts | None = None
    """Of a task that grades itself."""


def of_benchmarks(names: Sequence[str] | None, data: Path | None) -> Asked:
    """Benchmarks by name, by default the paper's five."""
    from ktae.evaluation import benchmarks

    return Asked(
        lambda: [p for name in names or benchmarks.PAPER for p in benchmarks.load(name, data)]
    )


def of_recipe(file: Path, n: int | None, settings: Sequence[str] = ()) -> Asked:
    """The first n held-out problems of a recipe's task; `settings` replace keys of the recipe.

    Raises:
        InputError: the recipe cannot be read, or its task is the demo's.
    """
    from ktae import recipe as recipes
    from ktae.data import tasks
    from ktae.evaluation.benchmarks import BenchmarkProblem

    recipe = recipes.load(file, settings)
    if recipe.task == "demo":
        raise InputError(
            f"recipe {file}: task is demo, which `ktae train` evaluates itself; expected math or a "
            "mapping with a source"
        )
    rows = tasks.held_out_rows(recipe, n)
    name = tasks.name_of(recipe)
    problems = [
        BenchmarkProblem(name, i, row.prompt[-1]["content"], (row.answer,), row.prompt)
        for i, row in enumerate(rows)
    ]

    def own_verdicts(outputs: Sequence[Output]) -> list[Verdict]:
        references = [rows[int(output.problem)].reference for output in outputs]
        return tasks.grade(recipe, [output.response for output in outputs], references)

    return Asked(
        lambda: problems,
        recipe.rollout.max_response_length,
        OF_RECIPE,
        own_verdicts if tasks.is_gym(recipe) else None,
    )
