"""Train a recipe through TRL, into a run folder."""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from safetensors import SafetensorError
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PrinterCallback,
    TrainerCallback,
)
from transformers.utils import logging as transformers_logging

from ktae import recipe as recipes
from ktae.atomic import atomic_folder
from ktae.curves import draw
from ktae.errors import InputError
from ktae.hub import check_local_or_hub
from ktae.recipe import Recipe
from ktae.runs import RunFolder, write_json
from ktae.trl.settings import grpo_config, optimizer_steps
from ktae.trl.tasks import TASKS, Task
from ktae.trl.trainer import KTAETrainer, RolloutBatch

OnStep = Callable[[dict[str, Any]], None]


def run(recipe: Recipe, folder: RunFolder, *, resume: bool, on_step: OnStep) -> bool:
    """Train, evaluate before and after, and leave everything in `folder`.

    `on_step` gets each training step's metrics. Returns False where the user interrupted the
    training; a checkpoint of the step then under way is in the folder.

    Raises:
        InputError: the model cannot be loaded, TRL refuses a setting, the folder is taken, there
            is nothing to resume. No folder is made then.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("ktae train runs on one process; WORLD_SIZE is more than 1")
    transformers_logging.disable_progress_bar()  # on_step shows the progress
    if resume:
        _require_unfinished(recipe, folder)
    else:
        folder.require_free()
    task = TASKS[recipe.task]
    model, tokenizer = _load_policy(recipe)
    task.check(tokenizer)
    steps = _StepLogger(recipe, folder, on_step)
    trainer = _make_trainer(recipe, folder, task, model, tokenizer, steps)
    if not resume:
        folder.create(recipes.dump(recipe))
    if not folder.before.exists():
        write_json(folder.before, task.evaluate(trainer.model, tokenizer, recipe))
    checkpoint = _rewind(recipe, folder) if resume else None
    with _interrupts(steps):
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if steps.interrupted:
        return False
    with atomic_folder(folder.model) as temporary:
        trainer.save_model(str(temporary))
    _summarise(recipe, folder, task, trainer.model, tokenizer)
    return True


def _make_trainer(
    recipe: Recipe, folder: RunFolder, task: Task, model: Any, tokenizer: Any, steps: _StepLogger
) -> KTAETrainer:
    def keep(batch: RolloutBatch) -> None:
        step = batch.step // optimizer_steps(recipe) + 1
        folder.write_rollouts(step, _as_record(batch, step, recipe, tokenizer))

    try:
        trainer = KTAETrainer(
            model=model,
            processing_class=tokenizer,
            reward_funcs=task.reward(tokenizer),
            args=grpo_config(recipe, folder.checkpoints),
            train_dataset=task.train_set(recipe),
            callbacks=[steps],
            ktae=recipe.ktae.config() if recipe.ktae else None,
            on_rollouts=keep,
        )
    except (ValueError, ImportError) as error:
        raise InputError(f"TRL refuses the recipe: {_one_line(error)}") from error
    trainer.remove_callback(PrinterCallback)
    return trainer


def _require_unfinished(recipe: Recipe, folder: RunFolder) -> None:
    """Raise an InputError unless the folder holds an unfinished run of this recipe."""
    if not folder.recipe.exists():
        raise InputError(f"{folder.path} holds no run to resume; leave --resume out to start one")
    if folder.summary.exists():
        raise InputError(f"the run in {folder.path} is finished: there is nothing to resume")
    started = recipes.flat(recipes.load(folder.recipe))
    changed = [
        f"{key} ({started.get(key)!r} there, {value!r} here)"
        for key, value in recipes.flat(recipe).items()
        if started.get(key) != value
    ]
    if changed:
        raise InputError(
            f"{folder.recipe} differs from the recipe given in {', '.join(changed)}; "
            "resume with the recipe that the run was started with"
        )


def _rewind(recipe: Recipe, folder: RunFolder) -> Path | None:
    """The checkpoint to resume from, if any; what was written after it is dropped."""
    checkpoint = folder.last_checkpoint()
    step = int(checkpoint.name.split("-")[1]) // optimizer_steps(recipe) if checkpoint else 0
    folder.forget_after(step)
    return checkpoint


def _load_policy(recipe: Recipe) -> tuple[Any, Any]:
    """Model and tokenizer."""
    name = recipe.model.path
    if name == "demo":
        from ktae.demo.pretrain import base_model

        torch.set_num_threads(1)  # two threads on so small a model only wait for each other
        name = str(base_model(seed=recipe.model.demo_seed))
    else:
        check_local_or_hub("model", name)
        name = os.path.expanduser(name)
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, padding_side="left")
        model = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise InputError(f"cannot load model.path {name!r}: {_one_line(error)}") from error
    return model, tokenizer


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _as_record(batch: RolloutBatch, step: int, recipe: Recipe, tokenizer: Any) -> pa.Table:
    """One training step's rollouts in the shared record."""
    group_size = recipe.rollout.group_size
    n = len(batch.token_ids)
    terms = zip(batch.terms.tolist(), batch.token_ids, strict=True)
    return pa.table(
        {
            "group": [str((batch.first_row + i) // group_size) for i in range(n)],
            "step": pa.array([step] * n, pa.int32()),
            "prompt": [row["prompt"] for row in batch.inputs],
            "response": tokenizer.batch_decode(batch.token_ids),
            "answer": [str(row["answer"]) for row in batch.inputs],
            "token_ids": batch.token_ids,
            # A rollout that no reward function could score: the record marks it by `correct`.
            "reward": torch.nan_to_num(batch.rewards, nan=0.0).tolist(),
            "correct": batch.correct.tolist(),
            "advantage": batch.advantages.tolist(),
            "terms": [row[: len(ids)] for row, ids in terms],
        }
    )


def _summarise(recipe: Recipe, folder: RunFolder, task: Task, model: Any, tokenizer: Any) -> None:
    lines = folder.read_metrics()
    draw(lines, folder.curves, title=recipe.name)
    ktae_seconds = [line["ktae/seconds"] for line in lines if "ktae/seconds" in line]
    write_json(
        folder.summary,
        {
            "recipe": recipe.name,
            "seed": recipe.seed,
            "steps": recipe.steps,
            "before": json.loads(folder.before.read_text(encoding="utf-8")),
            "after": task.evaluate(model, tokenizer, recipe),
            # Medians: the first step compiles, and a checkpoint now and then takes a moment.
            "seconds_per_step": statistics.median(line["seconds"] for line in lines),
            "ktae_seconds_per_step": statistics.median(ktae_seconds) if ktae_seconds else None,
        },
    )


class _StepLogger(TrainerCallback):
    """Writes each training step's metrics, and stops between steps when asked to."""

    def __init__(self, recipe: Recipe, folder: RunFolder, on_step: OnStep) -> None:
        self.per_step = optimizer_steps(recipe)
        self.folder = folder
        self.on_step = on_step
        self.stop = threading.Event()
        self.interrupted = False
        self.began = time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """One line for each batch of rollouts; the trainer's closing summary is left out."""
        if logs is None or "loss" not in logs:
            return
        now = time.perf_counter()
        seconds, self.began = now - self.began, now
        line = {"step": state.global_step // self.per_step, "seconds": seconds} | logs
        self.folder.append_metrics(line)
        self.on_step(line)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock."""
        self.began = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Between batches of rollouts, save and stop if the user asked for it."""
        between = state.global_step % self.per_step == 0
        if self.stop.is_set() and between and state.global_step < state.max_steps:
            self.interrupted = True
            control.should_save = True
            control.should_training_stop = True


@contextmanager
def _interrupts(steps: _StepLogger) -> Iterator[None]:
    """The first Ctrl-C stops after the step under way; a second one at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.getsignal(signal.SIGINT)

    def on_interrupt(*_: Any) -> None:
        signal.signal(signal.SIGINT, usual)
        steps.stop.set()
        sys.stderr.write("\nfinishing this step; Ctrl-C again stops at once\n")

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
