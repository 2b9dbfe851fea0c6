"""Messages as one model of a response: what the policy wrote, and what others wrote in between.

Read are the messages of OpenAI's chat, the items of its Responses, those of Anthropic, Gemini and
LangChain, text of any of them, answers and choices that hold messages, steps of ATIF, events of
OpenHands, and turns of other agents (`action`, `observation`). What the role `assistant` wrote
counts: its reasoning, its content, its calls of tools. What another role wrote after its first
message, and each result of a tool, is context, which is shown and never given credit; what comes
before is the prompt.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ktae.errors import InputError, quoted
from ktae.rollouts.names import MESSAGES as M

OF_MESSAGES = {*M.contents, *M.reasoning, *M.parts, *M.calls_in, *M.others}
KNOWN = OF_MESSAGES - {*M.others} | {"type"}
"""Fields that a message may have, and those that say what it is about."""
CALLS, RESULTS = tuple(M.calls), tuple(M.results)
MEDIA = re.compile("image|audio|video|file")
"""Types of parts that hold a picture, sound or file, whose data is in their JSON."""
DATA = re.compile(r'"data:[^"]+"|"(?:data|bytes)": "[^"\\]*(?:\\.[^"\\]*)*"')
JSON_BEGINS = "[{ \n\t"
"""A text that is a conversation begins with one of these."""


class Segment(NamedTuple):
    """A part of a conversation, and whose it is."""

    text: str
    role: str | None
    """`policy`, `tool`, `user` or `system`; None: not known."""


class Dialogue(NamedTuple):
    """A conversation as a rollout."""

    prompt: str | None
    """None where it begins with the policy."""
    segments: list[Segment]
    """The parts of the response, whose texts joined are its text."""
    has_only_user_turns: bool = False
    """Whether users alone, and no tools, speak between its turns: the first may be examples."""

    def as_row(self) -> dict[str, Any]:
        """The response, and its segments if others than the policy wrote some of them."""
        parts = [part._asdict() for part in self.segments]
        has_context = any(part.role != "policy" for part in self.segments)
        text = "".join(part.text for part in self.segments)
        return {"response": text, "segments": parts if has_context else None}


# --- whose a message is


@functools.lru_cache
def is_policy_role(role: str) -> bool | None:
    """Whether a role is the policy's; None for one that is not known."""
    role = role.lower()
    role = role.removesuffix("chunk").removesuffix("message") or role  # LangChain's classes
    if role in M.policy or role.endswith(CALLS):
        return True
    return False if role in (*M.asking, *M.context) or role.endswith(RESULTS) else None


def author(message: dict[str, Any]) -> bool | None:
    """Whether the policy wrote a message; None where its role is not known.

    What ART does not train on, OpenAI gives no weight, or SWE-agent shows as an example, another
    wrote in its place.
    """
    is_example = message.get("is_demo") is True or message.get("trainable") is False
    return False if is_example or message.get("weight") == 0 else is_policy_role(message["role"])


def role_of(message: dict[str, Any]) -> str | None:
    """The role of a message's segments; None for one that is not known."""
    is_policy, name = author(message), str(message.get("role")).lower()
    if is_policy is not False:
        return "policy" if is_policy else None
    if name.startswith(("system", "developer")):
        return "system"
    return "user" if is_policy_role(name) or name.startswith(tuple(M.asking)) else "tool"


# --- what is a conversation


def messages_of(value: Any) -> list[dict[str, Any]] | None:
    """The messages of a conversation, which may be text of JSON or Python; None for none."""
    is_text = isinstance(value, str)
    if is_text and value[:1] not in JSON_BEGINS:
        return None  # most texts
    value = _parsed(value) if is_text else value
    while isinstance(value, dict) and "role" not in value and not is_text:
        # An answer of OpenAI's, or a line of its batches.
        inside = next(filter(None, map(value.get, ("body", "choices", "output"))), None)
        if not isinstance(inside, dict | list):
            break
        value = inside
    is_alone = isinstance(value, dict) and bool({"message", "content"} & value.keys())
    entries = [value] if is_alone else value
    if not (isinstance(entries, list) and entries):
        return None
    messages = []
    for entry in entries:
        message = message_of(entry) or (None if is_text else turn_of(entry))
        if message is None or ((is_text or is_alone) and author(message) is None):
            return None
        messages.append(message)
    # Several choices are rollouts, and no turns of one.
    are_choices = len(entries) > 1 and all(isinstance(x.get("message"), dict) for x in entries)
    return None if are_choices or (is_text and _is_answer(entries, is_alone)) else messages


