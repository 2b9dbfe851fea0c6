"""Proof that the (B, T) advantages reach TRL's loss at their tokens: `gradient_check`, under every
setting of TRL's that leaves the first step's gradient as it is."""

import pytest
import torch

from ktae.trainers.trl import KTAETrainer
from ktae.trainers.trl.gradient_check import (
    MAX_LENGTH,
    WEIGHTS,
    KeepGradient,
    expected_gradient,
    naive_advantages,
    relative_error,
    train_one_step,
)


@pytest.mark.parametrize("loss_type", WEIGHTS)
def test_gradient_is_that_of_token_level_advantages(trainer_arguments, loss_type):
    settings = {"epsilon_high": 5.0} if loss_type == "cispo" else {}
    arguments = trainer_arguments(loss_type=loss_type, **settings)
    batch, policy, gradient = train_one_step(arguments)

    advantages = torch.from_numpy(naive_advantages(batch))
    tokenizer = arguments["processing_class"]
    expected = expected_gradient(policy, tokenizer, batch, advantages, WEIGHTS[loss_type])
    assert relative_error(gradient, expected) < 1e-6

    # The comparison can tell: a loss that averages in another way has another gradient, and
    lengths = torch.tensor([float(len(ids)) for ids in batch.token_ids])
    mine = WEIGHTS[loss_type](lengths)
    for of_other in WEIGHTS.values():
        if not torch.allclose(of_other(lengths), mine):
            other = expected_gradient(policy, tokenizer, batch, advantages, of_other)
            assert relative_error(gradient, other) > 0.02

    # rollout advantages alone give another gradient.
    plain = batch.advantages.unsqueeze(1).expand_as(advantages)
    other = expected_gradient(policy, tokenizer, batch, plain, WEIGHTS[loss_type])
    assert relative_error(gradient, other) > 0.05


ACCUMULATION = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}
UNEQUAL_STEPS = {"num_iterations": 2, "max_steps": 1}
SAME_GRADIENT = [
    ("dapo", {"scale_rewards": "none"}),
    ("dapo", {"scale_rewards": "batch", "log_completions": True, "logging_steps": 1}),
    ("dapo", {"gradient_checkpointing": True, "off_policy_mask_threshold": 10.0, "delta": 10.0}),
    *((loss, settings) for loss in ("dapo", "grpo") for settings in (ACCUMULATION, UNEQUAL_STEPS)),
]


def check_gradient(arguments, loss_type, advantages_of=naive_advantages, **more):
    """A step's gradient is that of its rollouts with the advantages that the function gives."""
    batch, policy, gradient = train_one_step(arguments, **more)
    advantages = torch.as_tensor(advantages_of(batch))
    expected = expected_gradient(
        policy, arguments["processing_class"], batch, advantages, WEIGHTS[loss_type]
    )
    assert relative_error(gradient, expected) < 1e-6
    return batch


@pytest.mark.parametrize(("loss_type", "settings"), SAME_GRADIENT, ids=str)
def test_gradient_under_other_settings(trainer_arguments, loss_type, settings):
    """TRL shuffles the rows of a batch and splits them: each keeps the credit of its tokens."""
    check_gradient(trainer_arguments(loss_type=loss_type, **settings), loss_type)


def test_gradient_with_a_penalty_on_leaving_the_reference(trainer_arguments, tmp_path):
    """The penalty has no gradient yet where policy and reference are the same."""
    arguments = trainer_arguments(beta=0.1)
    policy = arguments["model"]
    policy.save_pretrained(tmp_path / "model")
    arguments["model"] = str(tmp_path / "model")
    arguments["args"].model_init_kwargs = {"dtype": "float32"}
    keep, batches = KeepGradient(), []
    KTAETrainer(**arguments, callbacks=[keep], on_rollouts=batches.append).train()
    advantages = torch.from_numpy(naive_advantages(batches[0]))
    tokenizer = arguments["processing_class"]
    expected = expected_gradient(policy, tokenizer, batches[0], advantages, WEIGHTS["dapo"])
    assert relative_error(keep.gradient, expected) < 1e-5


def test_without_ktae_it_is_trl(trainer_arguments):
    def plain(batch):
        return batch.advantages.unsqueeze(1).expand(-1, MAX_LENGTH)

    check_gradient(trainer_arguments(loss_type="grpo"), "grpo", plain, credit=None)
