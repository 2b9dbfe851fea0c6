"""Measure estimators on a model: reference gradient, batches, products."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch

from ktae.credit import AnEstimator, token_credit
from ktae.errors import InputError
from ktae.estimators import Estimator, as_estimator
from ktae.recipe import Recipe
from ktae.rollout_advantages import rollout_advantages
from ktae.rollouts.tokens import vocabulary
from ktae_lab.align.gradients import Reference, cosine, policy_gradient, product
from ktae_lab.align.rollouts import Rollouts, Sampler
from ktae_lab.align.summary import Measured
from ktae_lab.provenance import machine

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

REFERENCE_BLOCKS = 8
"""Parts of the reference that are kept apart, an even number, from which its own noise is told.
Each takes the memory of a gradient in float32; a reference of fewer batches has fewer."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """How much to sample."""

    batches: int = 60
    """Small batches of the recipe's `rollout.prompts_per_step` prompts."""
    reference_prompts: int = 768
    rows_at_once: int = 64
    """Rollouts in one forward and backward pass."""


def not_read(recipe: Recipe) -> list[str]:
    """What of a recipe changes the gradient that it trains with, and not those that are compared:
    they are of all of the policy's parameters, all tokens and all batches, and of rewards alone."""
    leaves_out = {
        "algorithm.kl": recipe.algorithm.kl > 0,
        "algorithm.resampling_rounds": recipe.algorithm.resampling_rounds > 0,
        "model.lora_rank": recipe.model.lora_rank > 0,
        "trl.top_entropy": recipe.trl.top_entropy < 1,
        "trl.entropy_coef": recipe.trl.entropy_coef != 0,
    }
    return [key for key, is_set in leaves_out.items() if is_set]


