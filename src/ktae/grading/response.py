"""What of a response counts: the last message, behind its thoughts, up to the end of the turn."""

from __future__ import annotations

import re
from typing import Any

from ktae.errors import InputError

_END = re.compile(
    r"<[|｜](?:im_end|im_start|endoftext|end▁of▁sentence|begin▁of▁sentence|eot_id|eom_id|end|return"
    r"|start_header_id|[Uu]ser|[Aa]ssistant|pad|endofprompt)[|｜]>|</?s>|<eos>|<pad>|\[/?INST\]"
    r"|<(?:end|start)_of_turn>"
    r"|\n(?:Human|User|#{2,4} ?(?:Instruction|Question|Problem)|(?<=\n\n)Q(?:uestion)?)[ \t]*:"
)
_THOUGHT = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>|[◁](/?)think[▷]", re.IGNORECASE)


def text_of(completion: Any) -> str:
    """A completion's text: itself, or what the policy wrote in its last message, maybe nothing."""
    if isinstance(completion, str):
        return completion
    try:
        written = [message for message in completion[:] if message["role"] == "assistant"]
        content = (written[-1].get("content") or "") if written else ""
        if isinstance(content, str):
            return content
        return "".join(part["text"] for part in content if part["type"] == "text")
    except (TypeError, KeyError, AttributeError):
        raise InputError(
            f"completion is {completion!r:.100}; expected text, or messages with role and content"
        ) from None


def final_part(response: str) -> tuple[str, str]:
    """What follows all thoughts up to the turn's end; and the thought that has ended."""
    begin = 0  # a chat template's tokens may stand in front
    for token in (*_END.finditer(response), None):
        text = response[begin : token.start() if token else None]
        if token is None or text.strip().lower() not in ("", "assistant", "model"):
            break
        begin = token.end()
    *_, last = (None, *_THOUGHT.finditer(text))
    if last is None:
        return text, ""
    if last[1] or last[2]:
        return text[last.end() :], text[: last.start()]
    opened = text.lower().rfind("<answer>")  # an answer ends a thought as well
    return (text[opened:] if opened > last.start() else ""), ""
