"""A recipe's task for TRL: the data set, the reward functions, and held-out scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from datasets import Dataset

from ktae.experiments.demo.play import play
from ktae.experiments.generation import generate
from ktae.experiments.tasks import Task
from ktae.experiments.tasks.demo import DemoTask
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
        solved: list[bool] | None = None,
        **_: Any,
    ) -> list[float | None]:
        """The task's rewards; for an episode 1.0 if its environment says that it was solved."""
        if solved is not None and task.recipe.reward is None:
            return [float(is_solved) for is_solved in solved]
        ids = completion_ids or [[] for _ in completions]
        finished = [row[-1:] == [getattr(tokenizer, "eos_token_id", None)] for row in ids]
        return task.rewards(completions, reference, finished)

    return correct


def rollout_function(task: Task, tokenizer: Any) -> Callable[..., dict[str, Any]] | None:
    """TRL's `rollout_func` if the policy acts turn by turn; None: TRL samples one response."""
    if not (isinstance(task, DemoTask) and task.plays_episodes):
        return None

    def episodes(prompts: list[str], trainer: Any) -> dict[str, Any]:
        """A completion holds turns and observations; `env_mask` is 0 in observations."""
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
            "turn_rewards": played.turn_rewards,
        }

    return episodes


def held_out_scores(task: Task, model: Any, tokenizer: Any) -> dict[str, float]:
    """A model's scores on held-out problems: greedy, and sampled as in training.

    `entropy` is the mean over tokens of the sampled responses, in nats.
    """
    rollout, rows = task.recipe.rollout, task.held_out_rows()
    longest = rollout.max_response_length
    prompts = [task.prompt_text(tokenizer, row.prompt) for row in rows]
    scores: dict[str, float] = {}
    entropy = math.nan
    for name, temperature in (("greedy", 0.0), ("sampled", rollout.temperature)):
        how: dict[str, Any] = {"temperature": temperature, "seed": 0}
        if isinstance(task, DemoTask) and task.plays_episodes and task.recipe.reward is None:
            played = play(task.language, model, tokenizer, prompts, max_tokens=longest, **how)
            outcomes = [Outcome.CORRECT if x else Outcome.INCORRECT for x in played.solved]
            lengths, entropy = [*map(sum, played.mask)], played.entropy
        else:
            how |= {"max_new_tokens": longest, "batch_size": task.evaluated_at_once}
            made = generate(model, tokenizer, prompts, **how)
            verdicts = task.grade(made.texts, [row.reference for row in rows], made.finished)
            outcomes = [verdict.outcome for verdict in verdicts]
            lengths, entropy = [*map(len, made.token_ids)], made.mean_entropy
        scores[f"{name}_accuracy"] = outcomes.count(Outcome.CORRECT) / len(outcomes)
        for outcome in (Outcome.UNANSWERED, Outcome.UNDECIDED):
            scores[f"{name}_{outcome}"] = outcomes.count(outcome) / len(outcomes)
        scores[f"{name}_length"] = sum(lengths) / len(lengths)
    return scores | {"entropy": entropy}
