"""Rows that begin alike are computed once, and no output, gradient or answer changes."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ktae.evaluation.shared_prefixes import FAMILIES, shared_prefixes

SIZES = {
    "vocab_size": 40, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 39,
}  # fmt: skip


def made(family="llama", attention="sdpa", **settings):
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **SIZES | settings)
    return AutoModelForCausalLM.from_config(config, attn_implementation=attention)


@pytest.fixture
def computed():
    """Positions of each call of a model's first layer."""
    seen = []

    def watch(model):
        first = model.base_model.layers[0]
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


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_and_gradients_of_rollouts_are_those_of_the_whole_pass(family, attention, computed):
    model, (ids, mask) = computed(made(family, attention)), rollouts()
    expected = outputs(model, ids, mask)
    with shared_prefixes(model):
        found = outputs(model, ids, mask)
    assert computed.seen == [12 * 15, 3 * 10, 12 * 5]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_same_answers_are_sampled_and_their_cache_goes_on(family, computed):
    model, (ids, mask) = computed(made(family)), rollouts()
    prompts = {"input_ids": ids[:, :10], "attention_mask": mask[:, :10]}
    settings = {"do_sample": True, "top_k": 0, "max_new_tokens": 8}
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
    model = computed(made())
    ids = torch.randint(1, 40, (8, 12))
    ids[:, :9] = ids[0, :9]
    expected = outputs(model, ids, torch.ones_like(ids))
    computed.seen.clear()
    with shared_prefixes(model):
        found = outputs(model, ids, torch.ones_like(ids))
    assert computed.seen == [9, 8 * 3]
    torch.testing.assert_close(found[0], expected[0], rtol=1e-4, atol=1e-6)


def other_positions(ids):
    return {"position_ids": torch.stack([torch.arange(8), torch.arange(8) * 2])}


def other_padding(ids):
    return {"attention_mask": torch.tensor([[1] * 8, [0] * 3 + [1] * 5])}


@pytest.mark.parametrize("other", [other_positions, other_padding])
def test_the_same_tokens_elsewhere_are_no_common_beginning(other, computed):
    model = computed(made())
    ids = torch.randint(1, 40, (1, 8)).expand(2, 8)
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)} | other(ids)
    expected = model(**given).logits
    with shared_prefixes(model):
        found = model(**given).logits
    assert computed.seen == [16, 16]
    torch.testing.assert_close(found[:, 3:], expected[:, 3:])


@pytest.mark.parametrize("settings", [{}, {"use_cache": False}, {"use_cache": True}])
def test_a_cache_is_returned_where_the_whole_pass_returns_one(settings, computed):
    model, (ids, mask) = computed(made()), rollouts()
    expected = model.base_model(input_ids=ids, attention_mask=mask, **settings)
    with shared_prefixes(model):
        found = model.base_model(input_ids=ids, attention_mask=mask, **settings)
    assert len(computed.seen) == 3
    assert found.keys() == expected.keys()
    if expected.past_key_values is not None:
        assert found.past_key_values.get_seq_length() == ids.shape[1]


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
    model = computed(made())
    with shared_prefixes(model):
        model(**given())
    assert len(computed.seen) == 1


WINDOW = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}
DYNAMIC = {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}
OTHERS = {
    "another family": {"family": "mistral"},
    "a window": {"family": "qwen2", **WINDOW},
    "positions that depend on the length": DYNAMIC,
    "both directions": {"is_causal": False},
    "all hidden states": {"output_hidden_states": True},
}


@pytest.mark.parametrize("settings", OTHERS.values(), ids=OTHERS)
def test_another_model_computes_as_it_does(settings, computed):
    model, (ids, mask) = computed(made(**settings)), rollouts()
    with shared_prefixes(model):
        model(input_ids=ids, attention_mask=mask)
    assert computed.seen == [12 * 15]


@pytest.mark.parametrize("what", ["dropout", "checkpointing"])
def test_what_training_alone_changes_is_asked_in_training_alone(what, computed):
    dropout = 0.5 if what == "dropout" else 0.0
    model, (ids, mask) = computed(made(attention_dropout=dropout)), rollouts()
    with shared_prefixes(model):
        if what == "checkpointing":
            model.gradient_checkpointing_enable()
        for training in (True, False):
            model.train(training)(input_ids=ids, attention_mask=mask, use_cache=False)
    assert computed.seen == [12 * 15, 3 * 10, 12 * 5]


def test_an_adapter_computes_as_it_does(computed):
    peft = pytest.importorskip("peft")
    model, (ids, mask) = computed(made()), rollouts()
    adapted = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM"))
    with shared_prefixes(adapted):
        adapted(input_ids=ids, attention_mask=mask)
    assert computed.seen == [12 * 15]


def test_the_model_is_as_it_was_after_the_block(computed):
    model, (ids, mask) = computed(made()), rollouts()
    with pytest.raises(KeyError), shared_prefixes(model), shared_prefixes(model):
        raise KeyError
    model(input_ids=ids, attention_mask=mask)
    assert computed.seen == [12 * 15]
    assert "forward" not in vars(model.base_model)
