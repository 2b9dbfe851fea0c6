"""Between training steps: the metrics file, and a signal to stop."""

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
from ktae.trainers.trl.callbacks import is_between

OnStep = Callable[[dict[str, Any]], None]


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
        if not is_between(state, self.every):
            return
        asked = torch.tensor([self.asked_to_stop], device=args.device)
        self.stopped_by = int(gather(asked).max())
        if self.stopped_by:
            control.should_save = control.should_training_stop = True


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
