"""Where prompts, answers and the reward come from, for each task a recipe can name."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datasets import Dataset
from trl.rewards import get_soft_overlong_punishment

from ktae.data import gym
from ktae.demo import language_named
from ktae.demo.evaluate import evaluate
from ktae.demo.language import EOS
from ktae.errors import InputError
from ktae.evaluation.generation import generate
from ktae.grading import Outcome, accuracy
from ktae.grading.rewards import text_of, verdicts
from ktae.recipe import ReasoningGym, Recipe

RewardFunction = Callable[..., list[float | None]]


@dataclasses.dataclass(frozen=True)
class Task:
    """A task as TRL needs it."""

    check: Callable[[Any, Recipe], None]
    """Raises an InputError for a tokenizer that does not fit the task."""
    train_set: Callable[[Recipe], Dataset]
    """Rows with `prompt` and `answer`, one for every prompt of the run."""
    reward: Callable[[Any, Recipe], RewardFunction]
    """From the tokenizer to TRL's reward function; above 0 is correct, None is unknown."""
    evaluate: Callable[[Any, Any, Recipe], dict[str, float]]
    """Held-out scores of a model and its tokenizer."""


def _demo_check(tokenizer: Any, recipe: Recipe) -> None:
    words = language_named(recipe.demo.language).vocabulary
    missing = sorted(set(words) - tokenizer.get_vocab().keys())
    if missing or tokenizer.eos_token != EOS:
        raise InputError(
            f"task demo in the language {recipe.demo.language} needs a tokenizer of its "
            f"{len(words)} words that ends with {EOS}; "
            f"this one ends with {tokenizer.eos_token} and lacks {' '.join(missing[:5]) or 'none'}"
        )


def _demo_train_set(recipe: Recipe) -> Dataset:
    language = language_named(recipe.demo.language)
    n = recipe.steps * recipe.rollout.prompts_per_step
    problems = language.train_problems(n, seed=recipe.seed)
    return Dataset.from_list([{"prompt": p.prompt, "answer": p.answer} for p in problems])


def _demo_reward(tokenizer: Any, recipe: Recipe) -> RewardFunction:
    language = language_named(recipe.demo.language)

    def correct(
        completions: list[str], completion_ids: list[list[int]], answer: list[int | str], **_: Any
    ) -> list[float | None]:
        """1.0 where the answer is right and the response ended by itself, else 0.0."""
        return [
            float(
                language.is_correct(text, expected, finished=ids[-1:] == [tokenizer.eos_token_id])
            )
            for text, ids, expected in zip(completions, completion_ids, answer, strict=True)
        ]

    return correct


def overlong_penalty(recipe: Recipe) -> RewardFunction | None:
    """DAPO's soft overlong punishment, which TRL adds to the rewards; None without a buffer."""
    if not recipe.algorithm.overlong_buffer:
        return None
    punish: RewardFunction = get_soft_overlong_punishment(
        recipe.rollout.max_response_length, recipe.algorithm.overlong_buffer
    )
    return punish


def _demo_evaluate(model: Any, tokenizer: Any, recipe: Recipe) -> dict[str, float]:
    language = language_named(recipe.demo.language)
    problems = language.test_problems(recipe.logging.eval_problems)
    length = recipe.rollout.max_response_length
    scores = evaluate(language, model, tokenizer, problems, seed=0, max_new_tokens=length)
    return scores._asdict()


def data_file(recipe: Recipe, split: str) -> Path:
    """The file of a split that `ktae data prepare` wrote for TRL."""
    return Path(os.path.expanduser(recipe.data or "")) / "trl" / f"{split}.parquet"


def _math_problems(recipe: Recipe, split: str) -> Dataset:
    """Rows with `prompt` (messages) and `answer`.

    Raises:
        InputError: no such file, or it has other columns.
    """
    file = data_file(recipe, split)
    if not file.is_file():
        raise InputError(f"{file} does not exist; `ktae data prepare` writes it")
    problems = Dataset.from_parquet(str(file))
    missing = {"prompt", "answer"} - set(problems.column_names)
    if missing:
        raise InputError(
            f"{file} has the columns {', '.join(problems.column_names)}; "
            f"expected {' and '.join(sorted(missing))}, as `ktae data prepare` writes them"
        )
    return problems


def _chat_check(tokenizer: Any, recipe: Recipe) -> None:
    if tokenizer.chat_template is None:
        raise InputError(
            f"task {recipe.task_source} has prompts of messages, and this tokenizer "
            f"({type(tokenizer).__name__}) has no chat template"
        )


