"""Where prompts, answers and the reward come from, for each task a recipe can name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from datasets import Dataset
from trl.rewards import get_soft_overlong_punishment
from typing_extensions import override

from ktae.data import gym, tasks
from ktae.demo import language_named
from ktae.demo.evaluate import evaluate, play
from ktae.demo.language import EOS
from ktae.errors import InputError
from ktae.evaluation.generation import generate
from ktae.evaluation.templates import written_out
from ktae.grading import Outcome
from ktae.grading.rewards import text_of
from ktae.recipe import Recipe

RewardFunction = Callable[..., list[float | None]]
RolloutFunction = Callable[[list[str], Any], dict[str, Any]]


class Task(Protocol):
    """A task as TRL needs it."""

    def check(self, tokenizer: Any, recipe: Recipe) -> None:
        """Raise an InputError for a tokenizer that does not fit the task."""

    def train_set(self, recipe: Recipe) -> Dataset:
        """Rows with `prompt` and `answer`, one for every prompt of the run."""

    def reward(self, tokenizer: Any, recipe: Recipe) -> RewardFunction:
        """TRL's reward function; above 0 is correct, None is unknown."""

    def evaluate(self, model: Any, tokenizer: Any, recipe: Recipe) -> dict[str, float]:
        """Held-out scores of a model and its tokenizer."""

    def rollout_function(self, tokenizer: Any, recipe: Recipe) -> RolloutFunction | None:
        """TRL's `rollout_func`, for a task of several turns; None: TRL samples one response."""
        return None


class DemoTask(Task):
    """A demo language's problems, whose prompts are complete texts."""

    @override
    def check(self, tokenizer: Any, recipe: Recipe) -> None:
        words = language_named(recipe.demo.language).vocabulary
        missing = sorted(set(words) - tokenizer.get_vocab().keys())
        if missing or tokenizer.eos_token != EOS:
            raise InputError(
                f"task demo in the language {recipe.demo.language} needs a tokenizer of its "
                f"{len(words)} words that ends with {EOS}; this one ends with "
                f"{tokenizer.eos_token} and lacks {' '.join(missing[:5]) or 'none'}"
            )

    @override
    def train_set(self, recipe: Recipe) -> Dataset:
        language = language_named(recipe.demo.language)
        n = recipe.steps * recipe.rollout.prompts_per_step
        problems = language.train_problems(n, seed=recipe.seed)
        return Dataset.from_list([{"prompt": p.prompt, "answer": p.answer} for p in problems])

    @override
    def reward(self, tokenizer: Any, recipe: Recipe) -> RewardFunction:
        language = language_named(recipe.demo.language)

        def correct(
            completions: list[str],
            completion_ids: list[list[int]],
            answer: list[int | str],
            **_: Any,
        ) -> list[float | None]:
            """1.0 where the answer is right and the response ended by itself, else 0.0."""
            ended = [ids[-1:] == [tokenizer.eos_token_id] for ids in completion_ids]
            return [
                float(language.is_correct(text, expected, finished=finished))
                for text, expected, finished in zip(completions, answer, ended, strict=True)
            ]

        return correct

    @override
    def evaluate(self, model: Any, tokenizer: Any, recipe: Recipe) -> dict[str, float]:
        language = language_named(recipe.demo.language)
        problems = language.test_problems(recipe.logging.eval_problems)
        length = recipe.rollout.max_response_length
        scores = evaluate(language, model, tokenizer, problems, seed=0, max_new_tokens=length)
        return scores._asdict()


