"""Rows that begin alike are computed once, and no output, gradient or answer changes."""

import pytest
import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from ktae.evaluation.shared_prefixes import shared_prefixes

SIZE = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
LLAMA = LlamaConfig(vocab_size=40, num_attention_heads=4, num_key_value_heads=2, **SIZE)
MODELS = {
    "llama": (LlamaForCausalLM, LLAMA),
    "eager": (
        LlamaForCausalLM,
        LlamaConfig(**LLAMA.to_diff_dict() | {"attn_implementation": "eager"}),
    ),
    "learned positions": (
        GPT2LMHeadModel,
        GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=64,
                   resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, summary_first_dropout=0),
    ),
}  # fmt: skip


def made(name):
    torch.manual_seed(0)
    kind, config = MODELS[name]
    return kind(config)


@pytest.fixture
def computed(monkeypatch):
    """Positions of each call of a model's first layer."""
    seen = []

    def watch(model):
        layers = model.base_model
        first = layers.layers[0] if hasattr(layers, "layers") else layers.h[0]
        first.register_forward_pre_hook(lambda _, args: seen.append(args[0].shape[:2].numel()))
        return model

    watch.seen = seen
    return watch


def rollouts():
    """(12, 15) rollouts of three prompts, shuffled; one prompt is shorter and padded in front."""
    torch.manual_seed(1)
    prompts = torch.randint(1, 40, (3, 10))
    prompts[2, :4] = 0
    ids = torch.cat([prompts.repeat_interleave(4, dim=0), torch.randint(1, 40, (12, 5))], dim=1)
    ids = ids[torch.randperm(12)]
    return ids, (ids != 0).long()


def outputs(model, ids, mask):
    """Logits and every gradient of a loss over all that is no padding."""
    model.zero_grad()
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
    torch.nn.functional.cross_entropy(
        logits[:, 9:-1].flatten(0, 1), ids[:, 10:].flatten()
    ).backward()
    return logits[mask == 1], *(p.grad.clone() for p in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_outputs_and_gradients_of_rollouts_are_those_of_the_whole_pass(name, computed):
    model, (ids, mask) = computed(made(name)), rollouts()
    expected = outputs(model, ids, mask)
    with shared_prefixes(model):
        found = outputs(model, ids, mask)
    assert computed.seen == [12 * 15, 3 * 10, 12 * 5]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_answers_are_sampled_and_their_cache_goes_on(name, computed):
    model, (ids, mask) = computed(made(name)), rollouts()
    prompts = {"input_ids": ids[:, :10], "attention_mask": mask[:, :10]}
    settings = {"do_sample": True, "top_k": 0, "max_new_tokens": 8, "pad_token_id": 0}
    torch.manual_seed(2)
    expected = model.generate(**prompts, **settings)
    whole = list(computed.seen)
    computed.seen.clear()
    torch.manual_seed(2)
    with shared_prefixes(model):
        found = model.generate(**prompts, **settings)
    assert found.tolist() == expected.tolist()
    assert computed.seen == [3 * 9, 12, *whole[1:]]


def test_a_common_instruction_is_shared_by_prompts_of_one_length(computed):
    model = computed(made("llama"))
    ids = torch.randint(1, 40, (8, 12))
    ids[:, :9] = ids[0, :9]
    expected = outputs(model, ids, torch.ones_like(ids))
    computed.seen.clear()
    with shared_prefixes(model):
        found = outputs(model, ids, torch.ones_like(ids))
    assert computed.seen == [9, 8 * 3]
    torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-6)


def test_rows_with_other_positions_do_not_begin_alike(computed):
    model = computed(made("llama"))
    ids = torch.randint(1, 40, (1, 8)).expand(2, 8)
    positions = torch.stack([torch.arange(8), torch.arange(8) * 2])
    expected = model(ids, attention_mask=torch.ones_like(ids), position_ids=positions).logits
    with shared_prefixes(model):
        found = model(ids, attention_mask=torch.ones_like(ids), position_ids=positions).logits
    assert computed.seen == [16, 16]
    torch.testing.assert_close(found, expected)


def unlike():
    ids = torch.arange(16).view(2, 8)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def no_mask():
    return {"input_ids": rollouts()[0]}


def hidden_states_too():
    ids, mask = rollouts()
    return {"input_ids": ids, "attention_mask": mask, "output_hidden_states": True}


def embeddings():
    return {"inputs_embeds": torch.zeros(12, 15, 16), "attention_mask": rollouts()[1]}


@pytest.mark.parametrize("given", [unlike, no_mask, hidden_states_too, embeddings])
def test_other_calls_are_made_as_they_are(given, computed):
    model = computed(made("llama"))
    with shared_prefixes(model):
        model(**given())
    assert len(computed.seen) == 1


def dropout():
    return GPT2LMHeadModel(GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=2))


def window():
    return MistralForCausalLM(
        MistralConfig(vocab_size=40, num_attention_heads=2, sliding_window=4, **SIZE)
    )


def checkpointing():
    model = made("llama")
    model.gradient_checkpointing_enable()
    return model


def length_dependent_positions():
    rope = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    return LlamaForCausalLM(
        LlamaConfig(vocab_size=40, num_attention_heads=4, rope_parameters=rope, **SIZE)
    )


@pytest.mark.parametrize("make", [dropout, window, checkpointing, length_dependent_positions])
def test_a_model_that_this_does_not_fit_computes_as_it_does(make, computed):
    model, (ids, mask) = computed(make()), rollouts()
    with shared_prefixes(model):
        model(input_ids=ids, attention_mask=mask)
    assert computed.seen == [12 * 15]


def test_a_state_that_is_no_keys_and_values_is_not_shared():
    model = MambaForCausalLM(MambaConfig(vocab_size=40, hidden_size=16, num_hidden_layers=1))
    with shared_prefixes(model):
        assert "forward" not in vars(model.base_model)


def test_the_model_is_as_it_was_after_the_block(computed):
    model, (ids, mask) = computed(made("llama")), rollouts()
    with pytest.raises(KeyError), shared_prefixes(model), shared_prefixes(model):
        raise KeyError
    model(input_ids=ids, attention_mask=mask)
    assert computed.seen == [12 * 15]
    assert "forward" not in vars(model.base_model)
