"""Tasks of reasoning-gym: problems made by a program, and a score for each answer.

A recipe names one: `task: {source: reasoning-gym, name: chain_sum, settings: {max_terms: 2}}`. The
same settings and seed give the same problems, so a reference is a few numbers and no data.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from typing_extensions import override

from ktae.errors import InputError, expected_one_of, one_line
from ktae.experiments.recipe import ReasoningGym, Recipe
from ktae.experiments.tasks.base import Task, TaskRow
from ktae.experiments.templates import as_messages
from ktae.grading.extract import extract
from ktae.grading.response import text_of
from ktae.grading.verdict import Outcome, Verdict

NAME = "reasoning-gym"
"""The source, and the name of its scorers as a grader."""
HELD_OUT_SEED = 1_000_003
"""The seed of the test problems."""
SEEDS_APART = 10_000_019
"""The distance between the seeds of two runs: reasoning-gym makes problem i from seed + i."""
PROBES = ("", "x", "I do not know.")
"""Answers that are correct for no problem."""

REFUSED = (
    *("binary_matrix", "countdown", "intermediate_integration", "n_queens"),
    *("polynomial_multiplication", "puzzle24", "simple_integration", "spiral_matrix"),
    *("string_insertion", "codeio", "composite"),
)
"""Tasks whose scorers evaluate the response as Python code, which a policy could exploit; one that
runs programs of its data set; and one made of other tasks (reasoning-gym 0.1.25, read)."""


def problems(task: ReasoningGym, n: int, seed: int) -> list[TaskRow]:
    """The first n problems of a seed, the same each time.

    Raises:
        InputError: reasoning-gym is not installed, has no such task or setting, or the task is
            refused.
    """
    reference: dict[str, Any] = {"name": task.name, "settings": task.settings}
    reference |= {"answer": task.answer, "seed": seed, "size": n}
    dataset = _dataset(json.dumps(reference, sort_keys=True))
    _check_scorer(task.name, dataset)
    return [
        TaskRow(
            as_messages(str(entry["question"]), task.instruction),
            str(entry["answer"]),
            json.dumps(reference | {"index": index}),
        )
        for index, entry in enumerate(dataset[i] for i in range(n))
    ]


def question_of(row: TaskRow) -> str:
    """The problem's text, the same under any instruction."""
    return row.prompt if isinstance(row.prompt, str) else row.prompt[-1]["content"]


def held_out(task: ReasoningGym, n: int, seen: Collection[str]) -> list[TaskRow]:
    """The first n distinct problems of the test seed whose question is not among `seen`.

    Fewer, if 64 n problems do not hold as many: a task may have few.

    Raises:
        InputError: as `problems`; or there is none.
    """
    unseen: dict[str, TaskRow] = {}
    size = n
    while len(unseen) < n and size <= 64 * n:
        size *= 2
        rows = {question_of(row): row for row in problems(task, size, HELD_OUT_SEED)}
        unseen = {question: row for question, row in rows.items() if question not in seen}
    if not unseen:
        raise InputError(
            f"all problems of reasoning-gym's task {task.name} are trained on; expected settings "
            "with more problems"
        )
    return list(unseen.values())[:n]


def answer_in(response: str, how: str) -> str | None:
    """The part of a response that is scored, as `ReasoningGym.answer` says; None: no answer."""
    if how == "whole":
        return response.strip() or None
    answer = extract(response, "last" if how == "last-number" else "stated")
    if answer is None or how == "stated":
        return answer and answer.text
    # "1,234" is one number; the scorers of reasoning-gym read no commas.
    return re.sub(r"(?<=\d),(?=\d{3})", "", answer.text)


def _scored(dataset: Any, answer: str, entry: Any) -> float:
    """The scorer's value, and 0 for an answer that it cannot read.

    Raises:
        ScorerError: the scorer fails in another way, so the score is unknown.
    """
    try:
        return float(dataset.score_answer(answer, entry))
    except (ValueError, TypeError, LookupError, ArithmeticError, SyntaxError, AttributeError):
        return 0.0
    except Exception as error:
        raise ScorerError(f"{type(error).__name__}: {one_line(error)}") from error


