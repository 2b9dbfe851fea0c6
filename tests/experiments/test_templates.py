"""Prompts: the tokenizer's own template, never one that is assumed."""

import types

import pytest

from ktae.errors import InputError
from ktae.experiments.templates import INSTRUCTION, prompt_of, written_out

MARK = "<|im_start|>"
LATEX = "\n\nPresent the answer in LaTex format: \\boxed{Your answer}"


def make_tokenizer(chat_template=None, tokens=()):
    return types.SimpleNamespace(
        chat_template=chat_template,
        unk_token_id=0,
        convert_tokens_to_ids=lambda token: 1 if token in tokens else 0,
        apply_chat_template=lambda messages, **_: "".join(
            f"<{message['role']}>{message['content']}" for message in messages
        ),
    )


@pytest.mark.parametrize("template", ["chat", "qwen-math"])
def test_a_tokenizer_without_the_template_or_its_marks_is_refused(template):
    with pytest.raises(InputError, match="--template"):
        written_out(prompt_of(template, "1 + 1"), make_tokenizer())


@pytest.mark.parametrize(
    ("template", "before", "after"),
    [
        ("chat", "<user>", f"\n\n{INSTRUCTION}"),
        ("qwen-math", "}.<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n"),
        ("plain", "", ""),
        ("r1-distill", "<user>", ""),
        ("r1", "</answer>.\nUser: ", "\nAssistant: <think>"),
        ("prime", "Next action: [NEXT ACTION NAME]\n<user>", LATEX),
        ("prime-zero", "</answer>. User: ", f"{LATEX}. Assistant:"),
        ("open-reasoner-zero", "tag.\nThis is the problem:\n", "\nAssistant: <think>"),
    ],
)
def test_what_stands_around_the_problem(template, before, after):
    """The last words before it, and all after it; braces of the problem's own stay."""
    problem = r"Find $\frac{1}{2} + {problem}$"
    prompt = written_out(prompt_of(template, problem), make_tokenizer("x", [MARK]))
    left, right = prompt.split(problem)
    assert left.endswith(before) and right == after
