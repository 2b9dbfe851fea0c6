"""The tasks that a recipe can train on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktae.experiments.tasks.base import Task, TaskRow

if TYPE_CHECKING:
    from ktae.experiments.recipe import Recipe


def task_of(recipe: Recipe) -> Task:
    """The recipe's task."""
    from ktae.experiments.recipe import Problems, ReasoningGym
    from ktae.experiments.tasks.demo import DemoTask
    from ktae.experiments.tasks.gym import GymTask
    from ktae.experiments.tasks.problems import PreparedTask, ProblemsTask

    match recipe.task:
        case ReasoningGym() as task:
            return GymTask(recipe, task)
        case Problems() as task:
            return ProblemsTask(recipe, task)
        case "math":
            return PreparedTask(recipe)
    return DemoTask(recipe)


__all__ = ["Task", "TaskRow", "task_of"]
