"""A task: problems as prompts, and what decides which responses are correct."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ktae.errors import InputError
from ktae.estimators.function import imported
from ktae.experiments.templates import Messages, as_messages, written_out
from ktae.files.atomic import atomic_write, make_folder
from ktae.grading.rewards import text_of
from ktae.grading.verdict import Outcome, Verdict
from ktae.grading.workers import Task as GradingTask
from ktae.grading.workers import default_pool

if TYPE_CHECKING:
    from ktae.experiments.recipe import Recipe


class TaskRow(NamedTuple):
    """One problem of a task."""

    prompt: str | Messages  # a text that is complete, or messages for the chat template
    answer: str
    reference: str  # what the grader gets: the answer, or as JSON what reasoning-gym's scorer needs

    @property
    def question(self) -> str:
        """The problem's text, the same under any instruction."""
        return self.prompt if isinstance(self.prompt, str) else self.prompt[-1]["content"]


class Task(ABC):
    """A recipe's problems and their grader: ktae's, unless a subclass says otherwise."""

    grader: str | None = None  # the name of the task's own grader; None: ktae's
    chat_template: str | None = None  # a chat template for verl that replaces the tokenizer's
    evaluated_at_once = 64  # batch size for held-out problems

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.name: str = recipe.task.source
        """The task's name in tables."""
        self.n_prompts = recipe.steps * recipe.rollout.prompts_per_step
        """Prompts that the run takes."""
        self.data_source = f"ktae/{recipe.task.source}"
        """verl's name for the data, by which its reward function finds the grader."""
        if recipe.reward is not None:
            own_reward(recipe.reward)  # an error now, and not after the model is loaded

    @property
    def is_graded_by_ktae(self) -> bool:
        """Whether ktae's grader compares responses with the answers."""
        return self.grader is None and self.recipe.reward is None

    @abstractmethod
    def train_rows(self) -> list[TaskRow]:
        """The problems to train on; an InputError if they cannot be made or read."""

    @abstractmethod
    def held_out_rows(self) -> list[TaskRow]:
        """The first `logging.eval_problems` held-out problems, or all if there are fewer; an
        InputError if they cannot be made or read."""

    def check_tokenizer(self, tokenizer: Any) -> None:
        """Raise an InputError for a tokenizer that does not fit the prompts."""
        written_out(as_messages("", None), tokenizer)

    def grade(
        self, responses: Sequence[Any], references: Sequence[str], finished: Sequence[bool]
    ) -> list[Verdict]:
        """Whether each response is correct.

        Args:
            responses: B texts, or B conversations whose last message counts.
            references: B values of `TaskRow.reference`.
            finished: B flags: whether the response ended by itself.
        """
        if self.recipe.reward is None:
            return self._verdicts([*map(text_of, responses)], references, finished)
        above = self.recipe.correct_above
        return [
            Verdict(Outcome.UNDECIDED, None, "no reward")
            if reward is None
            else Verdict(Outcome.CORRECT if reward > above else Outcome.INCORRECT, f"{reward:g}")
            for reward in self.rewards(responses, references, finished)
        ]

    def rewards(
        self, responses: Sequence[Any], references: Sequence[str], finished: Sequence[bool]
    ) -> list[float | None]:
        """Each response's reward: correct above `Recipe.correct_above`, None if unknown."""
        if self.recipe.reward is None:
            return [verdict.correct for verdict in self.grade(responses, references, finished)]
        function = own_reward(self.recipe.reward)
        return [function(text_of(x), y) for x, y in zip(responses, references, strict=True)]

    def _verdicts(
        self, responses: Sequence[str], references: Sequence[str], finished: Sequence[bool]
    ) -> list[Verdict]:
        return [*default_pool().grade_all(map(GradingTask, responses, references))]


def own_reward(name: str) -> Callable[[str, str], float | None]:
    """The user's reward function, `FILE.py:NAME` or `MODULE:NAME`, of a response and its answer.

    Raises:
        InputError: there is no such function; or, when called, it returns no number.
    """
    function = imported(name)
    if not callable(function):
        raise InputError(f"reward {name} is {function!r:.60}; expected a function")

    def checked(response: str, answer: str) -> float | None:
        value = function(response, answer)
        if value is not None and not isinstance(value, int | float):
            raise InputError(f"reward {name} gave {value!r:.60}; expected a number or None")
        return None if value is None else float(value)

    return checked


def write(
    splits: Mapping[str, Sequence[TaskRow]], folder: Path, *, data_source: str
) -> dict[str, int]:
    """Write `folder/verl/SPLIT.parquet` and `folder/trl/SPLIT.parquet`; return rows per split.

    verl's files have the columns `data_source`, `prompt` (messages), `ability`, `reward_model`
    (with the grader's reference as `ground_truth`) and `extra_info`; TRL's have `prompt` and
    `answer`. Both hold the same problems in the same order.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for split, rows in splits.items():
        for_trl = [{"prompt": row.prompt, "answer": row.answer} for row in rows]
        for_verl = [
            {
                "data_source": data_source,
                "prompt": as_messages(x, None) if isinstance(x := row.prompt, str) else x,
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": row.reference},
                "extra_info": {"split": split, "index": index},
            }
            for index, row in enumerate(rows)
        ]
        for engine, table in (("verl", for_verl), ("trl", for_trl)):
            make_folder(folder / engine)
            with atomic_write(folder / engine / f"{split}.parquet") as temporary:
                pq.write_table(pa.Table.from_pylist(table), temporary)
    return {split: len(rows) for split, rows in splits.items()}
