"""Train a recipe through TRL, into a run folder."""

from __future__ import annotations

import contextlib
import math
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from accelerate.utils import gather_object
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, trainer_utils
from transformers.utils import logging as transformers_logging
from trl import GRPOConfig
from trl.rewards import get_soft_overlong_punishment

from ktae.errors import InputError, passed_on
from ktae.experiments import recipe as recipes
from ktae.experiments.demo.pretrain import policy_path
from ktae.experiments.recipe import Recipe, settings_of
from ktae.experiments.run_folder import RunFolder, write_json
from ktae.experiments.tasks import Task, task_of
from ktae.experiments.templates import written_out
from ktae.experiments.trl import tasks
from ktae.experiments.trl.steps import OnStep, StepLogger, stop_on_interrupt
from ktae.files.atomic import atomic_folder
from ktae.rollouts import record
from ktae.trainers.metrics import PREFIX
from ktae.trainers.trl.callbacks import Patience
from ktae.trainers.trl.checks import check_config
from ktae.trainers.trl.trainer import KTAETrainer, RolloutBatch

REFUSED: tuple[Any, ...] = ("TRL refuses the recipe", ValueError, ImportError, RuntimeError)
"""What is passed on of TRL's errors."""

Note = Callable[[str], None]
"""Takes one line that the user should see."""


def run(recipe: Recipe, folder: RunFolder, *, resume: bool, on_step: OnStep, note: Note) -> int:
    """Train, evaluate before and after, and leave everything in `folder`.

    Under torchrun or `accelerate launch` every process calls this; the first one evaluates, writes
    and calls `on_step` with each training step's metrics. Returns 0, or the number of the signal
    that stopped the training after it saved a checkpoint.

    Raises:
        InputError: the model cannot be loaded, TRL refuses a setting, the folder is taken, or
            there is nothing to resume; then no folder is made. Or no group had unequal rewards for
            `algorithm.patience` steps; everything until then is in the folder.
    """
    transformers_logging.disable_progress_bar()  # on_step shows the progress
    if recipe.trl.vllm and not torch.cuda.is_available():
        raise InputError(
            "trl.vllm is true and there is no GPU here: vLLM on a CPU cannot take the weights that "
            "TRL sends it; leave trl.vllm out"
        )
    if resume:
        if folder.summary.exists():
            raise InputError(f"the run in {folder.path} is finished: there is nothing to resume")
        recipes.require_same(recipe, folder.recipe)
    else:
        folder.require_free()
    task, config = task_of(recipe), grpo_config(recipe, folder.checkpoints)
    with config.main_process_first(desc="loading the model"):
        model, tokenizer = load_policy(recipe)
    task.check_tokenizer(tokenizer)
    steps = StepLogger(optimizer_steps(recipe), folder, on_step)
    patience = Patience(recipe.algorithm.patience, every=optimizer_steps(recipe))
    trainer = _make_trainer(task, config, folder, model, tokenizer, [steps, patience])
    with contextlib.ExitStack() as stack:
        if trainer.accelerator.is_main_process:
            stack.enter_context(folder.held())
            if not resume:
                folder.create(recipes.dump(recipe))
                tokenizer.save_pretrained(folder.tokenizer)
        _train(task, folder, trainer, steps, resume=resume, note=note)
        if steps.stopped_by:
            return steps.stopped_by
        if patience.ran_out:
            raise InputError(
                f"in {patience.patience} steps in a row the rewards of no group differed, so there "
                "was nothing to learn from: all rollouts of a prompt are correct, or none is, or "
                f"the grader fails. The rollouts and a checkpoint are in {folder.path}; "
                "algorithm.patience sets the number of steps"
            )
        if trainer.accelerator.is_main_process:
            with atomic_folder(folder.model) as temporary:
                trainer.save_model(str(temporary))
            note("evaluating the trained model")
            after = tasks.held_out_scores(task, trainer.model, tokenizer)
            write_json(folder.summary, _summary(recipe, folder, after))
        trainer.accelerator.wait_for_everyone()
    return 0


