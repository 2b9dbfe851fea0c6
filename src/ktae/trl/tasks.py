"""Where prompts, answers and the reward come from, for each task a recipe can name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from datasets import Dataset

from ktae.demo import is_correct, test_problems, train_problems
from ktae.demo.evaluate import evaluate
from ktae.demo.language import EOS, VOCABULARY
from ktae.errors import InputError
from ktae.recipe import Recipe

RewardFunction = Callable[..., list[float | None]]


@dataclasses.dataclass(frozen=True)
class Task:
    """A task as TRL needs it."""

    check: Callable[[Any], None]
    """Raises an InputError for a tokenizer that does not fit the task."""
    train_set: Callable[[Recipe], Dataset]
    """Rows with `prompt` and `answer`, one for every prompt of the run."""
    reward: Callable[[Any], RewardFunction]
    """From the tokenizer to TRL's reward function; above 0 is correct, None is unknown."""
    evaluate: Callable[[Any, Any, Recipe], dict[str, float]]
    """Held-out scores of a model and its tokenizer."""


def _demo_check(tokenizer: Any) -> None:
    missing = sorted(set(VOCABULARY) - tokenizer.get_vocab().keys())
    if missing or tokenizer.eos_token != EOS:
        raise InputError(
            f"task demo needs a tokenizer of its {len(VOCABULARY)} words that ends with {EOS}; "
            f"this one ends with {tokenizer.eos_token} and lacks {' '.join(missing[:5]) or 'none'}"
        )


def _demo_train_set(recipe: Recipe) -> Dataset:
    problems = train_problems(recipe.steps * recipe.rollout.prompts_per_step, seed=recipe.seed)
    return Dataset.from_list([{"prompt": p.prompt, "answer": p.answer} for p in problems])


def _demo_reward(tokenizer: Any) -> RewardFunction:
    def correct(
        completions: list[str], completion_ids: list[list[int]], answer: list[int], **_: Any
    ) -> list[float | None]:
        """1.0 where the last box is right and the response ended by itself, else 0.0."""
        return [
            float(is_correct(text, expected, finished=ids[-1:] == [tokenizer.eos_token_id]))
            for text, ids, expected in zip(completions, completion_ids, answer, strict=True)
        ]

    return correct


def _demo_evaluate(model: Any, tokenizer: Any, recipe: Recipe) -> dict[str, float]:
    problems = test_problems(recipe.logging.eval_problems)
    length = recipe.rollout.max_response_length
    return evaluate(model, tokenizer, problems, seed=0, max_new_tokens=length)._asdict()


TASKS = {"demo": Task(_demo_check, _demo_train_set, _demo_reward, _demo_evaluate)}
