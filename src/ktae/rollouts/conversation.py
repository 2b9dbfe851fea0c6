"""Messages as one model of a response: what the policy wrote, and what others wrote in between.

Read are messages of OpenAI's chat and Responses, Anthropic, Gemini, LangChain and ShareGPT, and the
text of a list of them. What the policy wrote counts: reasoning, content and calls of tools. What
others wrote after its first message, and each result of a tool, is context, which is shown and
never given credit; what comes before is the prompt.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import itertools
import json
from collections.abc import Iterable
from typing import Any

from ktae.errors import InputError, quoted
from ktae.rollouts.paths import MESSAGES as M

KNOWN = {*M.contents, *M.reasoning, *M.parts, *M.calls_in}
"""Fields that say what a message, or a part of one, is about."""
CALLS, RESULTS = tuple(M.calls), tuple(M.results)
as_json = json.JSONEncoder(ensure_ascii=False, default=str).encode
ROLES = {name: role for role, names in M.roles.items() for name in names}

Segment = tuple[str, str | None]
"""A text, and whose it is: policy, tool, user or system; None where that is not known."""


def role_of(message: dict[str, Any]) -> str | None:
    """The role of a message's segments; None for one that is not known.

    What ART does not train on, OpenAI gives no weight, or SWE-agent shows is an example.
    """
    name = message["role"].lower()
    name = name.removesuffix("chunk").removesuffix("message") or name  # LangChain's classes
    if (role := ROLES.get(name)) is None:
        role = "policy" if name.endswith(CALLS) else "tool" if name.endswith(RESULTS) else None
    is_example = message.get("trainable") is False or message.get("weight") == 0
    return "user" if role == "policy" and (is_example or message.get("is_demo") is True) else role


def author(message: dict[str, Any]) -> bool:
    """Whether the policy wrote a message."""
    return role_of(message) == "policy"


def messages_of(value: Any) -> list[dict[str, Any]] | None:
    """The messages of a conversation, or of the text of one, each with its role; None for none."""
    if isinstance(value, str):
        # A policy may have been asked to write JSON: each has to be a message beyond doubt.
        is_likely = value[:1] in "[ \n\t" and any(x in value for x in ("role", "from", "type"))
        messages = messages_of(list_in(value)) if is_likely else None
        return messages if messages and None not in map(role_of, messages) else None
    value = _unwrapped(value)
    is_alone = isinstance(value, dict) and not {"message", "content"}.isdisjoint(value)
    entries = [value] if is_alone else value
    if not (isinstance(entries, list) and entries) or choices_of(entries):
        return None  # several choices are rollouts, and no turns of one
    messages = []
    for entry in entries:
        message = entry.get("message") if isinstance(entry, dict) else None
        message = message if isinstance(message, dict) else entry
        if not isinstance(message, dict):
            return None
        if not isinstance(message.get("role"), str):  # Responses and LangChain have it as a type
            name = entry["from"] if entry.keys() == {"from", "value"} else entry.get("type")
            message = entry | {"role": name}
            if not isinstance(name, str) or role_of({"role": name}) is None:
                return None
        messages.append(message)
    return None if is_alone and role_of(messages[0]) is None else messages


def choices_of(value: Any) -> list[dict[str, Any]] | None:
    """The several choices of an answer of OpenAI's, each a response; None for anything else."""
    value = _unwrapped(value)
    are_choices = isinstance(value, list) and all(
        isinstance(x, dict) and isinstance(x.get("message"), dict) for x in value
    )
    return value if are_choices and len(value) > 1 else None


def _unwrapped(value: Any) -> Any:
    """What is in an answer of OpenAI's, or in a line of its batches; another value as it is."""
    while isinstance(value, dict) and "role" not in value:
        inner = (value.get(name) for name in ("body", "response", "choices", "output"))
        within = next((x for x in inner if x and isinstance(x, dict | list)), None)
        if within is None:
            break
        value = within
    return value


def list_in(text: str) -> list[Any] | None:
    """The list that a text spells, in JSON or as Python prints it; None for any other text."""
    value, text = from_json(text), text.strip()
    if isinstance(value, str) and text[:1] + text[-1:] == "[]":
        with contextlib.suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            value = ast.literal_eval(text)
    return value if isinstance(value, list) else None


def segments(messages: Iterable[dict[str, Any]]) -> list[Segment]:
    """The texts of messages, each with its role; the policy has at least one for each message."""
    parts: list[Segment] = []
    for message in messages:
        role = role_of(message)
        texts = [x for x in _pieces(message, role) if x[0]]
        parts += texts or [("", role)] * (role == "policy")
    return parts


