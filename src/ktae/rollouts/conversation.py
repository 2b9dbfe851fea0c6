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
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ktae.errors import InputError, quoted
from ktae.rollouts.roles import (
    ANSWERS,
    CALLS,
    CALLS_IN,
    CONTENTS,
    CONTEXT_ROLES,
    DATA,
    JSON_BEGINS,
    KNOWN,
    MEDIA,
    OF_MESSAGES,
    OF_PARTS,
    POLICY,
    POLICY_ROLE,
    PROMPT_ROLES,
    REASONING,
    RESULTS,
    SAID_BY,
    TOOL_RESULT_FIELDS,
    TOOL_ROLE,
    USERS,
    author,
    is_policy_role,
    role_of,
)


class Segment(NamedTuple):
    """A part of a conversation, and whose it is."""

    text: str
    role: str | None
    """`policy`, `tool`, `user` or `system`; None: not known."""

    @property
    def is_policy(self) -> bool:
        """Whether the policy wrote it."""
        return self.role == POLICY_ROLE


class Dialogue(NamedTuple):
    """A conversation as a rollout."""

    prompt: str | None
    """None where it begins with the policy."""
    segments: list[Segment]
    """The parts of the response, whose texts joined are its text."""
    has_only_user_turns: bool = False
    """Whether users alone, and no tools, speak between its turns: the first may be examples."""

    @property
    def response(self) -> str:
        """The text of the response."""
        return "".join(part.text for part in self.segments)

    @property
    def context(self) -> list[Segment] | None:
        """The segments, if others than the policy wrote some of them; or else None."""
        return None if all(part.is_policy for part in self.segments) else self.segments


def messages_of(value: Any) -> list[dict[str, Any]] | None:
    """The messages of a conversation, which may be text of JSON or Python; None for none."""
    is_text = isinstance(value, str)
    if is_text and value[:1] not in JSON_BEGINS:
        return None  # most texts
    value = _parsed(value) if is_text else value
    while isinstance(value, dict) and "role" not in value and not is_text:
        if not isinstance(inside := next(filter(None, map(value.get, ANSWERS)), None), dict | list):
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
    return None if are_choices or (is_text and is_answer(entries, is_alone)) else messages


def dicts_of(parts: Sequence[Segment] | None) -> list[dict[str, Any]] | None:
    """Segments as the record has them."""
    return [part._asdict() for part in parts] if parts else None


def choices_of(value: Any) -> list[dict[str, Any]] | None:
    """The several choices of an answer of OpenAI's, each a response; None for anything else."""
    while isinstance(value, dict) and "role" not in value:
        value = next(filter(None, map(value.get, ("body", "response", "choices"))), None)
    if not isinstance(value, list) or len(value) < 2:
        return None
    are_choices = all(isinstance(x, dict) and isinstance(x.get("message"), dict) for x in value)
    return value if are_choices else None


def is_answer(entries: Sequence[dict[str, Any]], is_alone: bool) -> bool:
    """Whether JSON with messages in it is what a policy had to write, such as a call or an edge.

    A conversation says more than a call, and its messages have no fields of other things.
    """
    said = {"role", "from", "content", "call_id", "message"}
    if is_alone and "role" not in entries[0]:
        return True
    unsure = entries if is_alone else [entry for entry in entries if "from" in entry]
    others = {name for entry in unsure for name, x in entry.items() if x not in (None, [])}
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
    """An agent's turn as a message; None for what is none.

    Steps of ATIF and events of OpenHands name their source; the latter's actions have arguments.
    """
    if not isinstance(value, dict):
        return None
    source, args = value.get("source"), value.get("args")
    if not isinstance(source, str) or is_policy_role(source) is None:
        did = next((x for x in map(value.get, ("action", "response")) if isinstance(x, str)), None)
        return None if did is None else turn("assistant", value, did)
    calls = value.get("tool_calls") or [value.get("tool_call")]
    if "content" in value and isinstance(value.get("observation"), str):
        return {"role": "observation", "content": value["content"]}
    if not isinstance(args, dict):
        role = "system" if "system_prompt" in value else source
        return turn(role, value, value.get("message", value.get("system_prompt")), calls)
    action = str(value.get("action"))
    texts = ("thought", SAID_BY.get(action, ""))
    told = {name: x for name, x in args.items() if x is not None and name != "thought"}
    calls = [] if action in SAID_BY else [{"name": action, "arguments": told}]
    role = "system" if action == "system" else source
    return turn(role, {}, [args.get(x) for x in texts], calls)


