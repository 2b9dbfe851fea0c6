"""Train a recipe through TRL, into a run folder."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import resource
import statistics
import warnings
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

from ktae import recipe as recipes
from ktae.data.tasks import prepared_file
from ktae.demo import language_named
from ktae.demo.pretrain import base_model
from ktae.errors import InputError, one_line
from ktae.files.atomic import atomic_folder
from ktae.files.hub import check_local_or_hub, local_or_hub
from ktae.recipe import Recipe
from ktae.rollouts import record
from ktae.runs import RunFolder, write_json
from ktae.trainers.metrics import PREFIX
from ktae.trainers.trl.callbacks import OnStep, Patience, StepLogger, stop_on_interrupt
from ktae.trainers.trl.checks import check_arguments, check_enough
from ktae.trainers.trl.rollouts import RolloutBatch
from ktae.trainers.trl.settings import grpo_config, optimizer_steps
from ktae.trainers.trl.tasks import Task, overlong_penalty, prompt_text, task_of
from ktae.trainers.trl.trainer import KTAETrainer

Note = Callable[[str], None]
"""Told what a user should know, in one line."""


def run(recipe: Recipe, folder: RunFolder, *, resume: bool, on_step: OnStep, note: Note) -> int:
    """Train, evaluate before and after, and leave everything in `folder`.

    Under torchrun or `accelerate launch` every process calls this; the first one evaluates, writes
    and calls `on_step` with each training step's metrics. Returns 0, or the number of the signal
    that stopped the training; a checkpoint of the step then under way is in the folder. `note` is
    told what a resumed run goes on from.

    Raises:
        InputError: the model cannot be loaded, TRL refuses a setting, the folder is taken, there
            is nothing to resume; no folder is made then. Or no group has had unequal rewards for
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
    config = grpo_config(recipe, folder.checkpoints)
    task = task_of(recipe)
    with config.main_process_first(desc="loading the model"):
        model, tokenizer = load_policy(recipe)
    task.check(tokenizer, recipe)
    steps = StepLogger(recipe, folder, on_step)
    patience = Patience(recipe.algorithm.patience, every=optimizer_steps(recipe))
    callbacks = [steps, patience]
    trainer = _make_trainer(recipe, config, folder, task, model, tokenizer, callbacks)
    check_enough(trainer.train_dataset, config)
    with contextlib.ExitStack() as stack:
        if trainer.accelerator.is_main_process:
            stack.enter_context(folder.held())
            if not resume:
                folder.create(recipes.dump(recipe))
        return _run(recipe, folder, task, trainer, steps, patience, resume=resume, note=note)


def _run(
    recipe: Recipe,
    folder: RunFolder,
    task: Task,
    trainer: KTAETrainer,
    steps: StepLogger,
    patience: Patience,
    *,
    resume: bool,
    note: Note,
) -> int:
    """`run`, once everything is loaded and the first process holds the folder."""
    is_main, tokenizer = trainer.accelerator.is_main_process, trainer.processing_class
    checkpoint = next(iter(folder.all_checkpoints()), None) if resume else None
    done = int(checkpoint.name.split("-")[1]) // optimizer_steps(recipe) if checkpoint else 0
    trainer.accelerator.wait_for_everyone()
    if is_main and resume:
        folder.remove_leftovers()
        folder.forget_after(done)
        note(f"going on after step {done}, from {checkpoint}" if done else "beginning at step 1")
    if is_main and not folder.before.exists():
        note("evaluating the model before its training")
        write_json(folder.before, task.evaluate(trainer.model, tokenizer, recipe))
    before = folder.read_before() if is_main else {}
    trainer.accelerator.wait_for_everyone()
    _train(trainer, steps, checkpoint, done=done >= recipe.steps)
    if steps.stopped_by:
        return steps.stopped_by
    if patience.ran_out:
        raise InputError(
            f"in {patience.patience} steps in a row the rewards of no group differed, so there was "
            "nothing to learn from: all rollouts of a prompt are right, or all are wrong, or the "
            f"grader fails. The rollouts and a checkpoint are in {folder.path}; algorithm.patience "
            "sets the number of steps"
        )
    if is_main:
        with atomic_folder(folder.model) as temporary:
            trainer.save_model(str(temporary))
        note("evaluating the trained model")
        after = task.evaluate(trainer.model, tokenizer, recipe)
        write_json(folder.summary, _summary(recipe, folder.read_metrics(), before, after))
    trainer.accelerator.wait_for_everyone()
    return 0


def _train(trainer: KTAETrainer, steps: StepLogger, checkpoint: Path | None, *, done: bool) -> None:
    if not done:
        with stop_on_interrupt(steps):
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        return
    # Only the run's end was lost, and `train` would take one step more before it looks at its
    # number. What else `train` does at its beginning: the model ends a response with the
    # tokenizer's token (transformers 5.0 has that as a method).
    trainer._load_from_checkpoint(str(checkpoint))
    if hasattr(trainer, "_align_special_tokens"):
        trainer._align_special_tokens()
    else:
        trainer_utils.align_special_tokens(trainer.model, trainer.processing_class)


