"""Mathematics with reference answers, from the hub, from files or from `ktae data prepare`."""

from __future__ import annotations

import os
from pathlib import Path

from typing_extensions import override

from ktae.errors import InputError
from ktae.experiments.recipe import Problems, Recipe
from ktae.experiments.tasks import sources
from ktae.experiments.tasks.base import Task, TaskRow
from ktae.experiments.templates import as_messages
from ktae.files.inputs import open_input


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
    def held_out_rows(self, n: int | None = None) -> list[TaskRow]:
        return self._rows("test", self.task.test)[: n or self.recipe.logging.eval_problems]

    def _rows(self, split: str, file: str | None) -> list[TaskRow]:
        if file is None:
            problems = sources.load(self.task.source)[split].problems
        else:
            problems = sources.load_file(Path(os.path.expanduser(file))).problems
        return [as_row(problem, self.task.instruction) for problem in problems]


class PreparedTask(Task):
    """`task: math`, with the folder `data` that `ktae data prepare` wrote."""

    is_made = False

    def file(self, engine: str, split: str) -> Path:
        """The file of a split for an engine, `trl` or `verl`."""
        return Path(os.path.expanduser(self.recipe.data or "")) / engine / f"{split}.parquet"

    @override
    def train_rows(self) -> list[TaskRow]:
        return self._rows("train")

    @override
    def held_out_rows(self, n: int | None = None) -> list[TaskRow]:
        return self._rows("test")[: n or self.recipe.logging.eval_problems]

    def _rows(self, split: str) -> list[TaskRow]:
        import pyarrow.parquet as pq

        file = self.file("trl", split)
        if not file.is_file():
            raise InputError(f"{file} does not exist; `ktae data prepare` writes it")
        with open_input(file) as stream:
            table = pq.read_table(stream)
        if missing := {"prompt", "answer"} - set(table.column_names):
            raise InputError(f"{file} has no column {min(missing)}, which `ktae data prepare` adds")
        rows = table.select(["prompt", "answer"]).to_pylist()
        return [TaskRow(row["prompt"], row["answer"], row["answer"]) for row in rows]