def measure(
    model: Any,
    tokenizer: Any,
    recipe: Recipe,
    estimators: Mapping[str, AnEstimator],
    plan: Plan,
    progress: Progress,
    name: str = "",
) -> Measured:
    """Sample on the policy, and compare each estimator's gradient with the reference.

    Args:
        model: the policy.
        tokenizer: the policy's.
        recipe: task, rollouts and loss.
        estimators: by name.
        plan: how much to sample.
        progress: called as it goes.
        name: of the measurement, in its tables.

    Raises:
        InputError: too few prompts, no rewards differ, so that there is no gradient, no parameter
            takes one, or an estimator is no estimator or gives something else than credit.
    """
    checked = {
        label: as_estimator(estimator, f"estimators[{label!r}]")
        for label, estimator in estimators.items()
    }
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError(
            "the policy has no parameter that takes a gradient, as the checkpoint of a LoRA run "
            "is loaded; merge the adapter into its model, and align that"
        )
    per_batch = recipe.rollout.prompts_per_step
    chunks = max(2, plan.reference_prompts // per_batch)
    sampler = Sampler(model, tokenizer, recipe, (chunks + plan.batches) * per_batch)
    rewards: list[np.ndarray] = []
    reference = _reference(model, sampler, recipe, chunks, plan, progress, rewards)
    gradient, metrics = reference.gradient, reference.metrics()
    products: list[dict[str, Any]] = []
    for batch in range(plan.batches):
        rollouts = sampler.draw(per_batch)
        rewards.append(rollouts.reward_b)
        base_bt, credit = token_weights(rollouts, recipe, checked, tokenizer)
        base = policy_gradient(model, rollouts, base_bt, rows_at_once=plan.rows_at_once)
        # Gradients add up: those of advantages and of credit give that of any mixture.
        for estimator, credit_bt in credit.items():
            ours = policy_gradient(model, rollouts, credit_bt, rows_at_once=plan.rows_at_once)
            for metric, scale in metrics.items():
                key = {"measurement": name, "metric": metric, "estimator": estimator}
                row = {"batch": batch, "bb": product(base, base, scale)}
                row |= {"bt": product(base, ours, scale), "tt": product(ours, ours, scale)}
                row |= {"br": product(base, gradient, scale), "tr": product(ours, gradient, scale)}
                row |= {"rr": product(gradient, gradient, scale)}
                row |= _with_each("br", base, reference.blocks, scale)
                row |= _with_each("tr", ours, reference.blocks, scale)
                products.append(key | row)
        progress("batches", batch + 1, plan.batches)
    # As the committed tables have it: metric by metric.
    table = pd.DataFrame(products).sort_values(["metric", "batch"], ascending=[False, True])
    facts = {
        "accuracy": float(np.nanmean(_verdicts(np.concatenate(rewards)))),
        "reference_prompts": plan.reference_prompts,
        "batches": plan.batches,
        **machine(),
    }
    about = [
        {"measurement": name, "metric": metric, "reliability": cosine(*reference.halves, scale)}
        for metric, scale in metrics.items()
    ]
    references = [
        {"measurement": name, "metric": metric, "block": k}
        | _with_each("rr", block, reference.blocks, scale)
        for metric, scale in metrics.items()
        for k, block in enumerate(reference.blocks)
    ]
    about = [row | facts for row in about]
    return Measured(pd.DataFrame(about), pd.DataFrame(references), table)


def _reference(
    model: Any,
    sampler: Sampler,
    recipe: Recipe,
    chunks: int,
    plan: Plan,
    progress: Progress,
    rewards: list[np.ndarray],
) -> Reference:
    """Leave-one-out REINFORCE, unbiased: no division by lengths or by a standard deviation."""
    # An even number, so that the halves are of every other batch, and no more than there are.
    n_blocks = min(REFERENCE_BLOCKS, chunks - chunks % 2)
    blocks: Any = None
    squares: Any = 0.0
    for chunk in range(chunks):
        rollouts = sampler.draw(recipe.rollout.prompts_per_step)
        rewards.append(rollouts.reward_b)
        advantage_b = _rollout_advantages("rloo", rollouts)
        weight_bt = torch.from_numpy(advantage_b / len(advantage_b)).float()[:, None]
        gradient = policy_gradient(
            model,
            rollouts,
            weight_bt.expand(rollouts.mask_bt.shape),
            rows_at_once=plan.rows_at_once,
        )
        # Batches are dealt to the blocks in turn, so that each block has seen the whole sample.
        if blocks is None:
            blocks = gradient.new_zeros(n_blocks, len(gradient))
        blocks[chunk % n_blocks] += gradient / chunks
        # Adam's second moment, if it had all these batches at this policy.
        squares = squares + gradient**2 / chunks
        progress("reference", chunk + 1, chunks)
    reference = Reference(blocks, squares)
    if not all(bool(half.any()) for half in reference.halves):
        raise InputError(
            "the reference gradient is 0: in no group of one half did the rewards differ; "
            "more prompts, or a task that the model sometimes solves, would give one"
        )
    return reference


def token_weights(
    rollouts: Rollouts, recipe: Recipe, estimators: Mapping[str, Estimator], tokenizer: Any
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """(B, T) weights of the log-probabilities: of the rollout advantages, and of each
    estimator's credit, averaged over tokens as the recipe's loss averages."""
    base = "grpo" if recipe.algorithm.scale_by_std else "dr_grpo"
    advantage_b = torch.from_numpy(_rollout_advantages(base, rollouts)).float()
    mask_bt = rollouts.mask_bt.float()
    n_rows, n_tokens = len(mask_bt), mask_bt.sum()
    # What one token's log-probability weighs in the loss, before its advantage.
    scale_bt = {
        "grpo": mask_bt / mask_bt.sum(dim=1, keepdim=True).clamp(min=1) / n_rows,
        "dapo": mask_bt / n_tokens,
        "dr_grpo": mask_bt / (n_rows * recipe.rollout.max_response_length),
    }[recipe.algorithm.loss]
    verdict_b = _verdicts(rollouts.reward_b)
    credit = {}
    for name, estimator in estimators.items():
        # Statistics of tokens ask right or wrong; other estimators take graded rewards.
        evidence_b = verdict_b if estimator.score_range is None else rollouts.reward_b
        texts = vocabulary(tokenizer) if estimator.needs_vocabulary else None
        credit[name] = scale_bt * token_credit(
            rollouts.ids_bt, rollouts.mask_bt, evidence_b, rollouts.group_b, estimator,
            vocabulary=texts, step=0,
        )  # fmt: skip
    return scale_bt * advantage_b[:, None], credit


def _verdicts(reward_b: np.ndarray) -> np.ndarray:
    """(B,) 1 for right, 0 for wrong, NaN for undecided ones."""
    return np.where(np.isnan(reward_b), np.nan, reward_b > 0)


def _rollout_advantages(base: str, rollouts: Rollouts) -> np.ndarray:
    """(B,) 0 for undecided rollouts, which do not count in their group either."""
    known_b = ~np.isnan(rollouts.reward_b)
    advantages_b: np.ndarray = rollout_advantages(
        base,
        np.where(known_b, rollouts.reward_b + rollouts.penalty_b, 0.0),
        known_b,
        rollouts.group_b,
    )
    return advantages_b


def _with_each(
    what: str, gradient: torch.Tensor, blocks: torch.Tensor, scale: torch.Tensor | None
) -> dict[str, float]:
    """Its products with each of (K, n_parameters) blocks: `what_0` and so on."""
    return {f"{what}_{k}": product(gradient, block, scale) for k, block in enumerate(blocks)}
