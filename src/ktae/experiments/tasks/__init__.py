"""The tasks that a recipe can train on."""

from __future__ import annotations

from ktae.experiments.recipe import Problems, ReasoningGym, Recipe
from ktae.experiments.tasks.base import Task, TaskRow
from ktae.experiments.tasks.demo import DemoTask
from ktae.experiments.tasks.gym import GymTask
from ktae.experiments.tasks.sources import ProblemsTask


def task_of(recipe: Recipe) -> Task:
    """The recipe's task."""
    match recipe.task:
        case ReasoningGym() as task:
            return GymTask(recipe, task)
        case Problems() as task:
            return ProblemsTask(recipe, task)
    return DemoTask(recipe)


__all__ = ["Task", "TaskRow", "task_of"]
