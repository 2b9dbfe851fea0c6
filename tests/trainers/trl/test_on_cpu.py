"""TRL's loss on a CPU: what is left out changes no number."""

import contextlib

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from trl.trainer import utils as trl_utils

from ktae.trainers.trl import on_cpu


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
    (out.log_probs - 0.1 * out.entropy).sum().backward()
    return out.log_probs, out.entropy, *(p.grad.clone() for p in model.parameters())


@pytest.mark.parametrize("first_response", [0, 4, 9], ids=["all", "some", "none"])
def test_responses_alone_have_the_same_loss_and_gradient(model, first_response):
    ids = torch.randint(40, (3, 9))
    labels = ids.masked_fill(torch.arange(9) < first_response, -100)
    as_it_is = loss(model, ids, labels)
    with on_cpu.logits_of_responses_alone(model):
        found = loss(model, ids, labels)
    for before, after in zip(as_it_is, found, strict=True):
        torch.testing.assert_close(after, before, rtol=1e-6, atol=1e-7)


@pytest.fixture
def tiles(monkeypatch):
    """Positions with logits and columns of a tile, for each forward pass."""
    seen = []
    head = trl_utils._ChunkedLogProbFunction

    class Spy:
        @staticmethod
        def apply(hidden, *rest):
            seen.append((len(hidden), rest[4]))
            return head.apply(hidden, *rest)

    monkeypatch.setattr(trl_utils, "_ChunkedLogProbFunction", Spy)
    return seen


def test_logits_are_made_of_responses_alone_within_the_block(model, tiles):
    ids = torch.randint(40, (3, 9))
    labels = ids.masked_fill(torch.arange(9) < 5, -100)
    with contextlib.suppress(KeyError), on_cpu.logits_of_responses_alone(model):
        loss(model, ids, labels)
        raise KeyError
    loss(model, ids, labels)
    assert tiles == [(3 * 4, 40), (3 * 8, 32768)]


def test_another_version_of_trl_is_left_as_it_is(model, tiles, monkeypatch):
    monkeypatch.setattr(on_cpu, "READ", "1.15.")
    ids = torch.randint(40, (3, 9))
    with on_cpu.logits_of_responses_alone(model):
        loss(model, ids, ids)
    assert tiles == [(3 * 8, 32768)]
