"""How a problem becomes a prompt."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

from ktae.errors import InputError, passed_on

Messages = list[dict[str, str]]
"""A conversation: `role` and `content` of each message."""

INSTRUCTION = r"Please reason step by step, and put your final answer within \boxed{}."
"""The instruction of the Qwen-Math template, which the paper trains and evaluates with."""

MARK = "<|im_start|>"
"""The token that texts for Qwen's models begin with."""

TEMPLATES: dict[str, dict[str, str]] = tomllib.loads(
    resources.files("ktae.experiments").joinpath("templates.toml").read_text("utf-8")
)
"""Prompts by name: a `text` as it is, or a message for each role, for the chat template."""


def as_messages(problem: str, instruction: str | None) -> Messages:
    """A conversation that begins with the instruction, if there is one."""
    system = [{"role": "system", "content": instruction}] if instruction else []
    return [*system, {"role": "user", "content": problem}]


def prompt_of(template: str, problem: str) -> str | Messages:
    """A problem in one of `TEMPLATES`: a text that is complete, or messages."""
    parts = {k: text.replace("{problem}", problem) for k, text in TEMPLATES[template].items()}
    if "text" in parts:
        return parts["text"]
    return [{"role": role, "content": text} for role, text in parts.items()]


def written_out(prompt: str | Messages, tokenizer: Any) -> str:
    """A prompt as the model sees it: messages go through the tokenizer's own chat template."""
    hint = "--template chat takes the model's own template, plain the problem alone"
    if isinstance(prompt, str):
        if prompt.startswith(MARK):
            number = tokenizer.convert_tokens_to_ids(MARK)
            if number is None or number == tokenizer.unk_token_id:
                raise InputError(f"the prompt is for models with the token {MARK}; {hint}")
        return prompt
    with passed_on("the tokenizer's chat template", Exception, hint=hint):
        return str(
            tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        )
