"""Prompts: the tokenizer's own template, never one that is assumed."""

import types

import pytest

from ktae.errors import InputError
from ktae.experiments.demo.model import make_tokenizer as words
from ktae.experiments.templates import INSTRUCTION, prompt_of, written_out

MARK = "<|im_start|>"
LATEX = "\n\nPresent the answer in LaTex format: \\boxed{Your answer}"


def make_tokenizer(tokens=()):
    return types.SimpleNamespace(
        unk_token_id=0,
        convert_tokens_to_ids=lambda token: 1 if token in tokens else 0,
        apply_chat_template=lambda messages, **_: "".join(
            f"<{message['role']}>{message['content']}" for message in messages
        ),
    )


def test_a_tokenizer_without_the_marks_or_a_template_is_refused():
    with pytest.raises(InputError, match="--template"):
        written_out(prompt_of("qwen-math", "1 + 1"), make_tokenizer())
    with pytest.raises(InputError, match="--template"):
        written_out(prompt_of("chat", "1 + 1"), words())


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
    prompt = written_out(prompt_of(template, problem), make_tokenizer([MARK]))
    left, right = prompt.split(problem)
    assert left.endswith(before) and right == after
