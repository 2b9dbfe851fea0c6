"""Where prompts, answers and the reward come from, for each task a recipe can name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from datasets import Dataset
from trl.rewards import get_soft_overlong_punishment

from ktae.data import gym, tasks
from ktae.demo import language_named
from ktae.demo.evaluate import evaluate
from ktae.demo.language import EOS
from ktae.errors import InputError
from ktae.evaluation.generation import generate
from ktae.evaluation.templates import written_out
from ktae.grading import Outcome
from ktae.grading.rewards import text_of
from ktae.recipe import Recipe

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


def _chat_check(tokenizer: Any, recipe: Recipe) -> None:
    if tokenizer.chat_template is None:
        raise InputError(
            f"task {recipe.task_source} has prompts of messages, and this tokenizer "
            f"({type(tokenizer).__name__}) has no chat template"
        )


def _train_set(recipe: Recipe) -> Dataset:
    """Rows with `prompt` (messages), `answer` and `reference`."""
    return Dataset.from_list([row._asdict() for row in tasks.train_rows(recipe)])


def _reward(_: Any, recipe: Recipe) -> RewardFunction:
    def correct(completions: list[Any], reference: list[str], **_: Any) -> list[float | None]:
        """1.0 correct, 0.0 incorrect or unanswered, None where the grader cannot tell; with a
        graded estimator reasoning-gym's own score."""
        if recipe.wants_scores:
            return [_score(*pair) for pair in zip(completions, reference, strict=True)]
        return [verdict.correct for verdict in tasks.grade(recipe, completions, reference)]

    return correct


def _score(completion: Any, reference: str) -> float | None:
    """reasoning-gym's score; 0 without an answer, None where the scorer fails."""
    try:
        return gym.score(text_of(completion), reference) or 0.0
    except gym.ScorerError:
        return None


def _evaluate(model: Any, tokenizer: Any, recipe: Recipe) -> dict[str, float]:
    """A greedy and a sampled response to each held-out problem."""
    rows = tasks.held_out_rows(recipe)
    prompts = [prompt_text(tokenizer, row.prompt) for row in rows]
    references = [row.reference for row in rows]
    found: dict[str, float] = {}
    for name, temperature in (("greedy", 0.0), ("sampled", recipe.rollout.temperature)):
        made = generate(
            model, tokenizer, prompts, max_new_tokens=recipe.rollout.max_response_length,
            temperature=temperature, batch_size=64, seed=0,
        )  # fmt: skip
        outcomes = [verdict.outcome for verdict in tasks.grade(recipe, made.texts, references)]
        for share, outcome in (
            ("accuracy", Outcome.CORRECT),
            ("unanswered", Outcome.UNANSWERED),
            ("undecided", Outcome.UNDECIDED),
        ):
            found[f"{name}_{share}"] = outcomes.count(outcome) / len(outcomes)
        found[f"{name}_length"] = sum(map(len, made.token_ids)) / len(outcomes)
    return found


def prompt_text(tokenizer: Any, prompt: Any) -> str:
    """A prompt as the model sees it: messages go through the chat template."""
    return prompt if isinstance(prompt, str) else written_out(prompt, tokenizer)


DEMO = Task(_demo_check, _demo_train_set, _demo_reward, _demo_evaluate)
_MESSAGES = Task(_chat_check, _train_set, _reward, _evaluate)


def task_of(recipe: Recipe) -> Task:
    """The recipe's task."""
    return DEMO if recipe.task == "demo" else _MESSAGES
