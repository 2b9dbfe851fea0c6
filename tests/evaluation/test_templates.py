"""Prompts: the tokenizer's own template, never one that is assumed."""

import types

import pytest

from ktae.errors import InputError
from ktae.evaluation.templates import TEMPLATES


def make_tokenizer(chat_template=None, tokens=()):
    return types.SimpleNamespace(
        chat_template=chat_template,
        unk_token_id=0,
        convert_tokens_to_ids=lambda token: 1 if token in tokens else 0,
        apply_chat_template=lambda messages, **_: f"<{messages[-1]['content'][:5]}>",
    )


def test_the_default_is_the_tokenizers_own():
    assert next(iter(TEMPLATES)) == "chat"
    assert TEMPLATES["chat"]("1 + 1", make_tokenizer("{{ x }}")) == "<1 + 1>"


def test_a_tokenizer_without_a_template_is_refused():
    with pytest.raises(InputError, match="no chat template; --template plain"):
        TEMPLATES["chat"]("1 + 1", make_tokenizer())


def test_qwen_math_needs_its_marks():
    with pytest.raises(InputError, match="this model's tokenizer has none"):
        TEMPLATES["qwen-math"]("1 + 1", make_tokenizer())
    text = TEMPLATES["qwen-math"]("1 + 1", make_tokenizer(tokens=["<|im_start|>"]))
    assert "<|im_start|>user\n1 + 1<|im_end|>" in text
