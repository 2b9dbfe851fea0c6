"""Giving up where there is nothing to learn."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback


class Patience(TrainerCallback):
    """Saves and stops after `patience` logged steps in a row in which no group's rewards differed.

    `every` optimizer steps belong together (a batch of rollouts), so it stops only between those.
    Of them the first alone has rollouts to compare, and it alone is counted.
    """

    def __init__(self, patience: int, *, every: int = 1) -> None:
        self.patience, self.every = patience, every
        self.equal_steps, self.ran_out = 0, False

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Count; the trainer's metrics are the same on every process."""
        if logs is not None and "loss" in logs:  # not those of an evaluation
            # What dynamic sampling could not replace counts; without it, what was sampled.
            names = ("dynamic_sampling/dropped_groups", "dynamic_sampling/equal_groups")
            if (share := next((logs[name] for name in names if name in logs), None)) is not None:
                self.equal_steps = self.equal_steps + 1 if share == 1 else 0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The metrics of this step are logged after this, so the count is one step old."""
        if self.equal_steps >= self.patience and is_between(state, self.every):
            self.ran_out = control.should_save = control.should_training_stop = True


def is_between(state: Any, every: int) -> bool:
    """Whether a batch of rollouts has ended, and not the training."""
    return bool(state.global_step % every == 0 and state.global_step < state.max_steps)
