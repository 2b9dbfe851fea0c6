"""From a recipe to TRL's configuration, where no training shows it."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from trl.trainer import utils as trl_utils

from ktae import recipe as recipes
from ktae.trainers.trl.settings import grpo_config, narrow_tiles


def test_the_share_of_tokens_of_high_entropy(tmp_path):
    recipe = recipes.Recipe.model_validate({"name": "x", "steps": 1, "trl": {"top_entropy": 0.2}})
    assert grpo_config(recipe, tmp_path).top_entropy_quantile == 0.2
    plain = recipes.Recipe.model_validate({"name": "x", "steps": 1})
    assert grpo_config(plain, tmp_path).top_entropy_quantile == 1.0


@pytest.fixture
def tiles_as_they_were():
    yield
    narrow_tiles(10**9)


def test_a_tile_is_no_wider_than_the_vocabulary_and_the_numbers_are_the_same(tiles_as_they_were):
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=40, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
            num_attention_heads=2,
        )
    )  # fmt: skip
    trl_utils.add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    ids = torch.randint(40, (3, 9))
    found = []
    for vocabulary in (10**9, 40):
        narrow_tiles(vocabulary)
        model.zero_grad()
        out = model(input_ids=ids, labels=ids, fused_lm_head=True)
        out.log_probs.sum().backward()
        found.append((out.log_probs, out.entropy, *(p.grad.clone() for p in model.parameters())))
    assert trl_utils._CHUNKED_LOGPROB_CHUNK_SIZE == 40
    assert all(torch.equal(wide, narrow) for wide, narrow in zip(*found, strict=True))
