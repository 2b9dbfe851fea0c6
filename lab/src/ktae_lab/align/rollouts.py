"""Batches of graded rollouts, as a policy gradient needs them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from ktae.errors import InputError
from ktae.evaluation.generation import encode, generate
from ktae.recipe import Recipe
from ktae.trainers.trl import tasks


class Rollouts(NamedTuple):
    """B = n_prompts · G rollouts; T is the longest response."""

    prompt_ids: list[list[int]]
    """(B,) rows of token ids."""
    ids_bt: torch.Tensor
    """(B, T) int64 response tokens, 0 where masked."""
    mask_bt: torch.Tensor
    """(B, T) bool."""
    reward_b: np.ndarray
    """(B,) float64, NaN where the grader cannot tell."""
    group_b: np.ndarray
    """(B,) int64."""
    temperature: float = 1.0
    """At which they were drawn: the policy is softmax(logits / temperature)."""
    penalty_b: np.ndarray | float = 0.0
    """(B,) what is added to the rewards, and says nothing of correctness: overlong shaping."""


class Sampler:
    """Draws rollouts of a recipe's training prompts from a model, each prompt once."""

    def __init__(self, model: Any, tokenizer: Any, recipe: Recipe, n_prompts: int) -> None:
        tasks.check_tokenizer(recipe, tokenizer)
        steps = -(-n_prompts // recipe.rollout.prompts_per_step)
        problems = tasks.train_set(recipe.model_copy(update={"steps": steps}))
        if len(problems) < n_prompts:
            raise InputError(
                f"{n_prompts} prompts are needed (reference and batches), and there are "
                f"{len(problems)}; lower --reference-prompts or --batches"
            )
        self._problems = problems.shuffle(seed=recipe.seed)
        self._reward = tasks.reward_function(recipe, tokenizer)
        self._penalty = tasks.overlong_penalty(recipe)
        self._model, self._tokenizer, self._recipe = model, tokenizer, recipe
        self._taken = 0

    def draw(self, n_prompts: int) -> Rollouts:
        """The rollouts of the next `n_prompts` prompts."""
        rows = range(self._taken, self._taken + n_prompts)
        self._taken += n_prompts
        size = self._recipe.rollout.group_size
        problems = [self._problems[i] for i in rows for _ in range(size)]
        prompts = [tasks.prompt_text(self._tokenizer, problem["prompt"]) for problem in problems]
        answers = generate(
            self._model,
            self._tokenizer,
            prompts,
            max_new_tokens=self._recipe.rollout.max_response_length,
            temperature=self._recipe.rollout.temperature,
            batch_size=256,
            seed=self._recipe.seed + self._taken,
        )
        # All columns of a problem go to the reward: a task's scorer may need more than the answer.
        rewards = self._reward(
            completions=answers.texts,
            completion_ids=answers.token_ids,
            **{name: [p[name] for p in problems] for name in problems[0].keys() - {"prompt"}},
        )
        lengths = torch.tensor([len(ids) for ids in answers.token_ids])
        mask_bt = torch.arange(int(lengths.max())) < lengths[:, None]
        ids_bt = torch.zeros(mask_bt.shape, dtype=torch.int64)
        ids_bt[mask_bt] = torch.tensor([token for ids in answers.token_ids for token in ids])
        return Rollouts(
            prompt_ids=encode(self._tokenizer, prompts),
            ids_bt=ids_bt,
            mask_bt=mask_bt,
            reward_b=np.array([np.nan if r is None else r for r in rewards], dtype=np.float64),
            group_b=np.repeat(np.arange(n_prompts), size),
            temperature=self._recipe.rollout.temperature,
            penalty_b=np.array(self._penalty(answers.token_ids)) if self._penalty else 0.0,
        )