def choices_of(value: Any) -> list[dict[str, Any]] | None:
    """The several choices of an answer of OpenAI's, each a response; None for anything else."""
    while isinstance(value, dict) and "role" not in value:
        value = next(filter(None, map(value.get, ("body", "response", "choices"))), None)
    if not isinstance(value, list) or len(value) < 2:
        return None
    are_choices = all(isinstance(x, dict) and isinstance(x.get("message"), dict) for x in value)
    return value if are_choices else None


def _is_answer(entries: Sequence[dict[str, Any]], is_alone: bool) -> bool:
    """Whether JSON with messages in it is what a policy had to write, such as a call or an edge.

    A conversation says more than a call, and its messages have no fields of other things.
    """
    if is_alone and "role" not in entries[0]:
        return True
    unsure = entries if is_alone else [entry for entry in entries if "from" in entry]
    others = {name for entry in unsure for name, x in entry.items() if x not in (None, [])}
    said = {"role", "from", "content", "call_id", "message"}
    return not others <= OF_MESSAGES or not any(said & entry.keys() for entry in entries)


def _parsed(text: str) -> Any:
    """What a text of JSON or Python holds that may be messages; None for any other."""
    text = text.strip()
    if text[:1] + text[-1:] in ("[]", "{}") and any(x in text for x in ("role", "from", "type")):
        # Python's text is what pandas writes into CSV, without commas where it had arrays.
        python = re.sub(r"\}\s*\n\s*\{", "}, {", text)
        for parse, spelling in ((json.loads, text), (ast.literal_eval, python)):
            with contextlib.suppress(
                ValueError, SyntaxError, TypeError, MemoryError, RecursionError
            ):
                return parse(spelling)
    return None


def message_of(value: Any) -> dict[str, Any] | None:
    """A message in any of the forms, with its `role`; None for what is none.

    Items of OpenAI's Responses have a type for a role.
    """
    if not isinstance(value, dict) or isinstance(value.get("role"), str):
        return value if isinstance(value, dict) else None
    for inner in map(value.get, ("message", "llm_message")):  # of a choice, of OpenHands
        if isinstance(inner, dict) and isinstance(inner.get("role"), str):
            return inner
    if isinstance(value.get("from"), str) and "value" in value:
        return value | {"role": value["from"]}
    kind = str(value.get("type"))
    is_item = kind == "reasoning" or kind.endswith(("_call", "_output"))
    if is_item or (is_policy_role(kind) is not None and {"content", "data"} & value.keys()):
        data = value.get("data")
        return (data if isinstance(data, dict) else value) | {"type": kind, "role": kind}
    return None


def turn_of(value: Any) -> dict[str, Any] | None:
    """An agent's turn as a message: its reasoning, what it said and called, and what it saw then.

    Steps of ATIF and events of OpenHands name their source; the latter's actions have arguments.
    """
    if not isinstance(value, dict):
        return None
    role, args = value.get("source"), value.get("args")
    thoughts = {name: value.get(name) for name in M.reasoning}
    calls: list[Any] = []
    said: Any = None
    seen = [{"type": "tool_result", "content": x} for x in map(value.get, M.answered) if x]
    if not isinstance(role, str) or is_policy_role(role) is None:
        did = (x for x in map(value.get, ("action", "response")) if isinstance(x, str))
        role, said = "assistant", next(did, None)
        if said is None:
            return None
    elif "content" in value and isinstance(value.get("observation"), str):
        return {"role": "observation", "content": value["content"]}
    elif isinstance(args, dict):
        action, seen, thoughts = str(value.get("action")), [], {}
        said = [args.get("thought"), args.get(M.said.get(action, ""))]
        rest = {name: x for name, x in args.items() if x is not None and name != "thought"}
        calls = [] if action in M.said else [{"name": action, "arguments": rest}]
        role = "system" if action == "system" else role
    else:
        calls = value.get("tool_calls") or [value.get("tool_call")]
        role = "system" if "system_prompt" in value else role
        said = value.get("message", value.get("system_prompt"))
    called = ({**x, "type": "tool_call"} for x in calls if isinstance(x, dict))
    return thoughts | {"role": role, "content": [said, *called, *seen]}