def turn(role: str, value: dict[str, Any], said: Any, calls: Sequence[Any] = ()) -> dict[str, Any]:
    """A turn as a message: its reasoning, what it said and called, and what it saw then."""
    saw = [{"type": "tool_result", "content": x} for x in map(value.get, TOOL_RESULT_FIELDS) if x]
    content = [said, *({**x, "type": "tool_call"} for x in calls if isinstance(x, dict)), *saw]
    return {x: value.get(x) for x in REASONING} | {"role": role, "content": content}


def segments(messages: Iterable[dict[str, Any]]) -> list[Segment]:
    """The texts of messages: what the policy wrote, and results of tools in between."""
    parts: list[Segment] = []
    for message in messages:
        role, text = role_of(message), message.get("content")
        if len(message) == 2 and isinstance(text, str):  # most are a role and a text
            parts.append(Segment(text, role))
            continue
        texts = [x for x in pieces(message) if x.text]
        if role == POLICY_ROLE:
            parts += texts or [Segment("", POLICY_ROLE)]
        else:
            parts.append(Segment(joined(x.text for x in texts), role))
    return parts


def pieces(value: Any, role: str = POLICY_ROLE) -> Iterator[Segment]:
    """The texts of a message or of its content: those of `role`, and results of tools."""
    if isinstance(value, list):
        for part in value:
            yield from pieces(part, role)
    elif isinstance(value, dict):
        yield from _of_part(value, role)
    elif value is not None:
        yield Segment(value if isinstance(value, str) else json.dumps(value, default=str), role)


def _of_part(value: dict[str, Any], role: str) -> Iterator[Segment]:
    for name in (x for x in OF_PARTS if value.get(x) is not None):
        inner = value[name] if isinstance(value[name], dict) else {"content": value[name]}
        value = {"type": OF_PARTS[name]} | inner
    kind = str(value.get("type")).replace("-", "_")
    if kind.endswith(CALLS):
        yield Segment(call_text(value), role)
        for name in TOOL_RESULT_FIELDS:
            yield from pieces(value.get(name), TOOL_ROLE)
        return
    is_result = kind.endswith(RESULTS)
    role = TOOL_ROLE if is_result else role
    names = REASONING if value.get("redacted") is not True else ()
    names = (*names, "summary") if kind.startswith("reasoning") else names
    thoughts, texts = ([*pieces(first_text(value, some), role)] for some in (names, CONTENTS))
    begins = [x.text.removeprefix("<think>").lstrip() for x in texts]  # may be the thoughts
    texts = [x for x in thoughts if not any(y.startswith(x.text.strip()) for y in begins)] + texts
    is_media = MEDIA.search(kind) is not None and not texts
    if is_media and (data := DATA.findall(json.dumps(value, default=str))):
        digest = hashlib.blake2s("".join(data).encode(), digest_size=4)
        texts = [Segment(f"[{kind} {digest.hexdigest()}]", role)]
    is_other = KNOWN.isdisjoint(value) and not {"role", "from"} & value.keys()
    if is_other or (is_result and not texts):
        content = {name: x for name, x in value.items() if name != "type" and x is not None}
        texts = [Segment(json.dumps(content, ensure_ascii=False, default=str), role)]
    yield from texts
    known = {"", *(text.text for text in texts)}  # a call may also be a part of the content
    for name in CALLS_IN:
        calls = [x for x in map(call_text, calls_in(value.get(name))) if x not in known]
        known.update(calls)
        yield from (Segment(call, role) for call in calls)


