"""Groups of equal rewards are sampled anew, or dropped from the loss and from its normaliser."""

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from datasets import Dataset
from trl import GRPOTrainer

from ktae import InputError
from ktae.trainers.trl import DynamicSampling, KTAETrainer
from ktae.trainers.trl.dynamic_sampling import LOSSES, merge
from ktae.trainers.trl.gradient_check import (
    WEIGHTS,
    even_start,
    expected_gradient,
    naive_advantages,
    relative_error,
    train_one_step,
)


def often_equal(prompts, completion_ids, **_):
    """0 for three prompts of four, whatever the answer; the usual reward for the others."""
    return [
        0.0 if sum(map(ord, prompt)) % 4 else float(ids[0] % 2 == 0)
        for prompt, ids in zip(prompts, completion_ids, strict=True)
    ]


def correct_of(batch):
    return often_equal([row["prompt"] for row in batch.inputs], batch.token_ids)


def groups_of_unequal_rewards(batch):
    rewards = np.array(correct_of(batch)).reshape(-1, 4)
    return (rewards != rewards[:, :1]).any(axis=1)


def trained(arguments, **more):
    """The first batch of rollouts, and what was logged of it."""
    batches = []
    more = {"credit": "paper"} | more
    trainer = KTAETrainer(**arguments, on_rollouts=batches.append, **more)
    trainer.train()
    return batches[0], next(line for line in trainer.state.log_history if "loss" in line)


def test_merge_pads_as_trl_does():
    wide = {"importance_sampling_ratio": torch.full((1, 3), 0.5), "tool_mask": torch.ones(1, 3)}
    narrow = {"importance_sampling_ratio": torch.full((1, 1), 0.5), "tool_mask": torch.zeros(1, 1)}
    merged = merge([wide, narrow], [(1, 0)], pad_token_id=99)
    assert merged["importance_sampling_ratio"].tolist() == [[0.5, 1, 1]]
    assert merged["tool_mask"].tolist() == [[0, 1, 1]]


@pytest.mark.parametrize(("loss_type", "passes"), zip(LOSSES, (4, 1, 4), strict=True))
def test_gradient_is_that_of_the_groups_that_are_left(trainer_arguments, loss_type, passes):
    """One round does not replace every group; the rest counts nowhere."""
    settings = {"per_device_train_batch_size": 16 // passes, "gradient_accumulation_steps": passes}
    arguments = trainer_arguments(loss_type=loss_type, **settings) | {"reward_funcs": often_equal}
    batch, policy, gradient = train_one_step(arguments, credit="paper", resampling_rounds=1)
    kept = np.repeat(groups_of_unequal_rewards(batch), 4)
    assert kept.any()
    assert not kept.all(), "every group was replaced: nothing is dropped here"
    advantages = torch.from_numpy(naive_advantages(batch, correct_of(batch)))
    expected = expected_gradient(
        policy, arguments["processing_class"], batch, advantages, WEIGHTS[loss_type],
        rows=np.flatnonzero(kept).tolist(),
    )  # fmt: skip
    assert relative_error(gradient, expected) < 1e-6


def test_enough_rounds_leave_no_equal_group(trainer_arguments, tmp_path):
    """And the table of completions shows the batch that is trained on."""
    arguments = trainer_arguments(log_completions=True, logging_steps=1)
    batch, logged = trained(arguments | {"reward_funcs": often_equal}, resampling_rounds=20)
    assert groups_of_unequal_rewards(batch).all()
    prompts = [row["prompt"] for row in batch.inputs]
    assert prompts == [prompts[i // 4 * 4] for i in range(16)], "a group has one prompt"
    assert logged["dynamic_sampling/equal_groups"] > 0
    assert logged["dynamic_sampling/dropped_groups"] == 0
    assert 1 <= logged["dynamic_sampling/rounds"] <= 20

    (file,) = (tmp_path / "out/completions").glob("*.parquet")
    table = pq.read_table(file).to_pydict()
    assert table["prompt"] == prompts
    assert table["often_equal"] == correct_of(batch)
    for row, ids in enumerate(batch.token_ids):
        credit = batch.credit[row, : len(ids)].numpy()
        np.testing.assert_allclose(table["token_credit"][row], credit, atol=1e-5)
        mean = float(batch.advantages[row]) + credit.mean()
        assert table["advantage"][row] == pytest.approx(mean, abs=1e-5)


def test_it_works_without_ktae(trainer_arguments):
    class Trainer(DynamicSampling, GRPOTrainer):
        def _generate_and_score_completions(self, inputs):
            self.output = super()._generate_and_score_completions(inputs)
            return self.output

    trainer = Trainer(**trainer_arguments() | {"reward_funcs": often_equal}, resampling_rounds=20)
    trainer.train()
    groups = trainer.output["advantages"].view(-1, 4)
    assert (groups != 0).any(dim=1).all(), "a group of equal rewards is left"
    rewards = torch.tensor(even_start(trainer.output["completion_ids"].tolist())).view(-1, 4)
    assert torch.equal(rewards > rewards.mean(1, keepdim=True), groups > 0)


@pytest.mark.parametrize(
    ("aggregation", "share"), [("sum_then_normalize", 1), ("normalize_then_sum", 0)]
)
def test_rewards_are_compared_one_by_one_where_trl_normalises_each(
    trainer_arguments, aggregation, share
):
    """Equal sums of unequal parts have an advantage there, and none otherwise."""

    def first(completion_ids, **_):
        return [float(i % 2) for i in range(len(completion_ids))]

    def second(completion_ids, **_):
        return [float(1 - i % 2) for i in range(len(completion_ids))]

    arguments = trainer_arguments(multi_objective_aggregation=aggregation, logging_steps=1)
    arguments |= {"reward_funcs": [first, second]}
    _, logged = trained(arguments, correctness="first", resampling_rounds=1)
    assert logged["dynamic_sampling/dropped_groups"] == share


def test_resumed_run_draws_the_same_prompts(trainer_arguments, tmp_path):
    def run(resume=None):
        arguments = trainer_arguments(max_steps=2, save_strategy="steps", save_steps=1)
        arguments |= {"reward_funcs": often_equal, "resampling_rounds": 2}
        batches = []
        trainer = KTAETrainer(**arguments, on_rollouts=batches.append)
        trainer.train(resume_from_checkpoint=resume)
        return [[row["prompt"] for row in batch.inputs] for batch in batches]

    straight = run()
    assert run() == straight, "the prompts are drawn with the run's seed"
    assert run(str(tmp_path / "out/checkpoint-1")) == straight[1:]


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({"loss_type": "grpo"}, {}),
        ({}, {"train_dataset": Dataset.from_dict({"prompt": ["1"] * 4, "image": ["x"] * 4})}),
    ],
)
def test_what_cannot_be_sampled_anew_is_refused(trainer_arguments, settings, more):
    with pytest.raises(InputError):
        KTAETrainer(**trainer_arguments(**settings) | {"resampling_rounds": 1} | more)
