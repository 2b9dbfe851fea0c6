"""A recipe's task for TRL: the data set, the reward functions, and held-out scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from datasets import Dataset
from trl.rewards import get_soft_overlong_punishment

from ktae.experiments.demo.evaluate import evaluate, play
from ktae.experiments.generation import generate
from ktae.experiments.recipe import Recipe
from ktae.experiments.tasks import Task
from ktae.experiments.tasks.demo import DemoTask
from ktae.grading import Outcome

RewardFunction = Callable[..., list[float | None]]


def train_set(task: Task) -> Dataset:
    """Rows with `prompt`, `answer` and `reference`."""
    return Dataset.from_list([row._asdict() for row in task.train_rows()])


def reward_function(task: Task, tokenizer: Any) -> RewardFunction:
    """TRL's reward function; above `Recipe.correct_above` is correct, None is unknown."""

    def correct(
        completions: list[Any],
        reference: list[str],
        completion_ids: list[list[int]] | None = None,
        solved: list[bool] | None = None,
        **_: Any,
    ) -> list[float | None]:
        """The task's rewards; of an episode 1.0 where its environment says that it was solved."""
        if solved is not None and task.recipe.reward is None:
            return [float(is_solved) for is_solved in solved]
        ids = completion_ids or [[] for _ in completions]
        finished = [row[-1:] == [getattr(tokenizer, "eos_token_id", None)] for row in ids]
        return task.rewards(completions, reference, finished)

    return correct


def overlong_penalty(recipe: Recipe) -> RewardFunction | None:
    """DAPO's soft overlong punishment, which TRL adds to the rewards; None without a buffer."""
    if not recipe.algorithm.overlong_buffer:
        return None
    punish: RewardFunction = get_soft_overlong_punishment(
        recipe.rollout.max_response_length, recipe.algorithm.overlong_buffer
    )
    return punish


def rollout_function(task: Task, tokenizer: Any) -> Callable[..., dict[str, Any]] | None:
    """TRL's `rollout_func` where the policy acts turn by turn; None: TRL samples one response."""
    if not (isinstance(task, DemoTask) and task.plays_episodes):
        return None

    def episodes(prompts: list[str], trainer: Any) -> dict[str, Any]:
        """TRL's loop: a completion holds turns and observations, and `env_mask` is 0 there."""
        played = play(
            task.language,
            trainer.accelerator.unwrap_model(trainer.model),
            tokenizer,
            prompts,
            temperature=task.recipe.rollout.temperature,
            seed=int(torch.randint(2**31, ())),  # of the run's random numbers, as TRL's samples
            max_tokens=task.recipe.rollout.max_response_length,
        )
        return {
            "prompt_ids": played.prompt_ids,
            "completion_ids": played.token_ids,
            "logprobs": None,
            "env_mask": played.mask,
            "solved": played.solved,
        }

    return episodes


def held_out_scores(task: Task, model: Any, tokenizer: Any) -> dict[str, float]:
    """A model's scores on held-out problems: greedy, and sampled as in training."""
    rollout = task.recipe.rollout
    longest = rollout.max_response_length
    if isinstance(task, DemoTask) and task.recipe.reward is None:
        problems = task.language.test_problems(task.recipe.logging.eval_problems)
        scores = evaluate(task.language, model, tokenizer, problems, seed=0, max_new_tokens=longest)
        return scores._asdict()
    rows = task.held_out_rows()
    prompts = [task.prompt_text(tokenizer, row.prompt) for row in rows]
    shares: dict[str, float] = {}
    for name, temperature in (("greedy", 0.0), ("sampled", rollout.temperature)):
        made = generate(
            model,
            tokenizer,
            prompts,
            max_new_tokens=longest,
            temperature=temperature,
            batch_size=64,
            seed=0,
        )
        verdicts = task.grade(made.texts, [row.reference for row in rows], made.finished)
        outcomes = [verdict.outcome for verdict in verdicts]
        for outcome, share in (
            (Outcome.CORRECT, "accuracy"),
            (Outcome.UNANSWERED, "unanswered"),
            (Outcome.UNDECIDED, "undecided"),
        ):
            shares[f"{name}_{share}"] = outcomes.count(outcome) / len(outcomes)
        shares[f"{name}_length"] = sum(map(len, made.token_ids)) / len(outcomes)
    return shares
