"""How a problem becomes a prompt."""

from __future__ import annotations

from typing import Any

from ktae.errors import InputError

Messages = list[dict[str, str]]
"""A conversation: `role` and `content` of each message."""

INSTRUCTION = r"Please reason step by step, and put your final answer within \boxed{}."
"""The instruction of the Qwen-Math template, which the paper trains and evaluates with."""


def as_messages(problem: str, instruction: str | None) -> Messages:
    """A conversation that begins with the instruction, if there is one."""
    system = [{"role": "system", "content": instruction}] if instruction else []
    return [*system, {"role": "user", "content": problem}]


_PROBLEM = "{problem}"
_LATEX = "Present the answer in LaTex format: \\boxed{Your answer}"
_R1 = (
    "A conversation between User and Assistant. The User asks a question, and the Assistant solves "
    "it. The Assistant first thinks about the reasoning process in the mind and then provides the "
    "User with the answer. The reasoning process is enclosed within <think> </think> and answer is "
    "enclosed within <answer> </answer> tags, respectively, i.e., <think> reasoning process here "
    "</think> <answer> answer here </answer>."
)
_ACTIONS = (
    "\nWhen tackling complex reasoning tasks, you have access to the following actions. Use them "
    "as needed to progress through your thought process.\n\n[ASSESS]\n\n[ADVANCE]\n\n[VERIFY]\n\n"
    "[SIMPLIFY]\n\n[SYNTHESIZE]\n\n[PIVOT]\n\n[OUTPUT]\n\nYou should strictly follow the format "
    "below:\n\n[ACTION NAME]\n\n# Your action step 1\n\n# Your action step 2\n\n# Your action step "
    "3\n\n...\n\nNext action: [NEXT ACTION NAME]\n"
)

TEMPLATES: dict[str, str | Messages] = {
    "chat": as_messages(f"{_PROBLEM}\n\n{INSTRUCTION}", None),
    "qwen-math": f"<|im_start|>system\n{INSTRUCTION}<|im_end|>\n"
    f"<|im_start|>user\n{_PROBLEM}<|im_end|>\n<|im_start|>assistant\n",
    "plain": _PROBLEM,
    "r1-distill": as_messages(_PROBLEM, None),
    "r1": f"{_R1}\nUser: {_PROBLEM}\nAssistant: <think>",
    "prime": as_messages(f"{_PROBLEM}\n\n{_LATEX}", _ACTIONS),
    "prime-zero": "A conversation between User and Assistant. The user asks a question, and the "
    "Assistant solves it. The assistant first thinks about the reasoning process in the mind and "
    "then provides the user with the answer. The reasoning process and answer are enclosed within "
    "<think> </think> and <answer> </answer> tags, respectively, i.e., <think> reasoning process "
    f"here </think> <answer> answer here </answer>. User: {_PROBLEM}\n\n{_LATEX}. Assistant:",
    "open-reasoner-zero": f"{_R1} User: You must put your answer inside <answer> </answer> tags, "
    "i.e., <answer> answer here </answer>. And your final answer will be extracted automatically "
    f"by the \\boxed{{}} tag.\nThis is the problem:\n{_PROBLEM}\nAssistant: <think>",
}
"""By name; text as it is, or messages for the tokenizer's chat template. The first is the default.

The baselines' are those of the suite that the paper evaluates with (`evaluate_model.py` of
"Understanding R1-Zero-like training", whose models take `qwen-math` and, Llama's, `r1`); `prime` is
that of Eurus-2-7B-PRIME's own card.
"""


def prompt_of(template: str, problem: str, tokenizer: Any) -> str:
    """A problem in one of `TEMPLATES`.

    Raises:
        InputError: the tokenizer has no chat template, or the template's marks are no tokens of it,
            so the model has never seen them.
    """
    form = TEMPLATES[template]
    if not isinstance(form, str):
        messages = [m | {"content": m["content"].replace(_PROBLEM, problem)} for m in form]
        return written_out(messages, tokenizer)
    mark = "<|im_start|>"
    if mark in form and tokenizer.convert_tokens_to_ids(mark) in (None, tokenizer.unk_token_id):
        raise InputError(
            f"template {template} is for models with the token {mark}, and this model's "
            "tokenizer has none; --template chat takes its own template, plain the problem alone"
        )
    return form.replace(_PROBLEM, problem)


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
