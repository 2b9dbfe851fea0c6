"""Messages as one model of a response: what the policy wrote, and what others wrote in between.

Read are the messages of OpenAI's chat, the items of its Responses, JSON text of either, and the
turns of agents (`action`, `observation`). What the role `assistant` wrote counts: its reasoning,
its content, its calls of tools. What another role wrote after its first message is context, which
is shown and never given credit; what comes before is the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from ktae.errors import InputError, quoted
from ktae.rollouts.notes import Notes

POLICY = ("assistant", "gpt", "ai", "model", "bot", "agent")
"""Names of the policy's role."""
TURNS = (
    *("messages", "steps", "turns", "trajectory", "traj", "conversation", "conversations"),
    *("history", "nodes", "events", "transcript", "triplets", "transitions"),
)
"""Names of lists whose entries are turns of one rollout."""

CONTENTS = ("content", "value", "parts")
REASONING = ("reasoning_content", "reasoning", "thinking", "thought")
KNOWN = {*CONTENTS, *REASONING, "tool_calls", "function_call", "type", "action", "response"}
"""Fields that say what a message is about."""
TEXTS = ("text", "content", "thinking", "reasoning", "refusal", "output", "value")
"""Where a part of a message has its text."""


class Segment(NamedTuple):
    """A message's text, and whether the policy wrote it."""

    text: str
    is_policy: bool


class Dialogue(NamedTuple):
    """A conversation as a rollout."""

    prompt: str | None
    """None where it begins with the policy."""
    response: str
    context: list[int]
    """Begin and end of each part of the response that another role wrote, in characters."""


def messages_of(value: Any) -> list[dict[str, Any]] | None:
    """The messages of a conversation, which may be JSON text; None where it is none."""
    if isinstance(value, str):
        # Most responses are other text, so a look at the beginning comes first.
        if not value.startswith(("[{", "[ {", "[\n")) or not value.rstrip().endswith("]"):
            return None
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, list) or not any(
            isinstance(x, dict) and ("role" in x or "from" in x) for x in value
        ):
            return None
    if isinstance(value, list) and value and all(map(is_message, value)):
        return value
    return None


def is_message(value: Any) -> bool:
    """Whether it is a message, an item of OpenAI's Responses, or a turn of an agent."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("role"), str) or "content" in value:
        return True
    if isinstance(value.get("from"), str) and "value" in value:
        return True
    kind = value.get("type")
    if isinstance(kind, str) and (kind == "reasoning" or kind.endswith(("_call", "_output"))):
        return True
    return is_turn(value)


def is_turn(value: dict[str, Any]) -> bool:
    """Whether it is an agent's turn: what it did, and perhaps what it saw then."""
    return isinstance(value.get("action"), str) or isinstance(value.get("response"), str)


def segments(messages: Iterable[dict[str, Any]]) -> list[Segment]:
    """The texts of messages; a message without a role is the policy's."""
    parts: list[Segment] = []
    for message in messages:
        kind = message.get("type")
        role = message.get("role") or message.get("from")
        if role is None and is_turn(message):
            said = [message.get("thought"), message.get("action") or message.get("response")]
            parts.append(Segment(joined(said), True))
            if seen := joined([message.get("observation")]):
                parts.append(Segment(seen, False))
        elif isinstance(role, str):
            is_policy = role.lower() in POLICY
            text = _said(message) if is_policy else _text(_content(message))
            parts.append(Segment(text or "", is_policy))
        elif isinstance(kind, str) and kind.endswith("_output"):
            parts.append(Segment(joined([_text(message.get("output"))]), False))
        elif isinstance(kind, str) and kind.endswith("_call"):
            parts.append(Segment(call_text(message), True))
        elif kind == "reasoning":
            parts.append(
                Segment(joined(_text(message.get(x)) for x in ("summary", "content")), True)
            )
        else:
            parts.append(Segment(_said(message), True))
    return parts


def dialogue(messages: Iterable[dict[str, Any]]) -> Dialogue | None:
    """Prompt, response and context; None where no message is the policy's."""
    return dialogue_of(segments(messages))