def _train(
    task: Task,
    folder: RunFolder,
    trainer: KTAETrainer,
    steps: StepLogger,
    *,
    resume: bool,
    note: Note,
) -> None:
    """Evaluate the model before its training, and train it, from the last checkpoint if any."""
    checkpoint = folder.last_checkpoint() if resume else None
    per_step = optimizer_steps(task.recipe)
    done = int(checkpoint.name.split("-")[1]) // per_step if checkpoint else 0
    trainer.accelerator.wait_for_everyone()
    if trainer.accelerator.is_main_process:
        if resume:
            folder.forget_after(done)
            note(
                f"going on after step {done}, from {checkpoint}" if done else "beginning at step 1"
            )
        if not folder.before.exists():
            note("evaluating the model before its training")
            tokenizer = trainer.processing_class
            write_json(folder.before, tasks.held_out_scores(task, trainer.model, tokenizer))
        folder.read_scores(folder.before)  # a damaged one is named now, and not after the training
    trainer.accelerator.wait_for_everyone()
    if done < task.recipe.steps:
        with stop_on_interrupt(steps):
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        return
    # A finished training lost only its end: `train` would take one more step. As at the beginning
    # of `train`, the model ends a response with the tokenizer's token (transformers 5.0 has that as
    # a method).
    trainer._load_from_checkpoint(str(checkpoint))
    if hasattr(trainer, "_align_special_tokens"):
        trainer._align_special_tokens()
    else:
        trainer_utils.align_special_tokens(trainer.model, trainer.processing_class)


def dry_run(recipe: Recipe, folder: RunFolder) -> str:
    """The whole recipe, which TRL accepts; no model is loaded."""
    policy_path(recipe, make=False)
    check_config(recipe.credit, grpo_config(recipe, folder.checkpoints))
    return f"# would train into {folder.path}\n{recipes.dump(recipe).rstrip()}"


def optimizer_steps(recipe: Recipe) -> int:
    """Optimizer steps that one training step of the recipe takes."""
    return recipe.algorithm.minibatches * recipe.algorithm.epochs


