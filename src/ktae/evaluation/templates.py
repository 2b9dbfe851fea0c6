"""How a problem becomes a prompt."""

from __future__ import annotations

from typing import Any

from ktae.errors import InputError

INSTRUCTION = r"Please reason step by step, and put your final answer within \boxed{}."
"""Of the Qwen-Math template, which the paper trains and evaluates with."""


def qwen_math(problem: str, _: Any) -> str:
    """The Qwen2.5-Math template, as in the paper."""
    return (
        f"<|im_start|>system\n{INSTRUCTION}<|im_end|>\n"
        f"<|im_start|>user\n{problem}<|im_end|>\n<|im_start|>assistant\n"
    )


def plain(problem: str, _: Any) -> str:
    """The problem alone."""
    return problem


def chat(problem: str, tokenizer: Any) -> str:
    """The tokenizer's own chat template, with the instruction after the problem."""
    if getattr(tokenizer, "chat_template", None) is None:
        raise InputError("template chat needs a tokenizer with a chat template; this one has none")
    messages = [{"role": "user", "content": f"{problem}\n\n{INSTRUCTION}"}]
    text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return text


TEMPLATES = {"qwen-math": qwen_math, "plain": plain, "chat": chat}
"""By name; each takes a problem and the tokenizer."""
