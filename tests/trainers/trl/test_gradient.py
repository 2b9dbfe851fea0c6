"""Proof that the (B, T) advantages reach TRL's loss at their tokens.

The gradient of a real training step is compared with one computed here from the rollouts alone:
the naive backend's credit, the policy's log-probabilities, and the loss's own averaging. On the
first step the policy is the one that sampled, so every ratio is 1, nothing is clipped, and the
gradient of each of these losses is -Σ w A ∇log π with a weight w that depends on lengths only.
"""

import numpy as np
import pytest
import torch

from ktae.trainers.trl import KTAETrainer
from ktae.trainers.trl.gradient_check import (
    MAX_LENGTH,
    WEIGHTS,
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


def test_without_ktae_it_is_trl(trainer_arguments):
    arguments = trainer_arguments(loss_type="grpo")
    batch, policy, gradient = train_one_step(arguments, credit=None)
    advantages = batch.advantages.unsqueeze(1).expand(-1, MAX_LENGTH)
    expected = expected_gradient(
        policy, arguments["processing_class"], batch, advantages, WEIGHTS["grpo"]
    )
    assert relative_error(gradient, expected) < 1e-6


def test_shuffling_and_splitting_keep_credit_at_its_token(trainer_arguments, monkeypatch):
    """Every row that reaches the loss carries the advantages of exactly its own tokens."""
    seen = []
    compute_loss = KTAETrainer._compute_loss

    def spy(self, model, inputs):
        seen.append({k: inputs[k].clone() for k in ("completion_ids", "advantages")})
        return compute_loss(self, model, inputs)

    monkeypatch.setattr(KTAETrainer, "_compute_loss", spy)
    arguments = trainer_arguments(
        per_device_train_batch_size=4, steps_per_generation=4, num_iterations=2, max_steps=8
    )
    batch, _, _ = train_one_step(arguments)
    advantages = naive_advantages(batch)
    expected = {tuple(ids): advantages[row, : len(ids)] for row, ids in enumerate(batch.token_ids)}
    assert len(expected) == len(batch.token_ids), "rollouts coincide: rows cannot be told apart"
    rows = 0
    for inputs in seen:
        for ids, credit in zip(inputs["completion_ids"], inputs["advantages"], strict=True):
            own = next(key for key in expected if ids[: len(key)].tolist() == list(key))
            np.testing.assert_allclose(credit[: len(own)], expected[own], atol=1e-6)
            rows += 1
    assert rows == 2 * len(batch.token_ids)
