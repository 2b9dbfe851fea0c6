"""The gradient of a training step of TRL, and the same computed independently from rollouts."""

import copy

import numpy as np
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
    "vespo": lambda lengths: torch.full_like(lengths, 1 / lengths.sum()),
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


def expected_gradient(model, tokenizer, batch, advantages, weight_of, rows=None):
    """-Σ_i w_i Σ_t A_it ∇log π(token_it), one rollout at a time, without padding.

    `rows` are the rollouts that count; all by default.
    """
    model.zero_grad()
    rows = range(len(batch.token_ids)) if rows is None else rows
    lengths = [float(len(batch.token_ids[row])) for row in rows]
    weights = dict(zip(rows, weight_of(torch.tensor(lengths)), strict=True))
    for row in rows:
        fields, ids = batch.inputs[row], batch.token_ids[row]
        prompt = tokenizer(fields["prompt"])["input_ids"]
        logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        log_probs = logits.log_softmax(-1)[torch.arange(len(ids)), torch.tensor(ids)]
        (-weights[row] * (advantages[row, : len(ids)] * log_probs).sum()).backward()
    return flat_gradient(model)


def naive_advantages(batch, group_size, correct=None):
    """(n, T) from the unpadded rollouts, with TRL's rollout advantages as the base."""
    if correct is None:
        correct = [tokens[0] % 2 == 0 for tokens in batch.token_ids]
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
        correct=correct,
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
