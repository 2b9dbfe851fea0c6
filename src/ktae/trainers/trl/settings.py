"""From a recipe to TRL's own configuration."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import torch
from trl import GRPOConfig

from ktae.errors import InputError
from ktae.recipe import Recipe
from ktae.trainers import strongest


def grpo_config(recipe: Recipe, output: Path) -> GRPOConfig:
    """The `GRPOConfig` that trains the recipe, on as many processes as were launched.

    Raises:
        InputError: the processes cannot share a step's rollouts evenly, a tracker is not installed,
            or TRL refuses a setting.

    TRL counts optimizer steps; a recipe counts batches of rollouts, each of which takes
    `optimizer_steps(recipe)` of them. Checkpoints lie between batches, so that a resumed run
    samples what the uninterrupted one would have.
    """
    for name in strongest.TRACKERS:
        spec = importlib.util.find_spec(name)
        installed = spec is not None and spec.origin is not None  # wandb leaves a folder wandb/
        if name in recipe.logging.report_to and not installed:
            raise InputError(
                f"logging.report_to has {name}, which is not installed; pip install 'ktae[{name}]'"
            )
    per_step = optimizer_steps(recipe)
    on_gpu = torch.cuda.is_available()
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    at_once, passes = _passes(recipe, processes)
    return GRPOConfig(
        output_dir=str(output),
        seed=recipe.seed,
        max_steps=recipe.steps * per_step,
        per_device_train_batch_size=at_once,
        gradient_accumulation_steps=passes,
        steps_per_generation=recipe.algorithm.minibatches * passes,
        num_iterations=recipe.algorithm.epochs,
        num_generations=recipe.rollout.group_size,
        max_completion_length=recipe.rollout.max_response_length,
        temperature=recipe.rollout.temperature,
        loss_type=recipe.algorithm.loss,
        scale_rewards="group" if recipe.algorithm.scale_by_std else "none",
        epsilon=recipe.algorithm.clip_low,
        epsilon_high=recipe.algorithm.clip_high,
        beta=recipe.algorithm.kl,
        top_entropy_quantile=recipe.trl.top_entropy,
        entropy_coef=recipe.trl.entropy_coef,
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
        project="ktae",
        run_name=f"{recipe.name}-seed{recipe.seed}",
        report_to=list(recipe.logging.report_to) or "none",
        disable_tqdm=True,
        # TRL's defaults for these two are meant for GPUs; on a CPU they cost time and precision.
        bf16=on_gpu,
        gradient_checkpointing=on_gpu,
        use_cpu=not on_gpu,
        use_vllm=recipe.trl.vllm,
        vllm_gpu_memory_utilization=recipe.trl.vllm_memory,
        # Left alone it would be NCCL, which knows no CPU.
        ddp_backend="gloo" if processes > 1 and not on_gpu else None,
    )


def _passes(recipe: Recipe, processes: int) -> tuple[int, int]:
    """Rollouts in one forward and backward pass of a process, and its passes in a minibatch."""
    rollouts = recipe.rollout.prompts_per_step * recipe.rollout.group_size
    per_minibatch = rollouts // recipe.algorithm.minibatches
    if per_minibatch % processes:
        raise InputError(
            f"{processes} processes cannot share the {per_minibatch} rollouts of a minibatch "
            "(rollout.prompts_per_step × rollout.group_size / algorithm.minibatches) evenly"
        )
    if recipe.algorithm.resampling_rounds and rollouts // processes % recipe.rollout.group_size:
        raise InputError(
            f"algorithm.resampling_rounds needs whole groups on each of the {processes} processes; "
            f"rollout.prompts_per_step is {recipe.rollout.prompts_per_step}"
        )
    of_process = per_minibatch // processes
    at_once = recipe.trl.forward_rollouts or of_process
    if of_process % at_once:
        raise InputError(
            f"trl.forward_rollouts is {at_once}; expected a divisor of the {of_process} "
            "rollouts of a minibatch on each process"
        )
    return at_once, of_process // at_once


def optimizer_steps(recipe: Recipe) -> int:
    """Optimizer steps that one training step of the recipe takes."""
    return recipe.algorithm.minibatches * recipe.algorithm.epochs
