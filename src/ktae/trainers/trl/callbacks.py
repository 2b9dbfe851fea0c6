"""What happens between training steps: the metrics file, Ctrl-C, and giving up."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import gather
from transformers import TrainerCallback

from ktae.recipe import Recipe
from ktae.runs import RunFolder
from ktae.trainers.trl.settings import optimizer_steps

OnStep = Callable[[dict[str, Any]], None]


class Patience(TrainerCallback):
    """Saves and stops after `patience` logged steps in a row in which no group's rewards differed.

    `every` optimizer steps belong together (a batch of rollouts), so it stops only between those.
    """

    def __init__(self, patience: int, *, every: int = 1) -> None:
        self.patience = patience
        self.every = every
        self.equal_steps = 0
        self.ran_out = False

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Count; the trainer's metrics are the same on every process."""
        if logs is not None and "loss" in logs:
            share = logs.get("dynamic_sampling/dropped_groups")
            share = logs.get("dynamic_sampling/equal_groups") if share is None else share
            self.equal_steps = self.equal_steps + 1 if share == 1 else 0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The metrics of this step are logged after this, so the count is one step old."""
        between = state.global_step % self.every == 0 and state.global_step < state.max_steps
        if between and self.equal_steps >= self.patience:
            self.ran_out = True
            control.should_save = True
            control.should_training_stop = True


class StepLogger(TrainerCallback):
    """Writes each training step's metrics, and stops between steps after Ctrl-C.

    One process may be interrupted before the others: they agree before they stop.
    """

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
        if state.is_world_process_zero:
            line = {"step": state.global_step // self.per_step, "seconds": seconds} | logs
            self.folder.append_metrics(line)
            self.on_step(line)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock."""
        self.began = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Between batches of rollouts, save and stop if the user asked for it."""
        if state.global_step % self.per_step or state.global_step >= state.max_steps:
            return
        stop = torch.tensor([int(self.stop.is_set())], device=args.device)
        self.interrupted = bool(gather(stop).sum() > 0)
        if self.interrupted:
            control.should_save = True
            control.should_training_stop = True


@contextmanager
def stop_on_interrupt(steps: StepLogger) -> Iterator[None]:
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