# --- the texts of messages


def segments(messages: Iterable[dict[str, Any]]) -> list[Segment]:
    """The texts of messages: what the policy wrote, and results of tools in between."""
    parts: list[Segment] = []
    for message in messages:
        role, text = role_of(message), message.get("content")
        if len(message) == 2 and isinstance(text, str):  # most are a role and a text
            parts.append(Segment(text, role))
            continue
        texts = [x for x in pieces(message) if x.text]
        if role == "policy":
            parts += texts or [Segment("", "policy")]
        else:
            parts.append(Segment(joined(x.text for x in texts), role))
    return parts


def pieces(value: Any, role: str = "policy") -> Iterator[Segment]:
    """The texts of a message or of its content: those of `role`, and results of tools."""
    if isinstance(value, list):
        for part in value:
            yield from pieces(part, role)
    elif isinstance(value, dict):
        yield from _of_part(value, role)
    elif value is not None:
        yield Segment(value if isinstance(value, str) else json.dumps(value, default=str), role)


def _of_part(value: dict[str, Any], role: str) -> Iterator[Segment]:
    for name in (x for x in M.parts if value.get(x) is not None):
        inner = value[name] if isinstance(value[name], dict) else {"content": value[name]}
        value = {"type": M.parts[name]} | inner
    kind = str(value.get("type")).replace("-", "_")
    if kind.endswith(CALLS):
        yield Segment(call_text(value), role)
        for name in M.answered:
            yield from pieces(value.get(name), "tool")
        return
    is_result = kind.endswith(RESULTS)
    role = "tool" if is_result else role
    names = M.reasoning if value.get("redacted") is not True else ()
    names = (*names, "summary") if kind.startswith("reasoning") else names
    thoughts, texts = ([*pieces(_first(value, some), role)] for some in (names, M.contents))
    begins = [x.text.removeprefix("<think>").lstrip() for x in texts]  # may be the thoughts
    texts = [x for x in thoughts if not any(y.startswith(x.text.strip()) for y in begins)] + texts
    data = DATA.findall(json.dumps(value, default=str)) if MEDIA.search(kind) and not texts else []
    if data:
        digest = hashlib.blake2s("".join(data).encode(), digest_size=4)
        texts = [Segment(f"[{kind} {digest.hexdigest()}]", role)]
    is_other = KNOWN.isdisjoint(value) and not {"role", "from"} & value.keys()
    if is_other or (is_result and not texts):
        content = {name: x for name, x in value.items() if name != "type" and x is not None}
        texts = [Segment(json.dumps(content, ensure_ascii=False, default=str), role)]
    yield from texts
    known = {"", *(text.text for text in texts)}  # a call may also be a part of the content
    for name in M.calls_in:
        calls = [x for x in map(call_text, _calls_in(value.get(name))) if x not in known]
        known.update(calls)
        yield from (Segment(call, role) for call in calls)


def _first(value: dict[str, Any], names: Iterable[str]) -> Any:
    """What the first of these fields holds that holds anything."""
    # Gemini has `thought: true` beside the text.
    return next((value[x] for x in names if value.get(x) and value[x] is not True), None)


