"""From a recipe to TRL's own configuration."""

from __future__ import annotations

from pathlib import Path

import torch
from trl import GRPOConfig

from ktae.recipe import Recipe


def grpo_config(recipe: Recipe, output: Path) -> GRPOConfig:
    """The `GRPOConfig` that trains the recipe on one process.

    TRL counts optimizer steps; a recipe counts batches of rollouts, each of which takes
    `optimizer_steps(recipe)` of them. Checkpoints lie between batches, so that a resumed run
    samples what the uninterrupted one would have.
    """
    rollouts = recipe.rollout.prompts_per_step * recipe.rollout.group_size
    per_step = optimizer_steps(recipe)
    on_gpu = torch.cuda.is_available()
    return GRPOConfig(
        output_dir=str(output),
        seed=recipe.seed,
        max_steps=recipe.steps * per_step,
        per_device_train_batch_size=rollouts // recipe.algorithm.minibatches,
        steps_per_generation=recipe.algorithm.minibatches,
        num_iterations=recipe.algorithm.epochs,
        num_generations=recipe.rollout.group_size,
        max_completion_length=recipe.rollout.max_response_length,
        temperature=recipe.rollout.temperature,
        loss_type=recipe.algorithm.loss,
        scale_rewards="group" if recipe.algorithm.scale_by_std else "none",
        epsilon=recipe.algorithm.clip_low,
        epsilon_high=recipe.algorithm.clip_high,
        beta=recipe.algorithm.kl,
        learning_rate=recipe.optimizer.learning_rate,
        adam_beta1=recipe.optimizer.beta1,
        adam_beta2=recipe.optimizer.beta2,
        weight_decay=recipe.optimizer.weight_decay,
        max_grad_norm=recipe.optimizer.max_grad_norm,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=recipe.optimizer.warmup_steps * per_step,
        save_steps=recipe.logging.save_every * per_step,
        save_total_limit=recipe.logging.keep_checkpoints,
        logging_steps=per_step,
        report_to=list(recipe.logging.report_to) or "none",
        disable_tqdm=True,
        # TRL's defaults for these two are meant for GPUs; on a CPU they cost time and precision.
        bf16=on_gpu,
        gradient_checkpointing=on_gpu,
        use_cpu=not on_gpu,
    )


def optimizer_steps(recipe: Recipe) -> int:
    """Optimizer steps that one training step of the recipe takes."""
    return recipe.algorithm.minibatches * recipe.algorithm.epochs