def _math_reward(_: Any, __: Recipe) -> RewardFunction:
    def correct(completions: list[Any], answer: list[str], **_: Any) -> list[float | None]:
        """1.0 correct, 0.0 incorrect or unanswered, None where the grader cannot tell."""
        return accuracy(completions, answer)

    return correct


def _math_evaluate(model: Any, tokenizer: Any, recipe: Recipe) -> dict[str, float]:
    """One greedy response to each of the first test problems."""
    problems = _math_problems(recipe, "test")
    problems = problems.select(range(min(len(problems), recipe.logging.eval_problems)))
    greedy = generate(
        model,
        tokenizer,
        [prompt_text(tokenizer, prompt) for prompt in problems["prompt"]],
        max_new_tokens=recipe.rollout.max_response_length,
        temperature=0.0,
        batch_size=64,
        seed=0,
    )
    outcomes = [verdict.outcome for verdict in verdicts(greedy.texts, list(problems["answer"]))]
    return {
        "greedy_accuracy": outcomes.count(Outcome.CORRECT) / len(outcomes),
        "unanswered": outcomes.count(Outcome.UNANSWERED) / len(outcomes),
        "undecided": outcomes.count(Outcome.UNDECIDED) / len(outcomes),
        "greedy_length": sum(map(len, greedy.token_ids)) / len(outcomes),
    }


def _gym_problems(recipe: Recipe, n: int, seed: int) -> Dataset:
    """Rows with `prompt` (messages), `answer` and `reference`."""
    task = gym_task(recipe)
    return Dataset.from_list(
        [
            {
                "prompt": gym.messages(task, problem.text),
                "answer": problem.answer,
                "reference": problem.reference,
            }
            for problem in gym.problems(task, n, seed)
        ]
    )


def gym_task(recipe: Recipe) -> ReasoningGym:
    """The recipe's task of reasoning-gym."""
    assert isinstance(recipe.task, ReasoningGym)
    return recipe.task


def _gym_train_set(recipe: Recipe) -> Dataset:
    n = recipe.steps * recipe.rollout.prompts_per_step
    return _gym_problems(recipe, n, recipe.seed)


def _gym_reward(_: Any, recipe: Recipe) -> RewardFunction:
    graded = recipe.credit is not None and recipe.credit.score_range is not None

    def correct(completions: list[Any], reference: list[str], **_: Any) -> list[float | None]:
        """The verdict: 1.0 where the task's score is 1, else 0.0; with a graded estimator the score
        itself."""
        scores = [
            gym.score(text_of(completion), one) or 0.0
            for completion, one in zip(completions, reference, strict=True)
        ]
        return [score if graded else float(score == 1) for score in scores]

    return correct


def _gym_evaluate(model: Any, tokenizer: Any, recipe: Recipe) -> dict[str, float]:
    """A greedy and a sampled response to each held-out problem."""
    problems = _gym_problems(recipe, recipe.logging.eval_problems, gym.HELD_OUT_SEED)
    prompts = [prompt_text(tokenizer, prompt) for prompt in problems["prompt"]]
    found: dict[str, float] = {}
    for name, temperature in (("greedy", 0.0), ("sampled", recipe.rollout.temperature)):
        made = generate(
            model, tokenizer, prompts, max_new_tokens=recipe.rollout.max_response_length,
            temperature=temperature, batch_size=64, seed=0,
        )  # fmt: skip
        scores = [gym.score(*pair) for pair in zip(made.texts, problems["reference"], strict=True)]
        n = len(scores)
        found[f"{name}_accuracy"] = sum(score == 1 for score in scores) / n
        found[f"{name}_unanswered"] = sum(score is None for score in scores) / n
        found[f"{name}_length"] = sum(map(len, made.token_ids)) / n
    return found


def prompt_text(tokenizer: Any, prompt: Any) -> str:
    """A prompt as the model sees it: messages go through the chat template."""
    if isinstance(prompt, str):
        return prompt
    text: str = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
    return text


TASKS = {
    "demo": Task(_demo_check, _demo_train_set, _demo_reward, _demo_evaluate),
    "math": Task(
        _chat_check, lambda recipe: _math_problems(recipe, "train"), _math_reward, _math_evaluate
    ),
    "reasoning-gym": Task(_chat_check, _gym_train_set, _gym_reward, _gym_evaluate),
}
