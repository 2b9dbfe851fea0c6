"""What happens between training steps: the metrics file, a signal to stop, and giving up."""

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

from ktae.experiments.run_folder import RunFolder

OnStep = Callable[[dict[str, Any]], None]


class Patience(TrainerCallback):
    """Saves and stops after `patience` logged steps in a row in which no group's rewards differed.

    `every` optimizer steps belong together (a batch of rollouts), so it stops only between those.
    Of them the first alone has rollouts to compare, and it alone is counted.
    """

    def __init__(self, patience: int, *, every: int = 1) -> None:
        self.patience = patience
        self.every = every
        self.equal_steps = 0
        self.ran_out = False

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Count; the trainer's metrics are the same on every process."""
        if logs is not None and "loss" in logs:  # not those of an evaluation
            # What dynamic sampling could not replace counts; without it, what was sampled.
            names = ("dynamic_sampling/dropped_groups", "dynamic_sampling/equal_groups")
            if (share := next((logs[name] for name in names if name in logs), None)) is not None:
                self.equal_steps = self.equal_steps + 1 if share == 1 else 0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The metrics of this step are logged after this, so the count is one step old."""
        if self.equal_steps >= self.patience and _is_between(state, self.every):
            self.ran_out = control.should_save = control.should_training_stop = True


class StepLogger(TrainerCallback):
    """Writes each training step's metrics, and stops between steps after Ctrl-C or SIGTERM.

    `every` optimizer steps belong together. One process may be interrupted before the others: they
    agree before they stop.
    """

    def __init__(self, every: int, folder: RunFolder, on_step: OnStep) -> None:
        self.every = every
        self.folder = folder
        self.on_step = on_step
        self.asked_to_stop = 0
        """The number of the signal that asked for it."""
        self.stopped_by = 0
        """The same, once all processes have agreed."""
        self.began = time.perf_counter()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock."""
        self.began = time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """One line for each batch of rollouts; the trainer's closing summary is left out."""
        if logs is None or "loss" not in logs:
            return
        now = time.perf_counter()
        seconds, self.began = now - self.began, now
        if state.is_world_process_zero:
            line = {"step": state.global_step // self.every, "seconds": seconds} | logs
            self.folder.append_metrics(line)
            self.on_step(line)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Save and stop if the user asked for it."""
        if not _is_between(state, self.every):
            return
        asked = torch.tensor([self.asked_to_stop], device=args.device)
        self.stopped_by = int(gather(asked).max())
        if self.stopped_by:
            control.should_save = control.should_training_stop = True


def _is_between(state: Any, every: int) -> bool:
    """Whether a batch of rollouts has ended, and not the training."""
    return bool(state.global_step % every == 0 and state.global_step < state.max_steps)


@contextmanager
def stop_on_interrupt(steps: StepLogger) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM stops after the step under way; a second one at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in usual.items():
            signal.signal(number, handler)

    def stop(number: int, _: Any) -> None:
        restore()
        steps.asked_to_stop = number
        sys.stderr.write("\nfinishing this step; a second signal stops at once\n")

    for number in usual:
        signal.signal(number, stop)
    try:
        yield
    finally:
        restore()
