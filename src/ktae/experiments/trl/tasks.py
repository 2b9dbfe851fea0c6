"""A recipe's task for TRL: the data set, the reward functions, and held-out scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from datasets import Dataset

from ktae.experiments.generation import generate
from ktae.experiments.tasks import Task
from ktae.experiments.templates import written_out
from ktae.grading import Outcome


def train_set(task: Task) -> Dataset:
    """Rows with `prompt`, `answer` and `reference`."""
    return Dataset.from_list([row._asdict() for row in task.train_rows()])


def reward_function(task: Task, tokenizer: Any) -> Callable[..., list[float | None]]:
    """TRL's reward function: correct above `Recipe.correct_above`, None if unknown."""

    def correct(
        completions: list[Any],
        reference: list[str],
        completion_ids: list[list[int]] | None = None,
        **_: Any,
    ) -> list[float | None]:
        ids = completion_ids or [[] for _ in completions]
        finished = [row[-1:] == [getattr(tokenizer, "eos_token_id", None)] for row in ids]
        return task.rewards(completions, reference, finished)

    return correct


def held_out_scores(task: Task, model: Any, tokenizer: Any) -> dict[str, float]:
    """A model's scores on held-out problems: greedy, and sampled as in training."""
    rollout, rows = task.recipe.rollout, task.held_out_rows()
    prompts = [written_out(row.prompt, tokenizer) for row in rows]
    scores: dict[str, float] = {}
    for name, temperature in (("greedy", 0.0), ("sampled", rollout.temperature)):
        made = generate(
            model,
            tokenizer,
            prompts,
            max_new_tokens=rollout.max_response_length,
            temperature=temperature,
            batch_size=task.evaluated_at_once,
            seed=0,
        )
        verdicts = task.grade(made.texts, [row.reference for row in rows], made.finished)
        outcomes = [verdict.outcome for verdict in verdicts]
        lengths = [*map(len, made.token_ids)]
        scores[f"{name}_accuracy"] = outcomes.count(Outcome.CORRECT) / len(outcomes)
        for outcome in (Outcome.UNANSWERED, Outcome.UNDECIDED):
            scores[f"{name}_{outcome}"] = outcomes.count(outcome) / len(outcomes)
        scores[f"{name}_length"] = sum(lengths) / len(lengths)
    return scores
