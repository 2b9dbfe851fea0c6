"""Tasks of reasoning-gym: problems made by a program, and a score for each answer.

A recipe names one: `task: {source: reasoning-gym, name: chain_sum, settings: {max_terms: 2}}`. The
same settings and seed give the same problems, so a reference is a few numbers and no data.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from ktae.errors import InputError, expected_one_of, one_line
from ktae.experiments.tasks.base import Task, TaskRow
from ktae.experiments.tasks.problems import as_row
from ktae.experiments.tasks.sources import TaskProblem
from ktae.grading.extract import extract
from ktae.grading.response import text_of
from ktae.grading.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from ktae.experiments.recipe import ReasoningGym, Recipe

NAME = "reasoning-gym"
"""The source, and the name of its scorers as a grader."""

HELD_OUT_SEED = 1_000_003
"""The seed of the test problems."""
SEEDS_APART = 10_000_019
"""Between the seeds of two runs: reasoning-gym makes problem i of a seed from seed + i."""
PROBES = ("", "x", "I do not know.")
"""Answers that no problem has."""

REFUSED = (
    *("binary_matrix", "countdown", "intermediate_integration", "n_queens"),
    *("polynomial_multiplication", "puzzle24", "simple_integration", "spiral_matrix"),
    *("string_insertion", "codeio", "composite"),
)
"""Tasks whose scorers evaluate the response as Python code, which a policy could use; one that runs
programs of its data set; and one that is made of other tasks (reasoning-gym 0.1.25, read)."""


def problems(task: ReasoningGym, n: int, seed: int) -> list[TaskProblem]:
    """The first n problems of a seed, the same each time.

    Raises:
        InputError: reasoning-gym is not installed, has no such task or setting, or the task is
            refused.
    """
    reference: dict[str, Any] = {"name": task.name, "settings": task.settings}
    reference |= {"answer": task.answer, "seed": seed, "size": n}
    dataset = _dataset(json.dumps(reference, sort_keys=True))
    _check_scorer(task.name, dataset)
    # The same numbers make the same problem again, in any process: no text has to be kept.
    entries = [dataset[index] for index in range(n)]
    return [
        TaskProblem(
            str(entry["question"]), str(entry["answer"]), json.dumps(reference | {"index": index})
        )
        for index, entry in enumerate(entries)
    ]


def held_out(task: ReasoningGym, n: int, seen: Collection[str]) -> list[TaskProblem]:
    """The first n problems of the test seed that are distinct and not among `seen`.

    Fewer, if fewer are found among 64 n problems: a task may have few.

    Raises:
        InputError: as `problems`; or there is none.
    """
    unseen: dict[str, TaskProblem] = {}
    size = n
    # Some tasks have few problems, so draws repeat: look among twice as many each time.
    while len(unseen) < n and size <= 64 * n:
        size *= 2
        unseen = {p.text: p for p in problems(task, size, HELD_OUT_SEED) if p.text not in seen}
    if not unseen:
        raise InputError(
            f"all problems of reasoning-gym's task {task.name} are trained on; expected settings "
            "with more problems"
        )
    return list(unseen.values())[:n]


def answer_in(response: str, reference: str) -> str | None:
    """What of a response is scored; None where there is no answer in it."""
    how = json.loads(reference)["answer"]
    if how == "whole":
        return response.strip() or None
    # "1,234" is one number; the scorers of reasoning-gym read no commas.
    answer = extract(response, "last" if how == "last-number" else "stated")
    if answer is None:
        return None
    return re.sub(r"(?<=\d),(?=\d{3})", "", answer.text) if how == "last-number" else answer.text


def _scored(dataset: Any, answer: str, entry: Any) -> float:
    """What a scorer cannot read, and says so by a ValueError or its like, is worth nothing.

    Raises:
        ScorerError: the scorer fails in another way, so the answer's worth is unknown.
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
    named = json.loads(reference)
    name = named["name"]
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
            name, seed=named["seed"], size=named["size"], **named["settings"]
        )
    except (AssertionError, TypeError, ValueError) as error:
        raise InputError(
            f"reasoning-gym refuses the settings {named['settings']} of {name}: {one_line(error)}"
        ) from None


def _check_scorer(name: str, dataset: Any) -> None:
    """Raise an InputError unless the scorer tells reference answers from none: one that refuses
    them would teach nothing, one that takes any text would teach anything."""
    for index in range(min(8, len(dataset))):
        entry = dataset[index]
        answer = entry["answer"]
        why = None
        if _scored(dataset, str(answer), entry) != 1:
            why = f"gives its own answer {answer!r:.60} less than 1"
        for probe in PROBES:
            if _scored(dataset, probe, entry) == 1:
                why = f"takes {probe!r} for the answer {answer!r:.60}"
        if why:
            raise InputError(f"reasoning-gym's task {name} is refused: its scorer {why}")


def graded(response: str, reference: str) -> tuple[Verdict, float | None]:
    """The verdict of a task's own scorer, correct where its score is 1; and the score, 0 without
    an answer, None where the scorer fails.

    Args:
        response: what the policy wrote, without special tokens.
        reference: a problem's `TaskProblem.reference`.
    """
    answer = answer_in(response, reference)
    if answer is None:
        return Verdict(Outcome.UNANSWERED, None, "no answer was found"), 0.0
    of_problem = json.loads(reference)
    index = of_problem.pop("index")
    dataset = _dataset(json.dumps(of_problem, sort_keys=True))
    try:
        value = _scored(dataset, answer, dataset[index])
    except ScorerError as error:
        return Verdict(Outcome.UNDECIDED, answer, f"{NAME}'s scorer failed: {error}"), None
    outcome = Outcome.CORRECT if value == 1 else Outcome.INCORRECT
    return Verdict(outcome, answer, f"{NAME} scores {value:g}"), value


class GymTask(Task):
    """`task: {source: reasoning-gym, name: ...}`: puzzles have a program each that scores them."""

    grader = NAME

    def __init__(self, recipe: Recipe, task: ReasoningGym) -> None:
        super().__init__(recipe)
        self.task = task

    @property
    @override
    def name(self) -> str:
        return self.task.name

    @override
    def train_rows(self) -> list[TaskRow]:
        return self._as_rows(self._train_problems())

    @override
    def held_out_rows(self, n: int | None = None) -> list[TaskRow]:
        n = self.recipe.logging.eval_problems if n is None else n
        # A problem that is trained on must not be held out, whatever its seed.
        trained = {problem.text for problem in self._train_problems()}
        return self._as_rows(held_out(self.task, n, trained))

    def _train_problems(self) -> list[TaskProblem]:
        """One problem for each prompt of the run; another seed has others."""
        n = self.recipe.steps * self.recipe.rollout.prompts_per_step
        return problems(self.task, n, self.recipe.seed * SEEDS_APART)

    def _as_rows(self, made: Sequence[TaskProblem]) -> list[TaskRow]:
        rows = [as_row(problem, self.task.instruction) for problem in made]
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