def _pieces(value: Any, role: str | None) -> list[Segment]:
    """The texts of a message or of its content: those of `role`, and results of tools."""
    if isinstance(value, list):
        return [piece for part in value for piece in _pieces(part, role)]
    if value is None:
        return []
    if not isinstance(value, dict):
        return [(value if isinstance(value, str) else as_json(value), role)]
    for name in (x for x in M.parts if value.get(x) is not None):  # Gemini's, Bedrock's
        inner = value[name] if isinstance(value[name], dict) else {"content": value[name]}
        value = inner | {"type": M.parts[name]}
    kind = str(value.get("type")).replace("-", "_")
    if kind.endswith(CALLS):
        return [(call_text(value), role)]
    role = "tool" if kind.endswith(RESULTS) else role
    if KNOWN.isdisjoint(value) and "role" not in value:
        text = as_json(value)
        if "type" in value:  # such as a picture, or what is encrypted
            digest = hashlib.blake2s(text.encode(errors="replace"), digest_size=4).hexdigest()
            text = "" if role == "policy" else f"[{kind} {digest}]"
        return [(text, role)]
    filled = {k: x for k, x in value.items() if x and x is not True}  # Gemini's `thought: true`
    reasoning = ("summary",) if value.get("redacted") is True else M.reasoning
    thoughts, texts = (
        _pieces(next((filled[x] for x in names if x in filled), None), role)
        for names in (reasoning, M.contents)
    )
    content = "".join(text for text, _ in texts).removeprefix("<think>").lstrip()  # may repeat them
    texts = [x for x in thoughts if not content.startswith(x[0].strip())] + texts
    said = {text for text, _ in texts}
    for calls in (from_json(filled.get(name)) or [] for name in M.calls_in):
        made = map(call_text, calls if isinstance(calls, list) else [calls])
        texts += [(text, role) for text in made if text not in said]
    return texts


def call_text(call: Any) -> str:
    """A call of a tool, or the JSON of one, as text without its id: `python({"n": 2})`."""
    call = from_json(call)
    if not isinstance(call, dict):
        return str(call)
    function: Any = call.get("function")
    inner = function if isinstance(function, dict) else call
    arguments = next((inner[x] for x in M.arguments if inner.get(x) is not None), "")
    text = arguments if isinstance(arguments, str) else as_json(arguments)
    names = (inner.get("name"), function, call.get("type"))
    return f"{next((x for x in names if x and isinstance(x, str)), 'call')}({text})"


def from_json(value: Any) -> Any:
    """What the text of an object or a list holds; any other value as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def joined(texts: Iterable[Any]) -> str:
    """Those that are text and not empty, one a line."""
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def plain_text(value: Any) -> Any:
    """The texts of a conversation's messages; any other value, or text with none, as it is."""
    if (messages := messages_of(value)) is None:
        return value
    text = joined(text for text, _ in segments(messages))
    return value if isinstance(value, str) and not text else text


def dialogue(parts: list[Segment], begin: int = 0) -> dict[str, Any] | None:
    """The prompt, the response, and its segments where others than the policy wrote some of them.

    None where none of the parts after `begin` is the policy's.
    """
    policy = (i for i, (_, role) in enumerate(parts) if role == "policy" and i >= begin)
    if (first := next(policy, None)) is None:
        return None
    said, runs = [part for part in parts[first:] if part[0]], list[dict[str, Any]]()
    for role, run in itertools.groupby(said, key=lambda part: part[1]):
        runs.append({"text": "\n" * bool(runs) + joined(text for text, _ in run), "role": role})
    return {
        "prompt": joined(text for text, _ in parts[:first]) or None,
        "response": joined(text for text, _ in said),
        "segments": None if {role for _, role in said} <= {"policy"} else runs,
    }


def response_of(value: Any, prompt: Any, where: str) -> dict[str, Any] | None:
    """The rollout in a response that is a conversation; None for any other response.

    `prompt` is what stands beside it in its row, text or messages.
    """
    if (messages := messages_of(value)) is None:
        return None
    parts, begin = segments(messages), 0
    if not author(messages[0]):
        # The prompt ends with the first message of a user that holds what is asked beside them.
        before = messages_of(prompt) or []
        asking = segments(before)
        asked = asking[-1][0] if asking else prompt if isinstance(prompt, str) else ""
        texts = (joined(x for x, role in segments([y]) if role == "user") for y in messages)
        begin = next((n for n, text in enumerate(texts, start=1) if asked and asked in text), 0)
        if asking and asking == segments(messages[: len(before)]):
            begin = len(before)
    talk = dialogue(parts, len(segments(messages[:begin]))) or dialogue(parts)
    if talk is None and isinstance(value, str):
        return None  # what the policy was asked to write
    has_content = any(KNOWN & message.keys() for message in messages)
    if talk is None or None in map(role_of, messages) or not (talk["response"] or has_content):
        roles = quoted(dict.fromkeys(message["role"] for message in messages))
        raise InputError(
            f"{where}: response is messages of {roles} with {quoted(messages[-1])}; expected "
            f"content of {quoted(M.roles['policy'])}, among other roles that are known"
        )
    return talk