def dialogue_of(parts: list[Segment]) -> Dialogue | None:
    """The same, of segments."""
    first = next((i for i, part in enumerate(parts) if part.is_policy), None)
    if first is None:
        return None
    text, context = "", []
    for part in parts[first:]:
        begin = len(text)
        text += "\n" + part.text if begin and part.text else part.text
        if not part.is_policy and len(text) > begin:
            context += [begin, len(text)]
    return Dialogue(joined(part.text for part in parts[:first]) or None, text, context)


def with_texts(row: dict[str, Any], where: str, notes: Notes) -> dict[str, Any]:
    """The row with what the policy said in a conversation as its response, and its prompt."""
    fields = dict(row)
    response, prompt = fields.get("response"), fields.get("prompt")
    if prompt is not None and (not isinstance(prompt, str) or prompt.startswith("[")):
        fields["prompt"] = plain_text(prompt)
    if response is not None and (not isinstance(response, str) or response.startswith("[")):
        messages = messages_of(response)
        if messages is not None:
            talk = dialogue(messages)
            if talk is None:
                raise InputError(
                    f"{where}: response is a conversation without a message of the role assistant"
                )
            if not talk.response and not any(KNOWN & message.keys() for message in messages):
                raise InputError(
                    f"{where}: the messages of response have no content; they have "
                    f"{quoted(messages[-1])}"
                )
            fields["response"] = talk.response
            fields["context_spans"] = talk.context or None
            before = fields.get("prompt")
            if talk.prompt is not None and not (isinstance(before, str) and talk.prompt in before):
                fields["prompt"] = f"{before}\n{talk.prompt}" if before else talk.prompt
    if fields.get("context_spans"):
        notes.add("context")
        if fields.get("token_ids") is not None and fields.get("mask") is None:
            notes.add("ids")
            fields["token_ids"] = None
    return fields


def plain_text(value: Any) -> Any:
    """The texts of a conversation's messages; any other value as it is."""
    messages = messages_of(value)
    return value if messages is None else joined(part.text for part in segments(messages))


def call_text(call: Any) -> str:
    """A call of a tool as text, without its id: `python({"code": "print(2)"})`."""
    if not isinstance(call, dict):
        return ""
    function = call.get("function")
    inner: dict[str, Any] = function if isinstance(function, dict) else call
    arguments = next((inner[x] for x in ("arguments", "args", "input", "action") if x in inner), "")
    arguments = (
        arguments
        if isinstance(arguments, str)
        else json.dumps(arguments, ensure_ascii=False, default=str)
    )
    return f"{inner.get('name') or call.get('type') or 'call'}({arguments})"


def joined(texts: Iterable[Any]) -> str:
    """Those that are text and not empty, one a line."""
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def _said(message: dict[str, Any]) -> str:
    """All that the policy wrote in a message."""
    reasoning = next((message[x] for x in REASONING if isinstance(message.get(x), str)), None)
    calls = message.get("tool_calls")
    calls = list(calls) if isinstance(calls, list) else []
    if isinstance(message.get("function_call"), dict):
        calls.append(message["function_call"])
    return joined([reasoning, _text(_content(message)), *map(call_text, calls)])


def _content(message: dict[str, Any]) -> Any:
    """What a message holds; OpenAI and others, ShareGPT and Gemini call it differently."""
    return next((message[x] for x in CONTENTS if message.get(x) is not None), None)


def _text(content: Any) -> str | None:
    """The text of a message's content: text, or a list of parts; what is neither is none."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        return json.dumps(content, ensure_ascii=False, default=str)
    texts = []
    for part in content:
        if not isinstance(part, dict):
            texts.append(part)
        elif part.get("type") == "tool_use" or isinstance(part.get("functionCall"), dict):
            texts.append(call_text(part.get("functionCall", part)))
        elif "functionResponse" in part:
            texts.append(json.dumps(part["functionResponse"], ensure_ascii=False, default=str))
        else:
            inside = next((part[x] for x in TEXTS if part.get(x) is not None), None)
            texts.append(_text(inside) if isinstance(inside, list) else inside)
    return joined(texts)