def grpo_config(recipe: Recipe, output: Path) -> GRPOConfig:
    """The `GRPOConfig` that trains the recipe, on as many processes as were launched.

    TRL counts optimizer steps, a recipe batches of rollouts. Checkpoints lie between batches, so
    that a resumed run samples what the uninterrupted one would have.
    """
    per_step = optimizer_steps(recipe)
    on_gpu = torch.cuda.is_available()
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    rollouts = recipe.rollout.prompts_per_step * recipe.rollout.group_size
    per_minibatch = rollouts // recipe.algorithm.minibatches
    at_once = recipe.trl.forward_rollouts or max(1, per_minibatch // processes)
    if per_minibatch % (processes * at_once):
        raise InputError(
            f"trl.forward_rollouts is {at_once}, on {processes} processes; together expected a "
            f"divisor of the {per_minibatch} rollouts of a minibatch "
            "(rollout.prompts_per_step × rollout.group_size / algorithm.minibatches)"
        )
    if recipe.algorithm.resampling_rounds and rollouts // processes % recipe.rollout.group_size:
        raise InputError(
            f"algorithm.resampling_rounds needs whole groups on each of the {processes} processes; "
            f"rollout.prompts_per_step is {recipe.rollout.prompts_per_step}"
        )
    passes = per_minibatch // (processes * at_once)  # forward and backward, in a minibatch
    with passed_on(*REFUSED):
        return GRPOConfig(
            **settings_of("trl", recipe),
            output_dir=str(output),
            max_steps=recipe.steps * per_step,
            per_device_train_batch_size=at_once,
            gradient_accumulation_steps=passes,
            steps_per_generation=recipe.algorithm.minibatches * passes,
            scale_rewards="group" if recipe.algorithm.scale_by_std else "none",
            warmup_steps=recipe.optimizer.warmup_steps * per_step,
            save_steps=recipe.logging.save_every * per_step,
            logging_steps=per_step,
            run_name=f"{recipe.name}-seed{recipe.seed}",
            report_to=list(recipe.logging.report_to) or "none",
            # TRL's defaults for these are for GPUs; on a CPU they cost time and precision.
            bf16=on_gpu,
            gradient_checkpointing=on_gpu,
            use_cpu=not on_gpu,
            # By default it would be NCCL, which knows no CPU.
            ddp_backend="gloo" if processes > 1 and not on_gpu else None,
        )


def _make_trainer(
    task: Task,
    config: GRPOConfig,
    folder: RunFolder,
    model: Any,
    tokenizer: Any,
    callbacks: list[Any],
) -> KTAETrainer:
    recipe = task.recipe

    def write_rollouts(batch: RolloutBatch) -> None:
        step = batch.step // optimizer_steps(recipe) + 1
        parts = gather_object([_as_record(batch, step, task, tokenizer)])
        if trainer.accelerator.is_main_process:
            folder.write_rollouts(step, pa.concat_tables(parts))

    lora, rank = None, recipe.model.lora_rank
    if rank:
        from peft import LoraConfig

        lora = LoraConfig(
            r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
        )
    reward_functions: list[Any] = [tasks.reward_function(task, tokenizer)]
    if buffer := recipe.algorithm.overlong_buffer:  # DAPO's penalty, which TRL adds to the rewards
        longest = recipe.rollout.max_response_length
        reward_functions.append(get_soft_overlong_punishment(longest, buffer))
    with passed_on(*REFUSED):
        trainer = KTAETrainer(
            model=model,
            processing_class=tokenizer,
            reward_funcs=reward_functions,
            args=config,
            train_dataset=tasks.train_set(task),
            callbacks=callbacks,
            credit=recipe.credit,
            correctness="correct",
            threshold=recipe.correct_above,
            resampling_rounds=recipe.algorithm.resampling_rounds,
            on_rollouts=write_rollouts,
            peft_config=lora,
        )
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        raise InputError(
            "ktae train keeps the whole model in each process; for FSDP and DeepSpeed use "
            "ktae.trainers.trl.KTAETrainer in a script of your own"
        )
    trainer.remove_callback(PrinterCallback)
    return trainer


def load_policy(recipe: Recipe) -> tuple[Any, Any]:
    """Model and tokenizer; the demo's model is pretrained if it is not there yet."""
    if recipe.task.source == "demo":
        torch.set_num_threads(1)  # two threads on so small a model only wait for each other
    name = policy_path(recipe)
    kinds = (OSError, ValueError, RuntimeError, SafetensorError)
    with passed_on(f"cannot load model.path {name!r}", *kinds):
        tokenizer = AutoTokenizer.from_pretrained(
            name, padding_side="left", trust_remote_code=False
        )
        model = AutoModelForCausalLM.from_pretrained(
            name, dtype=torch.float32, trust_remote_code=False
        )
    return model, tokenizer


def _as_record(batch: RolloutBatch, step: int, task: Task, tokenizer: Any) -> pa.Table:
    """One training step's rollouts in the shared record."""
    group_size = task.recipe.rollout.group_size
    n = len(batch.token_ids)
    credit = zip(batch.credit.tolist(), batch.token_ids, strict=True)
    table = pa.table(
        {
            "group": [str((batch.first_row + i) // group_size) for i in range(n)],
            "step": pa.array([step] * n, pa.int32()),
            "prompt": [written_out(row["prompt"], tokenizer) for row in batch.inputs],
            "response": tokenizer.batch_decode(batch.token_ids),
            "answer": [str(row["answer"]) for row in batch.inputs],
            "token_ids": batch.token_ids,
            "mask": [[x != 0 for x in mask] if 0 in mask else None for mask in batch.masks],
            # NaN: a rollout that no reward function could score.
            "reward": [None if math.isnan(r) else r for r in batch.rewards.tolist()],
            "correct": batch.correct.tolist(),
            "advantage": batch.advantages.tolist(),
            "credit": [row[: len(ids)] for row, ids in credit],
        }
    )
    return record.conform(table)  # all processes share its types, also where all values are null


def _summary(recipe: Recipe, folder: RunFolder, after: dict[str, float]) -> dict[str, Any]:
    lines = folder.read_metrics()
    credit_seconds = [line[f"{PREFIX}seconds"] for line in lines if f"{PREFIX}seconds" in line]
    return {
        "recipe": recipe.name,
        "seed": recipe.seed,
        "steps": recipe.steps,
        "before": folder.read_scores(folder.before),
        "after": after,
        # Medians: a checkpoint now and then takes a moment.
        "seconds_per_step": statistics.median(line["seconds"] for line in lines),
        "credit_seconds_per_step": statistics.median(credit_seconds) if credit_seconds else None,
    }
