"""Whose a message is, and where tools have its parts: the roles and fields that they use."""

from __future__ import annotations

import functools
import re
from typing import Any

POLICY = ("assistant", "gpt", "ai", "model", "bot", "agent", "chatbot", "reasoning")
"""Names of the policy's role; so are all that end in `_call`."""
USERS = ("user", "human", "prompter")
PROMPT_ROLES = (*USERS, "system", "developer")
"""Names of roles that write prompts."""
CONTEXT_ROLES = (
    *(*PROMPT_ROLES, "tool", "function", "observation"),
    *("environment", "env", "ipython", "executor", "context"),
)
"""Names of other roles; so are all that end as a tool's result (`RESULTS`)."""
CALLS = ("_call", "tool_use")
RESULTS = ("_output", "_result", "_response")
"""Ends of the types of items, and of parts of messages."""
REASONING = (
    *("reasoning_content", "reasoning", "thinking", "thought", "reasoning_details"),
    *("reasoningText", "tool_plan"),
)
CONTENTS = ("content", "value", "parts", "text", "refusal", "output", "logs", "results")
"""Where a message, or a part of one, has its text."""
OF_PARTS = {
    **dict.fromkeys(("functionCall", "executableCode", "executable_code", "toolUse"), "tool_call"),
    **dict.fromkeys(("functionResponse", "function_response", "toolResult"), "tool_result"),
    **dict.fromkeys(("codeExecutionResult", "code_execution_result"), "tool_result"),
    "reasoningContent": "reasoning",
}
"""Parts of Gemini's and of Bedrock's messages, and the types that they are of."""
CALLS_IN = ("tool_calls", "invalid_tool_calls", "function_call", "additional_kwargs")
"""Where a message has its calls."""
TOOL_RESULT_FIELDS = ("observation", "result", "outputs", "results", "output")
"""What a tool, or the environment, answered to a call or a turn."""
ANSWERS = ("body", "choices", "output")
"""Where an answer of OpenAI's, or a line of its batches, has its messages."""
SAID_BY = {"message": "content", "system": "content", "think": "thought", "finish": "final_thought"}
"""OpenHands' actions that are no calls, and the argument that is their text."""
KNOWN = frozenset((*CONTENTS, *REASONING, *OF_PARTS, *CALLS_IN, "type"))
"""Fields that say what a message is about."""
OF_MESSAGES = {*KNOWN, "role", "from", "name", "id", "call_id", "tool_call_id", "weight"}
DATA = re.compile(r'"data:[^"]+"|"(?:data|bytes)": "[^"\\]*(?:\\.[^"\\]*)*"')
"""A picture, sound or file within a part of a message, in its JSON."""
MEDIA = re.compile("image|audio|video|file")
"""Types of parts that hold such."""


JSON_BEGINS = "[{ \n\t"
"""A text that is a conversation begins with one of these."""
POLICY_ROLE, TOOL_ROLE, USER_ROLE, SYSTEM_ROLE = "policy", "tool", "user", "system"
"""Roles of segments."""


def author(message: dict[str, Any]) -> bool | None:
    """Whether the policy wrote a message; None where its role is not known.

    What ART does not train on, OpenAI gives no weight, or SWE-agent shows as an example, another
    wrote in its place.
    """
    is_example = message.get("is_demo") is True
    if is_example or message.get("trainable") is False or message.get("weight") == 0:
        return False
    return is_policy_role(message["role"])


@functools.lru_cache
def is_policy_role(role: str) -> bool | None:
    """Whether a role is the policy's; None for one that is not known."""
    role = role.lower()
    role = role.removesuffix("chunk").removesuffix("message") or role  # LangChain's classes
    if role in POLICY or role.endswith(CALLS):
        return True
    return False if role in CONTEXT_ROLES or role.endswith(RESULTS) else None


def role_of(message: dict[str, Any]) -> str | None:
    """The role of a message's segments; None for one that is not known."""
    is_policy = author(message)
    if is_policy is None:
        return None
    name = str(message.get("role")).lower()
    asking = SYSTEM_ROLE if name.startswith(("system", "developer")) else USER_ROLE
    is_prompt = is_policy_role(name) or name.startswith(PROMPT_ROLES)
    return POLICY_ROLE if is_policy else asking if is_prompt else TOOL_ROLE
