"""Proof that the (B, T) advantages reach TRL's loss at their tokens.

The gradient of a real training step is compared with one computed here from the rollouts alone:
the naive backend's terms, the policy's log-probabilities, and the loss's own averaging. On the
first step the policy is the one that sampled, so every ratio is 1, nothing is clipped, and the
gradient of each of these losses is -Σ w A ∇log π with a weight w that depends on lengths only.
"""

import copy

import numpy as np
import pytest
import torch
from transformers import TrainerCallback

import ktae
from ktae.trl import KTAETrainer

MAX_LENGTH = 12

WEIGHTS = {
    "grpo": lambda lengths: 1 / lengths / len(lengths),
    "sapo": lambda lengths: 1 / lengths / len(lengths),
    "bnpo": lambda lengths: torch.full_like(lengths, 1 / lengths.sum()),
    "dapo": lambda lengths: torch.full_like(lengths, 1 / lengths.sum()),
    "cispo": lambda lengths: torch.full_like(lengths, 1 / lengths.sum()),
    "dr_grpo": lambda lengths: torch.full_like(lengths, 1 / (len(lengths) * MAX_LENGTH)),
    "luspo": lambda lengths: torch.full_like(lengths, 1 / len(lengths)),
}


class KeepGradient(TrainerCallback):
    def __init__(self):
        self.gradient = None

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        self.gradient = flat_gradient(model)


def flat_gradient(model):
    return torch.cat([p.grad.flatten().clone() for p in model.parameters() if p.grad is not None])


def expected_gradient(model, tokenizer, batch, advantages, weight_of):
    """-Σ_i w_i Σ_t A_it ∇log π(token_it), one rollout at a time, without padding."""
    model.zero_grad()
    weights = weight_of(torch.tensor([len(ids) for ids in batch.token_ids], dtype=torch.float32))
    for row, (fields, ids) in enumerate(zip(batch.inputs, batch.token_ids, strict=True)):
        prompt = tokenizer(fields["prompt"])["input_ids"]
        logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        log_probs = logits.log_softmax(-1)[torch.arange(len(ids)), torch.tensor(ids)]
        (-weights[row] * (advantages[row, : len(ids)] * log_probs).sum()).backward()
    return flat_gradient(model)


def naive_advantages(batch, group_size):
    """(n, T) from the unpadded rollouts, with TRL's rollout advantages as the base."""
    width = max(map(len, batch.token_ids))
    ids = np.zeros((len(batch.token_ids), width), dtype=np.int64)
    mask = np.zeros_like(ids, dtype=bool)
    for row, tokens in enumerate(batch.token_ids):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = True
    return ktae.token_advantages(
        batch.rewards.numpy(),
        ids,
        mask,
        np.arange(len(ids)) // group_size,
        correct=[tokens[0] % 2 == 0 for tokens in batch.token_ids],
        base=batch.advantages.numpy(),
        backend="naive",
    )


def train_one_step(arguments, **ktae_arguments):
    """The rollouts, the policy that sampled them, and the step's gradient."""
    batches, keep = [], KeepGradient()
    before = copy.deepcopy(arguments["model"])
    trainer = KTAETrainer(
        **arguments, callbacks=[keep], on_rollouts=batches.append, **ktae_arguments
    )
    trainer.train()
    return batches[0], before, keep.gradient


def relative_error(found, expected):
    return ((found - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize("loss_type", WEIGHTS)
def test_gradient_is_that_of_token_level_advantages(trainer_arguments, loss_type):
    settings = {"epsilon_high": 5.0} if loss_type == "cispo" else {}
    arguments = trainer_arguments(loss_type=loss_type, **settings)
    batch, policy, gradient = train_one_step(arguments)

    advantages = torch.from_numpy(naive_advantages(batch, group_size=4))
    tokenizer = arguments["processing_class"]
    expected = expected_gradient(policy, tokenizer, batch, advantages, WEIGHTS[loss_type])
    assert relative_error(gradient, expected) < 1e-5

    # The comparison can tell: rollout advantages alone give another gradient.
    plain = batch.advantages.unsqueeze(1).expand_as(advantages)
    other = expected_gradient(policy, tokenizer, batch, plain, WEIGHTS[loss_type])
    assert relative_error(gradient, other) > 0.05


def test_without_ktae_it_is_trl(trainer_arguments):
    arguments = trainer_arguments(loss_type="grpo")
    batch, policy, gradient = train_one_step(arguments, ktae=None)
    advantages = batch.advantages.unsqueeze(1).expand(-1, MAX_LENGTH)
    expected = expected_gradient(
        policy, arguments["processing_class"], batch, advantages, WEIGHTS["grpo"]
    )
    assert relative_error(gradient, expected) < 1e-5


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
    advantages = naive_advantages(batch, group_size=4)
    expected = {tuple(ids): advantages[row, : len(ids)] for row, ids in enumerate(batch.token_ids)}
    assert len(expected) == len(batch.token_ids), "rollouts coincide: rows cannot be told apart"
    rows = 0
    for inputs in seen:
        for ids, credit in zip(inputs["completion_ids"], inputs["advantages"], strict=True):
            own = next(key for key in expected if ids[: len(key)].tolist() == list(key))
            np.testing.assert_allclose(credit[: len(own)], expected[own], atol=1e-6)
            rows += 1
    assert rows == 2 * len(batch.token_ids)
