"""Proof that the (B, T) advantages reach TRL's loss at their tokens: `gradient_check`, under every
setting of TRL's that leaves the first step's gradient as it is."""

import pytest
import torch

from ktae.trainers.trl import KTAETrainer, gradient_check
from ktae.trainers.trl.gradient_check import (
    WEIGHTS,
    KeepGradient,
    expected_gradient,
    gradient_error,
    naive_advantages,
    relative_error,
)

ACCUMULATION = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4}
UNEQUAL_STEPS = {"num_iterations": 2, "max_steps": 1}
SAME_GRADIENT = [
    *((loss, {}) for loss in WEIGHTS),
    ("dapo", {"scale_rewards": "none"}),
    ("dapo", {"scale_rewards": "batch", "log_completions": True, "logging_steps": 1}),
    ("dapo", {"gradient_checkpointing": True, "off_policy_mask_threshold": 10.0, "delta": 10.0}),
    *((loss, settings) for loss in ("dapo", "grpo") for settings in (ACCUMULATION, UNEQUAL_STEPS)),
]


@pytest.mark.parametrize(("loss_type", "settings"), SAME_GRADIENT, ids=str)
def test_gradient_is_that_of_token_level_advantages(loss_type, settings):
    """TRL shuffles the rows of a batch and splits them: each keeps the credit of its tokens."""
    assert gradient_error(loss_type, **settings) < 1e-6


def test_credit_that_does_not_arrive_is_an_error(monkeypatch):
    def without(**arguments):
        return KTAETrainer(**arguments | {"credit": None})

    monkeypatch.setattr(gradient_check, "KTAETrainer", without)
    assert gradient_error("grpo") > 0.05


def test_gradient_with_a_penalty_on_leaving_the_reference(trainer_arguments, tmp_path):
    """The penalty has no gradient yet where policy and reference are the same."""
    arguments = trainer_arguments(beta=0.1)
    policy = arguments["model"]
    policy.save_pretrained(tmp_path / "model")
    arguments["model"] = str(tmp_path / "model")
    arguments["args"].model_init_kwargs = {"dtype": "float32"}
    keep, batches = KeepGradient(), []
    KTAETrainer(**arguments, credit="paper", callbacks=[keep], on_rollouts=batches.append).train()
    advantages = torch.from_numpy(naive_advantages(batches[0]))
    tokenizer = arguments["processing_class"]
    expected = expected_gradient(policy, tokenizer, batches[0], advantages, WEIGHTS["dapo"])
    assert relative_error(keep.gradient, expected) < 1e-5
