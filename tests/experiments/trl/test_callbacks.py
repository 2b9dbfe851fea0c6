"""Training stops where the rewards of no group differ any more, and after a signal."""

import signal

import pytest
from transformers import TrainerCallback

from ktae.experiments.run_folder import RunFolder
from ktae.experiments.trl.steps import StepLogger, stop_on_interrupt
from ktae.trainers.trl import KTAETrainer, Patience


class CountRounds:
    """A reward: equal for all rollouts, but for those of one batch."""

    __name__ = "count_rounds"

    def __init__(self, unequal):
        self.batches = 0
        self.unequal = unequal

    def __call__(self, completion_ids, **_):
        self.batches += 1
        differ = self.batches == self.unequal
        return [float(differ and row % 2) for row in range(len(completion_ids))]


class CountSteps(TrainerCallback):
    steps = 0

    def on_train_end(self, args, state, control, **_):
        self.steps = state.global_step


@pytest.mark.parametrize(("settings", "unequal"), [({}, 0), ({}, 2), ({"num_iterations": 2}, 2)])
def test_it_stops_after_equal_batches_in_a_row(trainer_arguments, settings, unequal):
    """Also where a batch serves two optimizer steps, of which the second compares no rewards."""
    per_batch = 2 if settings else 1
    arguments = trainer_arguments(max_steps=20, logging_steps=1, **settings)
    reward, count = CountRounds(unequal), CountSteps()
    patience = Patience(2, every=per_batch)
    trainer = KTAETrainer(
        **arguments | {"reward_funcs": reward}, callbacks=[patience, count], credit="paper"
    )
    trainer.train()
    assert patience.ran_out
    # Metrics are logged after a step; with one step a batch they come too late for that batch.
    batches = unequal + 2 if settings else unequal + 3
    assert count.steps == per_batch * batches


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_either_signal_is_remembered_once(tmp_path, number, capsys):
    steps = StepLogger(1, RunFolder(tmp_path), lambda _: None)
    usual = signal.getsignal(number)
    with stop_on_interrupt(steps):
        assert signal.getsignal(number) != usual
        signal.raise_signal(number)
        assert steps.asked_to_stop == number
        assert signal.getsignal(number) == usual, "a second one does what it always does"
    assert capsys.readouterr().err
