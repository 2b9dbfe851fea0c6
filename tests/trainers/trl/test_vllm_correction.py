"""TRL's importance-sampling correction for vLLM multiplies per-token losses and leaves the credit.

vLLM itself is in tests/engines/test_vllm.py, which needs an environment of its own. What stands in
for it here samples from another model than the policy, so that the ratios are far from 1.
"""

import pytest
import torch
from copied import copy_of

from ktae.trainers.trl.gradient_check import (
    WEIGHTS,
    expected_gradient,
    naive_advantages,
    relative_error,
    train_one_step,
)

MAX, MIN = 1.1, 0.9


class Sampler:
    """What TRL's `VLLMGeneration` is to its trainer: token ids, and log-probabilities of them."""

    last = None

    def __init__(self, *, model, processing_class, max_completion_length, **_):
        self.model, self.tokenizer = copy_of(model), processing_class
        self.length = max_completion_length
        Sampler.last = self
        with torch.no_grad():
            generator = torch.Generator().manual_seed(0)
            for weight in self.model.parameters():
                weight += 0.01 * torch.randn(weight.shape, generator=generator)

    def sync_weights(self):
        """Left out: another model is the point."""

    @torch.no_grad()
    def generate(self, prompts, **_):
        self.ids, self.log_probs = [], []
        for prompt in prompts:
            made = self.model.generate(
                torch.tensor([prompt]), do_sample=True, max_new_tokens=self.length, top_k=0
            )[0]
            logits = self.model(made[None]).logits[0, len(prompt) - 1 : -1]
            ids = made[len(prompt) :]
            self.ids.append(ids.tolist())
            self.log_probs.append(logits.log_softmax(-1)[torch.arange(len(ids)), ids])
        log_probs = [[[value] for value in row.tolist()] for row in self.log_probs]
        return prompts, self.ids, log_probs, [[[i] for i in row] for row in self.ids]


def factor(mode, ratios):
    """What TRL documents for each mode, from the (T,) ratios of one rollout."""
    if mode == "token_truncate":
        return ratios.clamp(MIN, MAX)
    ratio = ratios.prod(0, keepdim=True)
    return torch.where((ratio >= MIN) & (ratio <= MAX), ratio, 0.0)


@pytest.mark.parametrize("mode", ["token_truncate", "sequence_mask"])
def test_the_correction_multiplies_and_leaves_the_credit(trainer_arguments, monkeypatch, mode):
    monkeypatch.setattr("trl.trainer.grpo_trainer.VLLMGeneration", Sampler)
    arguments = trainer_arguments(
        loss_type="dapo",
        use_vllm=True,
        vllm_importance_sampling_mode=mode,
        vllm_importance_sampling_clip_max=MAX,
        vllm_importance_sampling_clip_min=MIN,
    )
    batch, policy, gradient = train_one_step(arguments)
    assert batch.token_ids == Sampler.last.ids
    ratios = []

    def correction(row, log_probs):
        ratios.append(torch.exp(log_probs - Sampler.last.log_probs[row]))
        return factor(mode, ratios[-1])

    def expected(advantages, **more):
        return expected_gradient(
            policy, arguments["processing_class"], batch, advantages, WEIGHTS["dapo"], **more
        )

    advantages = torch.from_numpy(naive_advantages(batch))
    assert relative_error(gradient, expected(advantages, correction=correction)) < 2e-6
    every = torch.cat(ratios)
    assert every.max() > MAX and every.min() < MIN, "nothing is cut off"
    # The comparison can tell.
    plain = batch.advantages.unsqueeze(1).expand_as(advantages)
    assert relative_error(gradient, expected(plain, correction=correction)) > 0.02
    assert relative_error(gradient, expected(advantages)) > 0.02