def dry_run(recipe: Recipe, folder: RunFolder) -> str:
    """The recipe, and what of TRL's configuration it sets; no model is loaded.

    Raises:
        InputError: TRL refuses a setting, or the model is a path that does not exist.
    """
    if recipe.model.path != "demo":
        check_local_or_hub("model", recipe.model.path)
    try:
        config = grpo_config(recipe, folder.checkpoints)
        check_arguments(recipe.credit, args=config)
    except InputError:
        raise
    except (ValueError, ImportError) as error:
        raise InputError(f"TRL refuses the recipe: {one_line(error)}") from error
    lines = [f"# would train into {folder.path}", recipes.dump(recipe).rstrip()]
    if recipe.task == "math" and not prepared_file(recipe, "train").is_file():
        missing = prepared_file(recipe, "train")
        lines.append(f"# {missing} does not exist yet: see ktae data prepare")
    lines.append("# TRL's GRPOConfig on this machine, where it differs from TRL's defaults:")
    for field in dataclasses.fields(GRPOConfig):
        value = getattr(config, field.name)
        plain = isinstance(value, str | int | float | list)
        if plain and field.default is not dataclasses.MISSING and value != field.default:
            lines.append(f"#   {field.name}: {value}")
    return "\n".join(lines)


def _make_trainer(
    recipe: Recipe,
    config: GRPOConfig,
    folder: RunFolder,
    task: Task,
    model: Any,
    tokenizer: Any,
    callbacks: list[Any],
) -> KTAETrainer:
    def keep(batch: RolloutBatch) -> None:
        step = batch.step // optimizer_steps(recipe) + 1
        parts = gather_object([_as_record(batch, step, recipe, tokenizer)])
        if trainer.accelerator.is_main_process:
            folder.write_rollouts(step, pa.concat_tables(parts))

    lora = None
    if rank := recipe.model.lora_rank:
        from peft import LoraConfig

        lora = LoraConfig(
            r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
        )
    rewards = [task.reward(tokenizer, recipe)]
    if (penalty := overlong_penalty(recipe)) is not None:
        rewards.append(penalty)
    # That its loop for several turns may change concerns us, and the tests run it.
    warnings.filterwarnings("ignore", message="You are using 'rollout_func'")
    try:
        trainer = KTAETrainer(
            model=model,
            processing_class=tokenizer,
            reward_funcs=rewards,
            args=config,
            train_dataset=task.train_set(recipe),
            callbacks=callbacks,
            credit=recipe.credit,
            correctness="correct",
            threshold=recipe.correct_above,
            resampling_rounds=recipe.algorithm.resampling_rounds,
            on_rollouts=keep,
            peft_config=lora,
            rollout_func=task.rollout_function(tokenizer, recipe),
        )
    except InputError:
        raise
    except (ValueError, ImportError) as error:
        raise InputError(f"TRL refuses the recipe: {one_line(error)}") from error
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        raise InputError(
            "ktae train keeps the whole model in each process; for FSDP and DeepSpeed use "
            "ktae.trainers.trl.KTAETrainer in a script of your own"
        )
    trainer.remove_callback(PrinterCallback)
    return trainer


def load_policy(recipe: Recipe) -> tuple[Any, Any]:
    """Model and tokenizer; the demo's model is pretrained if it is not there yet.

    Raises:
        InputError: they cannot be loaded.
    """
    if recipe.model.path == "demo":
        language = language_named(recipe.demo.language)
        torch.set_num_threads(1)  # two threads on so small a model only wait for each other
        name = str(base_model(language, recipe.model.demo_seed))
    else:
        name = local_or_hub("model", recipe.model.path)
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            name, padding_side="left", trust_remote_code=False
        )
        model = AutoModelForCausalLM.from_pretrained(
            name, dtype=torch.float32, trust_remote_code=False
        )
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise InputError(f"cannot load model.path {name!r}: {one_line(error)}") from error
    return model, tokenizer


def _as_record(batch: RolloutBatch, step: int, recipe: Recipe, tokenizer: Any) -> pa.Table:
    """One training step's rollouts in the shared record."""
    group_size = recipe.rollout.group_size
    n = len(batch.token_ids)
    credit = zip(batch.credit.tolist(), batch.token_ids, strict=True)
    table = pa.table(
        {
            "group": [str((batch.first_row + i) // group_size) for i in range(n)],
            "step": pa.array([step] * n, pa.int32()),
            "prompt": [prompt_text(tokenizer, row["prompt"]) for row in batch.inputs],
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


def _summary(
    recipe: Recipe,
    lines: list[dict[str, Any]],
    before: dict[str, float],
    after: dict[str, float],
) -> dict[str, Any]:
    credit_seconds = [line[f"{PREFIX}seconds"] for line in lines if f"{PREFIX}seconds" in line]
    return {
        "recipe": recipe.name,
        "seed": recipe.seed,
        "steps": recipe.steps,
        "before": before,
        "after": after,
        # Medians: a checkpoint now and then takes a moment.
        "training_seconds": sum(line["seconds"] for line in lines),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "seconds_per_step": statistics.median(line["seconds"] for line in lines),
        "credit_seconds_per_step": statistics.median(credit_seconds) if credit_seconds else None,
    }