class EpisodesTask(DemoTask):
    """A demo language's problems in which the policy acts turn by turn."""

    @override
    def rollout_function(self, tokenizer: Any, recipe: Recipe) -> RolloutFunction:
        def episodes(prompts: list[str], trainer: Any) -> dict[str, Any]:
            """TRL's loop: a completion holds turns and observations, and `env_mask` is 0 there."""
            seed = int(torch.randint(2**31, ()))  # of the run's random numbers, as TRL's samples
            played = play(
                language_named(recipe.demo.language),
                trainer.accelerator.unwrap_model(trainer.model),
                tokenizer,
                prompts,
                temperature=recipe.rollout.temperature,
                seed=seed,
                max_tokens=recipe.rollout.max_response_length,
            )
            return {
                "prompt_ids": played.prompt_ids,
                "completion_ids": played.token_ids,
                "logprobs": None,
                "env_mask": played.mask,
                "solved": played.solved,
            }

        return episodes

    @override
    def reward(self, tokenizer: Any, recipe: Recipe) -> RewardFunction:
        def correct(solved: list[bool], **_: Any) -> list[float | None]:
            """1.0 where the environment says that it was done, else 0.0."""
            return [float(done) for done in solved]

        return correct


class MessagesTask(Task):
    """Problems whose prompts are messages: mathematics, reasoning-gym, files of one's own."""

    @override
    def check(self, tokenizer: Any, recipe: Recipe) -> None:
        if tokenizer.chat_template is None:
            raise InputError(
                f"task {recipe.task_source} has prompts of messages, and this tokenizer "
                f"({type(tokenizer).__name__}) has no chat template"
            )

    @override
    def train_set(self, recipe: Recipe) -> Dataset:
        return Dataset.from_list([row._asdict() for row in tasks.train_rows(recipe)])

    @override
    def reward(self, tokenizer: Any, recipe: Recipe) -> RewardFunction:
        def score(completion: Any, reference: str) -> float | None:
            try:
                return gym.score(text_of(completion), reference) or 0.0  # None: no answer
            except gym.ScorerError:
                return None

        def correct(completions: list[Any], reference: list[str], **_: Any) -> list[float | None]:
            """1.0 correct, 0.0 incorrect or unanswered, None where the grader cannot tell; with a
            graded estimator reasoning-gym's own score."""
            if recipe.wants_scores:
                return [score(*pair) for pair in zip(completions, reference, strict=True)]
            return [verdict.correct for verdict in tasks.grade(recipe, completions, reference)]

        return correct

    @override
    def evaluate(self, model: Any, tokenizer: Any, recipe: Recipe) -> dict[str, float]:
        """A greedy and a sampled response to each held-out problem."""
        rows = tasks.held_out_rows(recipe)
        prompts = [prompt_text(tokenizer, row.prompt) for row in rows]
        references = [row.reference for row in rows]
        scores: dict[str, float] = {}
        for name, temperature in (("greedy", 0.0), ("sampled", recipe.rollout.temperature)):
            made = generate(
                model,
                tokenizer,
                prompts,
                max_new_tokens=recipe.rollout.max_response_length,
                temperature=temperature,
                batch_size=64,
                seed=0,
            )
            outcomes = [verdict.outcome for verdict in tasks.grade(recipe, made.texts, references)]
            for share, outcome in (
                ("accuracy", Outcome.CORRECT),
                ("unanswered", Outcome.UNANSWERED),
                ("undecided", Outcome.UNDECIDED),
            ):
                scores[f"{name}_{share}"] = outcomes.count(outcome) / len(outcomes)
            scores[f"{name}_length"] = sum(map(len, made.token_ids)) / len(outcomes)
        return scores


def task_of(recipe: Recipe) -> Task:
    """The recipe's task."""
    if recipe.task != "demo":
        return MessagesTask()
    takes_turns = language_named(recipe.demo.language).environment is not None
    return EpisodesTask() if takes_turns else DemoTask()


def overlong_penalty(recipe: Recipe) -> RewardFunction | None:
    """DAPO's soft overlong punishment, which TRL adds to the rewards; None without a buffer."""
    if not recipe.algorithm.overlong_buffer:
        return None
    punish: RewardFunction = get_soft_overlong_punishment(
        recipe.rollout.max_response_length, recipe.algorithm.overlong_buffer
    )
    return punish


def prompt_text(tokenizer: Any, prompt: Any) -> str:
    """A prompt as the model sees it: messages go through the chat template."""
    return prompt if isinstance(prompt, str) else written_out(prompt, tokenizer)
