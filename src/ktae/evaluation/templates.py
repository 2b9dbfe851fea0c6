"""How a problem becomes a prompt."""

from __future__ import annotations

from typing import Any

from ktae.errors import InputError

Messages = list[dict[str, str]]
"""A conversation: `role` and `content` of each message."""

INSTRUCTION = r"Please reason step by step, and put your final answer within \boxed{}."
"""Of the Qwen-Math template, which the paper trains and evaluates with."""


def as_messages(problem: str, instruction: str | None) -> Messages:
    """A conversation that begins with the instruction, if there is one."""
    system = [{"role": "system", "content": instruction}] if instruction else []
    return [*system, {"role": "user", "content": problem}]


def written_out(messages: Messages, tokenizer: Any) -> str:
    """The prompt that the tokenizer's own chat template makes of messages.

    Raises:
        InputError: it has none.
    """
    if getattr(tokenizer, "chat_template", None) is None:
        raise InputError(
            "this model's tokenizer has no chat template; --template plain gives it the problem "
            "alone, --template qwen-math the one of the paper"
        )
    text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return text


def chat(problem: str, tokenizer: Any) -> str:
    """The tokenizer's own chat template, with the instruction after the problem."""
    return written_out([{"role": "user", "content": f"{problem}\n\n{INSTRUCTION}"}], tokenizer)


def qwen_math(problem: str, tokenizer: Any) -> str:
    """The Qwen2.5-Math template, as in the paper.

    Raises:
        InputError: its marks are no tokens of this tokenizer, so the model has never seen them.
    """
    mark = tokenizer.convert_tokens_to_ids("<|im_start|>")
    if mark in (None, tokenizer.unk_token_id):
        raise InputError(
            "template qwen-math is for models with the token <|im_start|>, and this model's "
            "tokenizer has none; --template chat takes its own template, plain the problem alone"
        )
    return (
        f"<|im_start|>system\n{INSTRUCTION}<|im_end|>\n"
        f"<|im_start|>user\n{problem}<|im_end|>\n<|im_start|>assistant\n"
    )


def plain(problem: str, _: Any) -> str:
    """The problem alone."""
    return problem


TEMPLATES = {"chat": chat, "qwen-math": qwen_math, "plain": plain}
"""By name; each takes a problem and the tokenizer. The first is the default."""