def _calls_in(value: Any) -> Iterator[Any]:
    """The calls in a field that a message has beside its content."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(value)
    if isinstance(value, dict) and any(x in value for x in M.calls_in):  # LangChain's
        for inner in map(value.get, M.calls_in):
            yield from _calls_in(inner)
    else:
        yield from filter(None, value if isinstance(value, list) else [value])


def call_text(call: Any) -> str:
    """A call of a tool as text, without its id: `python({"code": "print(2)"})`.

    A call may be an object, or the JSON text of one.
    """
    if isinstance(call, str) and call.lstrip()[:1] == "{":
        with contextlib.suppress(ValueError, RecursionError):
            call = json.loads(call)
    if not isinstance(call, dict):
        return str(call)
    function = call.get("function")
    inner: dict[str, Any] = function if isinstance(function, dict) else call
    arguments = next((inner[x] for x in M.arguments if inner.get(x) is not None), "")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, default=str)
    named = (*map(inner.get, ("name", "function_name", "toolName")), function, call.get("type"))
    return f"{next((x for x in named if x and isinstance(x, str)), 'call')}({arguments})"


def joined(texts: Iterable[Any]) -> str:
    """Those that are text and not empty, one a line."""
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def plain_text(value: Any) -> Any:
    """The texts of a conversation's messages; any other value, or text with none, as it is."""
    messages = messages_of(value)
    said = None if messages is None else joined(part.text for part in segments(messages))
    return value if said is None or (isinstance(value, str) and not said) else said


# --- prompt and response


def dialogue(parts: list[Segment], begin: int = 0) -> Dialogue | None:
    """Prompt and response; None where no part is the policy's.

    The prompt ends where the policy first writes after `begin` parts, or else at all.
    """
    by_policy = [i for i, part in enumerate(parts) if part.role == "policy"]
    if not by_policy:
        return None
    first = next((i for i in by_policy if i >= begin), by_policy[0])
    response: list[Segment] = []
    for part in parts[first:]:
        text = "\n" + part.text if response and part.text else part.text
        if text and response and response[-1].role == part.role:
            response[-1] = Segment(response[-1].text + text, part.role)
        elif text:
            response.append(Segment(text, part.role))
    return Dialogue(joined(part.text for part in parts[:first]) or None, response)


def response_of(value: Any, prompt: Any, where: str) -> Dialogue | None:
    """The rollout in a response that is a conversation; None for any other response.

    `prompt` is what stands beside it in its row, text or messages.
    """
    messages = messages_of(value)
    if messages is None:
        return None
    begin = None if author(messages[0]) else _n_asking(messages, prompt)
    talk = dialogue(segments(messages), len(segments(messages[:begin])) if begin else 0)
    if talk is None and isinstance(value, str):
        return None  # what the policy was asked to write
    roles = dict.fromkeys(message["role"] for message in messages)
    has_content = any(KNOWN & message.keys() for message in messages)
    if talk is None or None in map(author, messages) or not (talk.segments or has_content):
        raise InputError(
            f"{where}: response is messages of {quoted(roles)} with {quoted(messages[-1])}; "
            f"expected content of {quoted(M.policy)}, which are the policy's, and of "
            f"{quoted([*M.asking, *M.context])}"
        )
    # What a user says after a policy's turn is an answer to it, or the next example.
    has_turns = talk.segments[-1:] and talk.segments[-1].role == "policy" and len(talk.segments) > 1
    if has_turns and talk.prompt is not None and begin is None:
        others = {x["role"].lower() for x in messages if not author(x)}
        results = (x for message in messages for x in pieces(message) if x.role != "policy")
        return talk._replace(has_only_user_turns=others <= {*M.asking} and not any(results))
    return talk


def _n_asking(messages: list[dict[str, Any]], prompt: Any) -> int | None:
    """How many messages it takes to ask for what `prompt`, beside them, asks; None if unknown.

    The first message of a user that holds it is the last of these.
    """
    before = messages_of(prompt) or []
    parts = segments(before)
    if parts and parts == segments(messages[: len(before)]):
        return len(before)
    asked = parts[-1].text if parts else prompt
    for n, message in enumerate(messages, start=1):
        said = pieces(message) if message["role"].lower() in M.asking[:3] else ()
        text = joined(part.text for part in said if part.role == "policy")  # and no tool's result
        if asked and isinstance(asked, str) and asked in text:
            return n
    return None
