"""Messages as one model of a response: what the policy wrote, and what others wrote in between.

Read are the messages of OpenAI's chat, the items of its Responses, those of Anthropic, Gemini and
LangChain, text of any of them, choices that hold a message, and the turns of agents (`action`,
`observation`). What the role `assistant` wrote counts: its reasoning, its content, its calls of
tools. What another role wrote after its first message, and each result of a tool, is context, which
is shown and never given credit; what comes before is the prompt.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ktae.errors import InputError, quoted

POLICY = ("assistant", "gpt", "ai", "model", "bot", "agent", "chatbot", "reasoning")
"""Names of the policy's role; so are all that end in `_call`."""
OTHERS = (
    *("user", "human", "system", "developer", "prompter", "tool", "function", "observation"),
    *("environment", "env", "ipython", "executor", "context"),
)
"""Names of other roles; so are all that end as a tool's result (`RESULTS`)."""
CALLS = ("_call", "tool_use")
RESULTS = ("_output", "_result", "_response")
"""Ends of the types of items, and of parts of messages."""
PROMPTS = tuple(
    f"{name}{s}"
    for s in ("", "s")
    for name in ("prompt", "instruction", "problem", "question", "query", "input")
)
"""What a prompt may be called, alone or as one value for each of a row's responses."""
TURNS = (
    *("messages", "steps", "turns", "trajectory", "traj", "conversation", "conversations"),
    *("history", "nodes", "events", "transcript", "triplets", "transitions"),
)
"""Names of lists whose entries are turns of one rollout."""

REASONING = ("reasoning_content", "reasoning", "thinking", "thought", "reasoning_details")
CONTENTS = ("content", "value", "parts", "text", "refusal", "output", "logs")
"""Where a message, or a part of one, has its text."""
OF_PARTS = {
    **dict.fromkeys(("functionCall", "executableCode"), "function_call"),
    **dict.fromkeys(("functionResponse", "codeExecutionResult"), "function_result"),
}
"""Gemini's parts, and the types that they are of."""
SEEN = ("observation", "result", "outputs", "results", "output")
"""What a tool, or the environment, answered to a call or a turn."""
KNOWN = frozenset((*CONTENTS, *REASONING, *OF_PARTS, "tool_calls", "function_call", "type"))
"""Fields that say what a message is about."""


class Segment(NamedTuple):
    """A message's text, and whether the policy wrote it (None: its role is not known)."""

    text: str
    is_policy: bool | None


class Dialogue(NamedTuple):
    """A conversation as a rollout."""

    prompt: str | None
    """None where it begins with the policy."""
    response: str
    context: list[int]
    """Begin and end of each part of the response that another role wrote, in characters."""


def messages_of(value: Any) -> list[dict[str, Any]] | None:
    """The messages of a conversation, which may be text of JSON or Python; None for none."""
    if is_text := isinstance(value, str):
        # Most responses are other text, so a look at both ends comes first.
        text = value.strip() if value[:1] in "[{ \n\t" else ""
        is_json = text[:1] + text[-1:] in ("[]", "{}")
        if not (is_json and any(name in text for name in ("role", "from", "type"))):
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            try:  # what pandas writes into CSV
                value = ast.literal_eval(text)
            except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
                return None
    if isinstance(value, dict) and (
        is_choice(value) or ("content" in value and author(value) is not None)
    ):
        value = [value]
    if not (isinstance(value, list) and value and all(map(is_message, value))):
        return None
    if len(value) > 1 and all(map(is_choice, value)):
        return None  # several choices are as many responses
    # A policy may have to write a call as JSON; a conversation says more than that.
    said = {"role", "from", "content", "call_id", "message"}
    return None if is_text and not any(said & message.keys() for message in value) else value


def is_said(value: Any) -> bool:
    """Whether it is text or a conversation."""
    return isinstance(value, str) or messages_of(value) is not None


def author(message: dict[str, Any]) -> bool | None:
    """Whether the policy wrote a message; None where its role is not known.

    What ART does not train on, or OpenAI gives no weight, another wrote in its place.
    """
    if message.get("trainable") is False or message.get("weight") == 0:
        return False
    for name in ("role", "from", "type"):
        if isinstance(role := message.get(name), str):
            return is_policy_role(role)
    return None


@functools.lru_cache
def is_policy_role(role: str) -> bool | None:
    """Whether a role is the policy's; None for one that is not known."""
    role = role.lower()
    role = role.removesuffix("chunk").removesuffix("message") or role  # LangChain's classes
    if role in POLICY or role.endswith(CALLS):
        return True
    return False if role in OTHERS or role.endswith(RESULTS) else None


def is_message(value: Any) -> bool:
    """Whether it is a message, an item of OpenAI's Responses, or a turn of an agent."""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("role"), str):
        return True
    kind = str(value.get("type"))
    return (
        (isinstance(value.get("from"), str) and "value" in value)
        or (author(value) is not None and ("content" in value or "data" in value))
        or kind == "reasoning"
        or kind.endswith(("_call", "_output"))
        or is_turn(value)
        or is_choice(value)
    )


def is_turn(value: dict[str, Any]) -> bool:
    """Whether it is an agent's turn: what it did, and perhaps what it saw then."""
    return isinstance(value.get("action"), str) or isinstance(value.get("response"), str)


