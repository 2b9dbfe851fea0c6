"""TRL's loss on a CPU: what is left out changes no number."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from trl.trainer import utils as trl_utils

from ktae.trainers.trl.on_cpu import as_trl_does, score_responses_alone


@pytest.fixture
def trl_afterwards():
    yield
    as_trl_does()


@pytest.fixture
def model():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=40, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    trl_utils.add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    return model


def loss(model, ids, labels):
    """Log-probabilities, entropies and every gradient, after TRL's fused head."""
    model.zero_grad()
    out = model(input_ids=ids, labels=labels, fused_lm_head=True)
    out.log_probs.sum().backward()
    return out.log_probs, out.entropy, *(p.grad.clone() for p in model.parameters())


def test_responses_alone_have_the_same_loss_and_gradient(model, trl_afterwards):
    ids = torch.randint(40, (3, 9))
    labels = ids.clone()
    labels[:, :4], labels[0, 7:] = -100, -100
    as_it_was = loss(model, ids, labels)
    score_responses_alone(40)
    for before, after in zip(as_it_was, loss(model, ids, labels), strict=True):
        torch.testing.assert_close(after, before, rtol=1e-6, atol=1e-7)


def test_logits_are_made_of_responses_alone_in_narrow_tiles(model, trl_afterwards, monkeypatch):
    seen = []
    head = trl_utils._ChunkedLogProbFunction

    class Spy:
        @staticmethod
        def apply(hidden, *rest):
            seen.append((len(hidden), rest[4]))
            return head.apply(hidden, *rest)

    monkeypatch.setattr(trl_utils, "_ChunkedLogProbFunction", Spy)
    ids = torch.randint(40, (3, 9))
    labels = ids.masked_fill(torch.arange(9) < 5, -100)
    score_responses_alone(40)
    loss(model, ids, labels)
    as_trl_does()
    loss(model, ids, labels)
    assert seen == [(3 * 4, 40), (3 * 8, 32768)]
