"""The problems of a recipe's task, as prompts of messages or as the files of the engines, and who
grades the responses.

For the tasks `math` and those of a mapping; the demo's problems are text of its own language.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ktae.data import gym, sources
from ktae.errors import InputError
from ktae.evaluation.templates import Messages, as_messages
from ktae.files.atomic import atomic_write, make_folder
from ktae.grading.response import text_of
from ktae.grading.rewards import verdicts
from ktae.grading.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from ktae.recipe import Recipe

GYM = "reasoning-gym"
"""The source, and the name of its scorers as a grader."""


class TaskRow(NamedTuple):
    """One problem of a task."""

    prompt: Messages
    answer: str
    reference: str
    """What the grader gets: the answer, or as JSON what reasoning-gym's scorer needs."""


def as_row(problem: sources.TaskProblem, instruction: str | None) -> TaskRow:
    """The problem after an instruction, if there is one."""
    prompt = as_messages(problem.text, instruction)
    return TaskRow(prompt, problem.answer, problem.reference or problem.answer)


def train_rows(recipe: Recipe) -> list[TaskRow]:
    """The problems to train on: of reasoning-gym one for each prompt of the run, else all.

    Raises:
        InputError: they cannot be made or read.
    """
    return _as_rows(recipe, _gym_train(recipe)) if is_gym(recipe) else _rows(recipe, "train")


def held_out_rows(recipe: Recipe, n: int | None = None) -> list[TaskRow]:
    """The first n held-out problems, by default `logging.eval_problems`; fewer if there are not so
    many. Those of reasoning-gym are distinct, and none of them is trained on.

    Raises:
        InputError: they cannot be made or read.
    """
    n = recipe.logging.eval_problems if n is None else n
    if not is_gym(recipe):
        return _rows(recipe, "test")[:n]
    task: Any = recipe.task
    # A problem that is trained on must not be held out, whatever its seed.
    seen = {problem.text for problem in _gym_train(recipe)}
    return _as_rows(recipe, gym.held_out(task, n, seen))


def is_gym(recipe: Recipe) -> bool:
    """Whether the task is one of reasoning-gym, which scores the responses itself."""
    return recipe.task_source == GYM


def name_of(recipe: Recipe) -> str:
    """What the task is called in tables: `chain_sum`, `gsm8k`."""
    return str(getattr(recipe.task, "name", recipe.task_source))


def grade(recipe: Recipe, responses: Sequence[Any], references: Sequence[str]) -> list[Verdict]:
    """Whether each response is right: reasoning-gym's score is 1, or ktae's grader says so.

    Args:
        recipe: of these tasks.
        responses: B texts, or B conversations whose last message counts.
        references: B of `TaskRow.reference`.
    """
    # Mathematics is compared as such; puzzles have a program each that scores them.
    if not is_gym(recipe):
        return verdicts(responses, references)
    pairs = zip(map(text_of, responses), references, strict=True)
    return [gym_verdict(response, reference) for response, reference in pairs]


def gym_verdict(response: str, reference: str) -> Verdict:
    """The verdict of a task's own scorer: correct where the score is 1."""
    answer = gym.answer_in(response, reference)
    if answer is None:
        return Verdict(Outcome.UNANSWERED, None, "no answer was found")
    try:
        score = gym.score(response, reference)
    except gym.ScorerError as error:
        return Verdict(Outcome.UNDECIDED, answer, f"{GYM}'s scorer failed: {error}")
    outcome = Outcome.CORRECT if score == 1 else Outcome.INCORRECT
    return Verdict(outcome, answer, f"{GYM} scores {score:g}")


def data_source(recipe: Recipe) -> str:
    """verl's name of the data, by which its reward finds the grader."""
    source = recipe.task_source
    return source if source in sources.SOURCES else f"ktae/{source}"


def write(
    splits: Mapping[str, Sequence[TaskRow]], folder: Path, *, data_source: str
) -> dict[str, int]:
    """Write `folder/verl/SPLIT.parquet` and `folder/trl/SPLIT.parquet`; rows for each split.

    verl's files have the columns `data_source`, `prompt` (messages), `ability`, `reward_model`
    (with what the grader gets as `ground_truth`) and `extra_info`; TRL's have `prompt` (messages)
    and `answer`. Both hold the same problems in the same order.

    Raises:
        InputError: the folder cannot be written to.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for split, rows in splits.items():
        # verl takes the answer from `ground_truth`, and the reward function by `data_source`.
        for_verl = [
            {
                "data_source": data_source,
                "prompt": row.prompt,
                "ability": "math",
                "reward_model": {"style": "rule", "ground_truth": row.reference},
                "extra_info": {"split": split, "index": index},
            }
            for index, row in enumerate(rows)
        ]
        for_trl = [{"prompt": row.prompt, "answer": row.answer} for row in rows]
        for engine, table in (("verl", for_verl), ("trl", for_trl)):
            make_folder(folder / engine)
            # A reader never sees half a file: verl may be waiting for it.
            with atomic_write(folder / engine / f"{split}.parquet") as temporary:
                pq.write_table(pa.Table.from_pylist(table), temporary)
    return {split: len(rows) for split, rows in splits.items()}


def prepared_file(recipe: Recipe, split: str) -> Path:
    """The file of a split that `ktae data prepare` wrote, for task `math`."""
    return Path(os.path.expanduser(recipe.data or "")) / "trl" / f"{split}.parquet"


def _gym_train(recipe: Recipe) -> list[sources.TaskProblem]:
    """One problem for each prompt of the run; another seed has others."""
    task: Any = recipe.task
    n = recipe.steps * recipe.rollout.prompts_per_step
    return gym.problems(task, n, recipe.seed * gym.SEEDS_APART)


def _rows(recipe: Recipe, split: str) -> list[TaskRow]:
    if recipe.task == "math":
        return _prepared_rows(prepared_file(recipe, split))
    task: Any = recipe.task
    file = {"train": task.train, "test": task.test}[split]
    if file is None:  # from the hub
        problems = sources.load(task.source)[split].problems
    else:
        problems = sources.load_file(Path(os.path.expanduser(file))).problems
    return _as_rows(recipe, problems)


def _as_rows(recipe: Recipe, problems: Sequence[sources.TaskProblem]) -> list[TaskRow]:
    task: Any = recipe.task
    return [as_row(problem, task.instruction) for problem in problems]


def _prepared_rows(file: Path) -> list[TaskRow]:
    import pyarrow.parquet as pq

    if not file.is_file():
        raise InputError(f"{file} does not exist; `ktae data prepare` writes it")
    table = pq.read_table(file)
    if missing := {"prompt", "answer"} - set(table.column_names):
        raise InputError(f"{file} has no column {missing.pop()}, which `ktae data prepare` writes")
    rows = table.select(["prompt", "answer"]).to_pylist()
    return [TaskRow(row["prompt"], row["answer"], row["answer"]) for row in rows]
