"""How a problem becomes a prompt."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

from ktae.errors import InputError

Messages = list[dict[str, str]]
"""A conversation: `role` and `content` of each message."""

INSTRUCTION = r"Please reason step by step, and put your final answer within \boxed{}."
"""The instruction of the Qwen-Math template, which the paper trains and evaluates with."""

TEMPLATES: dict[str, dict[str, str]] = tomllib.loads(
    resources.files("ktae.experiments").joinpath("templates.toml").read_text("utf-8")
)
"""Prompts by name: a `text` as it is, or a message for each role, for the chat template."""


def as_messages(problem: str, instruction: str | None) -> Messages:
    """A conversation that begins with the instruction, if there is one."""
    system = [{"role": "system", "content": instruction}] if instruction else []
    return [*system, {"role": "user", "content": problem}]


def prompt_of(template: str, problem: str, tokenizer: Any) -> str:
    """A problem in one of `TEMPLATES`.

    Raises:
        InputError: the tokenizer has no chat template, or lacks the tokens that the template uses.
    """
    parts = {k: text.replace("{problem}", problem) for k, text in TEMPLATES[template].items()}
    if "text" not in parts:
        messages = [{"role": role, "content": text} for role, text in parts.items()]
        return written_out(messages, tokenizer)
    mark, form = "<|im_start|>", TEMPLATES[template]["text"]
    if mark in form and tokenizer.convert_tokens_to_ids(mark) in (None, tokenizer.unk_token_id):
        raise InputError(
            f"template {template} is for models with the token {mark}, and this model's "
            "tokenizer has none; --template chat takes its own template, plain the problem alone"
        )
    return parts["text"]


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