def is_choice(value: dict[str, Any]) -> bool:
    """Whether it is one of OpenAI's choices, in which a message is."""
    message = value.get("message")
    return isinstance(message, dict) and isinstance(message.get("role"), str)


def segments(messages: Iterable[dict[str, Any]]) -> list[Segment]:
    """The texts of messages: what the policy wrote, and results of tools in between."""
    parts: list[Segment] = []
    for message in messages:
        is_policy, content = author(message), message.get("content")
        if len(message) == 2 and isinstance(content, str):  # most are a role and a text
            parts.append(Segment(content, is_policy))
            continue
        if is_policy is None and is_choice(message):
            message = message["message"]
            is_policy = author(message)
        elif isinstance(message.get("data"), dict):  # LangChain's, with the type beside
            message = {"type": message.get("type")} | message["data"]
        elif is_policy is None and "role" not in message and is_turn(message):
            is_policy = True
            did = message.get("action") or message.get("response")
            saw = [{"type": "tool_result", "content": x} for x in map(message.get, SEEN) if x]
            message = {x: message.get(x) for x in REASONING} | {"content": [did, *saw]}
        texts = [x for x in pieces(message) if x.text]
        if is_policy:
            parts += texts or [Segment("", True)]
        else:
            parts.append(Segment(joined(x.text for x in texts), is_policy))
    return parts


def pieces(value: Any, own: bool = True) -> Iterator[Segment]:
    """The texts of a message or of its content; `own`: they are no result of a tool."""
    if isinstance(value, str):
        yield Segment(value, own)
    elif isinstance(value, list):
        for part in value:
            yield from pieces(part, own)
    elif isinstance(value, dict):
        for name in OF_PARTS.keys() & value.keys():
            inner = value[name]
            inner = inner if isinstance(inner, dict) else {"content": inner}
            value = {"type": OF_PARTS[name]} | inner
        kind = str(value.get("type"))
        if kind.endswith(CALLS):
            yield Segment(call_text(value), own)
            for name in SEEN:
                yield from pieces(value.get(name), False)
            return
        own = own and not kind.endswith(RESULTS)
        thoughts = (*REASONING, "summary") if kind == "reasoning" else REASONING
        texts: list[Segment] = []
        for names in (thoughts, CONTENTS):  # Gemini has `thought: true` beside the text
            inside = (value[x] for x in names if value.get(x) and value[x] is not True)
            texts += pieces(next(inside, None), own)
        is_other = KNOWN.isdisjoint(value) and not {"role", "from"} & value.keys()
        if is_other or (kind.endswith(RESULTS) and not texts):
            content = {name: x for name, x in value.items() if name != "type" and x is not None}
            texts = [Segment(json.dumps(content, ensure_ascii=False, default=str), own)]
        yield from texts
        calls = value.get("tool_calls")
        if isinstance(calls, str):
            with contextlib.suppress(ValueError, RecursionError):
                calls = json.loads(calls)
        calls = calls if isinstance(calls, list) else [calls]
        known = {"", *(text.text for text in texts)}  # a call may also be a part of the content
        for call in (*calls, value.get("function_call")):
            if call and (text := call_text(call)) not in known:
                yield Segment(text, own)
    elif value is not None:
        yield Segment(json.dumps(value, default=str), own)


def dialogue(parts: list[Segment]) -> Dialogue | None:
    """Prompt, response and context; None where no part is the policy's."""
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


def response_of(value: Any, where: str) -> Dialogue | None:
    """The rollout in a response that is a conversation; None for any other response."""
    messages = messages_of(value)
    if messages is None:
        return None
    parts = segments(messages)
    if any(part.is_policy is None for part in parts):
        roles = [str(x.get("role") or x.get("from")) for x in messages if author(x) is None]
        raise InputError(
            f"{where}: a message of the role {quoted(roles)}; expected one of {quoted(POLICY)}, "
            f"which are the policy's, or of {quoted(OTHERS)}"
        )
    talk = dialogue(parts)
    if talk is None:
        raise InputError(
            f"{where}: response is a conversation without a message of the role assistant"
        )
    if not talk.response and not any(
        is_choice(message) or KNOWN & message.keys() for message in messages
    ):
        raise InputError(
            f"{where}: the messages of response have no content; they have {quoted(messages[-1])}"
        )
    return talk


def plain_text(value: Any) -> Any:
    """The texts of a conversation's messages; any other value as it is."""
    messages = messages_of(value)
    return value if messages is None else joined(part.text for part in segments(messages))


def call_text(call: Any) -> str:
    """A call of a tool as text, without its id: `python({"code": "print(2)"})`."""
    if not isinstance(call, dict):
        return str(call)
    function = call.get("function")
    inner: dict[str, Any] = function if isinstance(function, dict) else call
    names = ("arguments", "args", "input", "action", "code", "queries")
    arguments = next((inner[x] for x in names if inner.get(x) is not None), "")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, default=str)
    named = (inner.get("name"), inner.get("function_name"), function, call.get("type"))
    name = next((x for x in named if x and isinstance(x, str)), "call")
    return f"{name}({arguments})"


def joined(texts: Iterable[Any]) -> str:
    """Those that are text and not empty, one a line."""
    return "\n".join(text for text in texts if isinstance(text, str) and text)
