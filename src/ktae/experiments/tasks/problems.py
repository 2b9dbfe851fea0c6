"""Mathematics with reference answers, from the hub or from files."""

from __future__ import annotations

from typing_extensions import override

from ktae.experiments.recipe import Problems, Recipe
from ktae.experiments.tasks import sources
from ktae.experiments.tasks.base import Task, TaskRow
from ktae.experiments.templates import as_messages


def as_row(problem: sources.Problem, instruction: str | None) -> TaskRow:
    """The problem as messages, after the instruction if there is one."""
    (answer,) = problem.answers
    return TaskRow(as_messages(problem.text, instruction), answer, answer)


class ProblemsTask(Task):
    """`task: {source: ...}`: a data set of the hub, or files."""

    def __init__(self, recipe: Recipe, task: Problems) -> None:
        super().__init__(recipe)
        self.task = task
        if task.source in sources.SOURCES:
            self.data_source = task.source

    @override
    def train_rows(self) -> list[TaskRow]:
        return self._rows("train", self.task.train)

    @override
    def held_out_rows(self) -> list[TaskRow]:
        return self._rows("test", self.task.test)[: self.recipe.logging.eval_problems]

    def _rows(self, split: str, file: str | None) -> list[TaskRow]:
        read = sources.load_file(file) if file else sources.load(self.task.source)[split]
        return [as_row(problem, self.task.instruction) for problem in read.problems]