def first_text(value: dict[str, Any], names: Iterable[str]) -> Any:
    """What the first of these fields holds that holds anything."""
    # Gemini has `thought: true` beside the text.
    return next((value[x] for x in names if value.get(x) and value[x] is not True), None)


def calls_in(value: Any) -> Iterator[Any]:
    """The calls in a field that a message has beside its content."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(value)
    if isinstance(value, dict) and any(x in value for x in CALLS_IN):  # LangChain's
        for inner in map(value.get, CALLS_IN):
            yield from calls_in(inner)
    else:
        yield from filter(None, value if isinstance(value, list) else [value])


def dialogue(parts: list[Segment], begin: int = 0) -> Dialogue | None:
    """Prompt and response; None where no part is the policy's.

    The prompt ends where the policy first writes after `begin` parts, or else at all.
    """
    by_policy = [i for i, part in enumerate(parts) if part.is_policy]
    if not by_policy:
        return None
    first = next((i for i in by_policy if i >= begin), by_policy[0])
    response: list[Segment] = []
    for part in parts[first:]:
        is_new_line = bool(response) and bool(part.text)
        text = "\n" + part.text if is_new_line else part.text
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
    begin = None if author(messages[0]) else n_asking(messages, prompt)
    talk = dialogue(segments(messages), len(segments(messages[:begin])) if begin else 0)
    if talk is None and isinstance(value, str):
        return None  # what the policy was asked to write
    if talk is None or None in map(author, messages):
        raise InputError(
            f"{where}: response is messages of {quoted(dict.fromkeys(m['role'] for m in messages))}"
            f"; expected of {quoted(POLICY)}, which are the policy's, or of {quoted(CONTEXT_ROLES)}"
        )
    if not talk.segments and not any(KNOWN & message.keys() for message in messages):
        raise InputError(
            f"{where}: the messages of response have no content; they have {quoted(messages[-1])}"
        )
    # What a user says after a policy's turn is an answer to it, or the next example.
    has_turns = talk.context is not None and talk.segments[-1].is_policy
    if has_turns and talk.prompt is not None and begin is None:
        others = {x["role"].lower() for x in messages if not author(x)}
        results = (x for message in messages for x in pieces(message) if not x.is_policy)
        return talk._replace(has_only_user_turns=others <= {*PROMPT_ROLES} and not any(results))
    return talk


def n_asking(messages: list[dict[str, Any]], prompt: Any) -> int | None:
    """How many messages it takes to ask for what `prompt`, beside them, asks; None if unknown.

    The first message of a user that holds it is the last of these.
    """
    before = messages_of(prompt) or []
    parts = segments(before)
    if parts and parts == segments(messages[: len(before)]):
        return len(before)
    asked = parts[-1].text if parts else prompt
    for n, message in enumerate(messages, start=1):
        said = pieces(message) if message["role"].lower() in USERS else ()
        told = joined(part.text for part in said if part.is_policy)  # and is no tool's result
        if asked and isinstance(asked, str) and asked in told:
            return n
    return None


def plain_text(value: Any) -> Any:
    """The texts of a conversation's messages; any other value, or text with none, as it is."""
    messages = messages_of(value)
    said = None if messages is None else joined(part.text for part in segments(messages))
    return value if said is None or (isinstance(value, str) and not said) else said


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
    names = ("arguments", "args", "input", "action", "code", "queries")
    arguments = next((inner[x] for x in names if inner.get(x) is not None), "")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, default=str)
    named = (*map(inner.get, ("name", "function_name", "toolName")), function, call.get("type"))
    name = next((x for x in named if x and isinstance(x, str)), "call")
    return f"{name}({arguments})"


def joined(texts: Iterable[Any]) -> str:
    """Those that are text and not empty, one a line."""
    return "\n".join(text for text in texts if isinstance(text, str) and text)