class ScorerError(RuntimeError):
    """A scorer of reasoning-gym failed."""


@functools.lru_cache(maxsize=8)
def _dataset(reference: str) -> Any:
    """The data set of a name, settings, seed and size."""
    fields = json.loads(reference)
    name, settings = fields["name"], fields["settings"]
    if name in REFUSED:
        raise InputError(f"reasoning-gym's task {name} is refused: it could run a policy's code")
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ModuleNotFoundError as error:
        raise InputError(
            f"task source reasoning-gym needs {error.name}, which is not installed; "
            "pip install 'ktae[gym]'"
        ) from None
    if name not in DATASETS:
        raise InputError(f"reasoning-gym has no task {name!r}; {expected_one_of(DATASETS, name)}")
    try:
        return reasoning_gym.create_dataset(
            name, seed=fields["seed"], size=fields["size"], **settings
        )
    except (AssertionError, TypeError, ValueError) as error:
        raise InputError(
            f"reasoning-gym refuses the settings {settings} of {name}: {one_line(error)}"
        ) from None


def _check_scorer(name: str, dataset: Any) -> None:
    """Refuse a scorer that rejects reference answers, or accepts any text as one."""
    for index in range(min(8, len(dataset))):
        entry = dataset[index]
        accepted = [x for x in PROBES if _scored(dataset, x, entry) == 1]
        if accepted or _scored(dataset, str(entry["answer"]), entry) != 1:
            raise InputError(
                f"reasoning-gym's task {name} is refused: its scorer "
                + (f"accepts {accepted[0]!r}" if accepted else "rejects its own answer")
                + f", where the answer is {entry['answer']!r:.60}"
            )


def graded(response: str, reference: str) -> tuple[Verdict, float | None]:
    """The verdict of a task's own scorer, correct where its score is 1, and the score: 0 without
    an answer, None where the scorer fails.

    Args:
        response: what the policy wrote, without special tokens.
        reference: `TaskRow.reference` of a problem.
    """
    fields = json.loads(reference)
    answer, index = answer_in(response, fields["answer"]), fields.pop("index")
    if answer is None:
        return Verdict(Outcome.UNANSWERED, None, "no answer was found"), 0.0
    dataset = _dataset(json.dumps(fields, sort_keys=True))
    try:
        value = _scored(dataset, answer, dataset[index])
    except ScorerError as error:
        return Verdict(Outcome.UNDECIDED, answer, f"{NAME}'s scorer failed: {error}"), None
    outcome = Outcome.CORRECT if value == 1 else Outcome.INCORRECT
    return Verdict(outcome, answer, f"{NAME} scores {value:g}"), value


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
        n = self.recipe.steps * self.recipe.rollout.prompts_per_step
        return self._rows(problems(self.task, n, self.recipe.seed * SEEDS_APART))

    @override
    def held_out_rows(self, n: int | None = None) -> list[TaskRow]:
        trained = {question_of(row) for row in self.train_rows()}
        return self._rows(held_out(self.task, n or self.recipe.logging.eval_problems, trained))

    def _rows(self, rows: list[TaskRow]) -> list[TaskRow]:
        # A reward function of the user's own gets the answer.
        return [row._replace(reference=row.answer) for row in rows] if self.recipe.reward else rows

    @override
    def _verdicts(
        self, responses: Sequence[str], references: Sequence[str], finished: Sequence[bool]
    ) -> list[Verdict]:
        return [graded(x, y)[0] for x, y in zip(responses, references, strict=True)]

    @override
    def rewards(
        self, responses: Sequence[Any], references: Sequence[str], finished: Sequence[bool]
    ) -> list[float | None]:
        if self.recipe.reward or not self.recipe.wants_scores:
            return super().rewards(responses, references, finished)
        return [graded(text_of(x), y)[1] for x, y in zip(responses, references, strict=True)]

    @override
    def _verl_reward_kwargs(self) -> dict[str, Any]:
        return {"graded": True} if self.recipe.wants_scores else {}
