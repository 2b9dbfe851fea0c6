"""Where prompts, answers and the reward come from, for each task a recipe can name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from datasets import Dataset

from ktae.recipe import Recipe


@dataclasses.dataclass(frozen=True)
class Task:
    """A task as TRL needs it."""

    train_set: Callable[[Recipe], Dataset]
    """Rows with `prompt` and `answer`, one for every prompt of the run."""
    reward: Callable[..., list[float | None]]
    """TRL's reward function; above 0 is correct, None is unknown."""
    evaluate: Callable[[Any, Any, Recipe], dict[str, float]]
    """Held-out scores of a model and its tokenizer."""


def _demo_train_set(recipe: Recipe) -> Dataset:
    from ktae.demo import train_problems

    problems = train_problems(recipe.steps * recipe.rollout.prompts_per_step, seed=recipe.seed)
    return Dataset.from_list([{"prompt": p.prompt, "answer": p.answer} for p in problems])


def demo_reward(
    completions: list[str], completion_ids: list[list[int]], answer: list[int], **_: Any
) -> list[float | None]:
    """1.0 where the last box is right and the response ended by itself, else 0.0."""
    from ktae.demo import is_correct
    from ktae.demo.language import EOS, VOCABULARY

    return [
        float(is_correct(text, expected, finished=bool(ids) and ids[-1] == VOCABULARY.index(EOS)))
        for text, ids, expected in zip(completions, completion_ids, answer, strict=True)
    ]


def _demo_evaluate(model: Any, tokenizer: Any, recipe: Recipe) -> dict[str, float]:
    from ktae.demo import test_problems
    from ktae.demo.evaluate import evaluate

    problems = test_problems(recipe.logging.eval_problems)
    length = recipe.rollout.max_response_length
    return evaluate(model, tokenizer, problems, seed=0, max_new_tokens=length)._asdict()


TASKS = {"demo": Task(_demo_train_set, demo_reward, _demo_evaluate)}
