"""The demo's tokenizer and model: a small Llama of transformers, for anything that trains or serves
a real model."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from ktae.experiments.demo.sums import BOS, EOS, PAD, SPECIAL_TOKENS, VOCABULARY

CONTEXT = 512
SIZE: dict[str, Any] = {
    **{"name": "tiny", "hidden_size": 64, "layers": 2, "heads": 4, "intermediate_size": 160},
    "initializer_range": 0.07,  # transformers' 0.02 suits wider models; here it learns far slower
    # of pretraining: worked solutions in a step, and AdamW's highest learning rate
    **{"batch": 32, "learning_rate": 4e-3},
}
"""About 99,000 parameters, for a CPU: pretrained in about a minute."""


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token a word, split at whitespace.

    It adds no special token (prompts spell `<bos>` themselves), pads on the left, and raises an
    error for an unknown word.
    """
    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(VOCABULARY)}))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        padding_side="left",
        model_input_names=["input_ids", "attention_mask"],
        model_max_length=CONTEXT,
    )


def make_model(seed: int) -> LlamaForCausalLM:
    """An untrained model of `SIZE`; the same seed gives the same weights.

    It is no Qwen2, because `AutoTokenizer` (transformers 5.10) reads every tokenizer beside a Qwen2
    as Qwen's own.
    """
    pad, bos, eos = map(VOCABULARY.index, SPECIAL_TOKENS)
    config = LlamaConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=SIZE["hidden_size"],
        num_hidden_layers=SIZE["layers"],
        num_attention_heads=SIZE["heads"],
        num_key_value_heads=SIZE["heads"],
        intermediate_size=SIZE["intermediate_size"],
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        initializer_range=SIZE["initializer_range"],
        pad_token_id=pad,
        bos_token_id=bos,
        eos_token_id=eos,
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return LlamaForCausalLM(config)
