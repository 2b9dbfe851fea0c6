"""A function of the user's as an estimator: its credit reaches the loss at its tokens."""

import numpy as np
import pytest
import torch

from ktae.rollouts import record
from ktae.trainers.trl import KTAETrainer
from ktae.trainers.trl.gradient_check import (
    WEIGHTS,
    expected_gradient,
    relative_error,
    train_one_step,
)


def alternating(token_ids, mask, correct, groups):
    """Large numbers whose place in the rollout can be told: no other tensor looks like them."""
    sign = np.where(correct, 2.0, -2.0)[:, None] + groups[:, None]
    return sign * (1 + np.arange(token_ids.shape[1]) % 3)


def test_its_credit_reaches_the_gradient(trainer_arguments):
    arguments = trainer_arguments(loss_type="grpo")
    batch, policy, gradient = train_one_step(arguments, credit=alternating)
    correct = batch.correct.numpy() == 1
    ids_bt, mask_bt = record.pad(batch.token_ids)
    expected = alternating(ids_bt, mask_bt, correct, np.arange(16) // 4) * mask_bt
    np.testing.assert_allclose(batch.credit, expected, rtol=1e-6)
    advantages = batch.advantages.unsqueeze(1) + torch.from_numpy(expected).float()
    tokenizer = arguments["processing_class"]
    by_hand = expected_gradient(policy, tokenizer, batch, advantages, WEIGHTS["grpo"])
    assert relative_error(gradient, by_hand) < 1e-6


def test_metrics_of_credit_without_a_bound(trainer_arguments):
    batches = []
    trainer = KTAETrainer(
        **trainer_arguments(logging_steps=1), credit=alternating, on_rollouts=batches.append
    )
    trainer.train()
    logged = next(line for line in trainer.state.log_history if "credit/mean_abs" in line)
    mask_bt = record.pad(batches[0].token_ids)[1]
    absolute = batches[0].credit.double().abs().numpy()[mask_bt]
    assert absolute.max() > 5
    assert logged["credit/mean_abs"] == pytest.approx(absolute.mean(), rel=1e-5)
    for share in (50, 90, 99):
        expected = np.percentile(absolute, share, method="inverted_cdf")
        assert logged[f"credit/abs_p{share}"] == pytest.approx(
            expected, abs=float(absolute.max()) / 1000
        )
    assert 0 <= logged["credit/significant_tokens_sampled"] <= 1
