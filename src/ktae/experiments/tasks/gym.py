"""Tasks of reasoning-gym: problems made by a program, and a score for each answer.

A recipe names one: `task: {source: reasoning-gym, name: chain_sum, settings: {max_terms: 2}}`. The
same settings and seed give the same problems, so a reference is a few numbers and no data.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from ktae.errors import InputError, passed_on
from ktae.experiments.recipe import ReasoningGym, Recipe
from ktae.experiments.tasks.base import Task, TaskRow
from ktae.experiments.templates import as_messages
from ktae.grading.extract import extract
from ktae.grading.verdict import Outcome, Verdict

NAME = "reasoning-gym"
"""The source, and the name of its scorers as a grader."""
HELD_OUT_SEED = 1_000_003
SEEDS_APART = 10_000_019
"""The distance between the seeds of two runs: reasoning-gym makes problem i from seed + i."""

REFUSED = (
    *("binary_matrix", "countdown", "intermediate_integration", "n_queens"),
    *("polynomial_multiplication", "puzzle24", "simple_integration", "spiral_matrix"),
    *("string_insertion", "codeio", "composite"),
)
"""Tasks whose scorers evaluate the response as Python code, which a policy could exploit; one that
runs programs of its data set; and one made of other tasks (reasoning-gym 0.1.25, read)."""


def problems(task: ReasoningGym, n: int, seed: int) -> list[TaskRow]:
    """The first n problems of a seed, the same each time."""
    reference: dict[str, Any] = {"name": task.name, "settings": task.settings}
    reference |= {"answer": task.answer, "seed": seed, "size": n}
    dataset = _dataset(json.dumps(reference, sort_keys=True))
    return [
        TaskRow(
            as_messages(str(entry["question"]), task.instruction),
            str(entry["answer"]),
            json.dumps(reference | {"index": index}),
        )
        for index, entry in enumerate(dataset[i] for i in range(n))
    ]


def answer_in(response: str, how: str) -> str | None:
    """The part of a response that is scored, as `ReasoningGym.answer` says; None: no answer."""
    if how == "whole":
        return response.strip() or None
    answer = extract(response, "last" if how == "last-number" else "stated")
    if answer is None or how == "stated":
        return answer and answer.text
    # "1,234" is one number; the scorers of reasoning-gym read no commas.
    return re.sub(r"(?<=\d),(?=\d{3})", "", answer.text)


@functools.lru_cache(maxsize=8)
def _dataset(reference: str) -> Any:
    """The data set of a name, settings, seed and size."""
    fields = json.loads(reference)
    name, settings = fields["name"], fields["settings"]
    if name in REFUSED:
        raise InputError(f"reasoning-gym's task {name} is refused: it could run a policy's code")
    with passed_on("task source reasoning-gym", install="pip install 'ktae[gym]'"):
        import reasoning_gym
    with passed_on(f"task {name} of reasoning-gym", AssertionError, TypeError, ValueError):
        return reasoning_gym.create_dataset(
            name, seed=fields["seed"], size=fields["size"], **settings
        )


def grade(response: str, reference: str) -> Verdict:
    """The verdict of a task's own scorer: correct where its score is 1. An answer that makes it
    fail is incorrect.

    Args:
        response: what the policy wrote, without special tokens.
        reference: `TaskRow.reference` of a problem.
    """
    fields = json.loads(reference)
    answer, index = answer_in(response, fields["answer"]), fields.pop("index")
    if answer is None:
        return Verdict(Outcome.UNANSWERED, None, "no answer was found")
    dataset = _dataset(json.dumps(fields, sort_keys=True))
    try:
        value = float(dataset.score_answer(answer, dataset[index]))
    except Exception:  # of a scorer that cannot read the answer
        value = 0.0
    outcome = Outcome.CORRECT if value == 1 else Outcome.INCORRECT
    return Verdict(outcome, answer, f"{NAME} scores {value:g}")


class GymTask(Task):
    """`task: {source: reasoning-gym, name: ...}`: puzzles with a program each that scores them."""

    grader = NAME

    def __init__(self, recipe: Recipe, task: ReasoningGym) -> None:
        super().__init__(recipe)
        self.task = task
        self.name = task.name

    @override
    def train_rows(self) -> list[TaskRow]:
        """One problem for each prompt of the run; another seed has others."""
        return self._rows(problems(self.task, self.n_prompts, self.recipe.seed * SEEDS_APART))

    @override
    def held_out_rows(self) -> list[TaskRow]:
        """Distinct problems of the test seed that are not trained on; a task may have few."""
        n = self.recipe.logging.eval_problems
        trained = {row.question for row in self.train_rows()}
        distinct = {row.question: row for row in problems(self.task, 8 * n, HELD_OUT_SEED)}
        unseen = [row for question, row in distinct.items() if question not in trained]
        if not unseen:
            raise InputError(
                f"all problems of reasoning-gym's task {self.name} are trained on; expected "
                "settings with more problems"
            )
        return self._rows(unseen[:n])

    def _rows(self, rows: list[TaskRow]) -> list[TaskRow]:
        # A reward function of the user's own gets the answer.
        return [row._replace(reference=row.answer) for row in rows] if self.recipe.reward else rows

    @override
    def _verdicts(
        self, responses: Sequence[str], references: Sequence[str], finished: Sequence[bool]
    ) -> list[Verdict]:
        return [*map(grade, responses, references)]
