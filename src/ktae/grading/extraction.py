r"""Where in a response the answer is.

The rules, first to last; within each, the last place in the response counts:

1. `boxed`: the last complete, non-empty `\boxed{...}` or `\fbox{...}`, braces matched.
2. `tag`: `<answer>...</answer>`.
3. `hashes`: `#### ...` as the last line, as in GSM8K.
4. `json`: the value of `"answer": ...` in a JSON object.
5. `stated`: what follows a label `Answer:` that begins a line, or else `answer is` within the last
   300 characters (further up it is a step of the reasoning); on the same line, or on the next one
   with text. From a whole sentence the last formula is taken, or else the last number.
6. `last`, only where it is asked for: the last number of the response. Any long response contains
   one, so with this rule a response that was cut off in the middle counts as an answer.

Every rule takes time linear in the length of the response.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import Literal, NamedTuple

Fallback = Literal["none", "stated", "last"]
"""How far to go beyond `boxed`: not at all, to rules 2 to 5, or to all."""

_BRACES = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
_BARE_BOX = re.compile(r"\\boxed\s+([^\s{}$\\]+)")
_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_HASHES = re.compile(r"####[ \t]*(\S.*)")
_JSON = re.compile(r'"?answer"\s*:\s*(?:"((?:[^"\\]++|\\.)*+)"|(-?[\d.]+(?:[eE][-+]?\d+)?))')
_LABEL = re.compile(
    r"^[ \t>#*_-]*(?:(?:the|my)[ \t]+)?(?:final[ \t]+)?(?:answer|A)[ \t]*[*_]{0,3}:[ \t*_]*"
    r"(?:\r?\n\s*)?([^\n]{1,1000})",
    re.IGNORECASE | re.MULTILINE,
)
_CONCLUSION = re.compile(
    r"\banswer[*_]{0,3}(?:[ \t]+to[^\n.:]{1,60}?)?[ \t*_]{1,4}is\b:?[ \t*_:]*(?:\r?\n\s*)?([^\n]+)",
    re.IGNORECASE,
)
_CONCLUSION_LENGTH = 300
_DELIMITER = re.compile(r"\\.|\$\$?", re.DOTALL)
_CLOSED_BY = {r"\)": r"\(", r"\]": r"\[", "$": "$", "$$": "$"}
_BLANK = re.compile(r"\s")
_NOT_BLANK = re.compile(r"\S")
_NUMBER = re.compile(
    r"(?<![\w.])[-−+]?[$€£]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:/\d+)?(?:[ \t]?\\?%)?"
    r"|(?<![\w.])[-−+]?\.\d+"
)
_WORD = re.compile(r"[^\W\d_]{2,}")


class Extracted(NamedTuple):
    """An answer as it stands in the response, and the rule that found it."""

    text: str
    rule: str


def extract(response: str, fallback: Fallback = "stated") -> Extracted | None:
    """The response's answer, or None if there is none by these rules."""
    boxed = last_boxed(response)
    if boxed is not None:
        return Extracted(boxed, "boxed")
    if fallback == "none":
        return None
    for rule, found in (
        ("tag", _last_tag(response)),
        ("hashes", _after_hashes(response)),
        ("json", _unescaped(_last(_JSON, response))),
    ):
        text = _payload(found)
        if text:
            return Extracted(text, rule)
    text = _payload(_last(_LABEL, response))
    text = text or _payload(_last(_CONCLUSION, response[-_CONCLUSION_LENGTH:]))
    if text:
        return Extracted(text, "stated")
    if fallback == "last":
        text = _last(_NUMBER, response)
        if text:
            return Extracted(text, "last")
    return None


def last_boxed(response: str) -> str | None:
    r"""The content of the `\boxed{}` that is complete, not empty, and closes last.

    A box around boxes is one box; its content comes without the inner ones' `\boxed`. A box that
    the response's end cuts off is none.
    """
    opened: list[int] = []  # for each open brace where its content starts, -1 if it is no box
    found = None
    for match in _BRACES.finditer(response):
        token = match.group()
        if token.endswith("{") and len(token) != 2:
            opened.append(match.end() if len(token) > 1 else -1)
        elif token == "}" and opened:
            start = opened.pop()
            if start >= 0 and _NOT_BLANK.search(response, start, match.start()):
                found = (start, match.start())
    bare = None
    for match in _BARE_BOX.finditer(response):
        bare = match
    if bare is not None and (found is None or bare.start() > found[1]):
        return bare.group(1).rstrip(".,;:") or None
    return None if found is None else _without_boxes(response[found[0] : found[1]]).strip()


def _without_boxes(text: str) -> str:
    return re.sub(r"\\(?:boxed|fbox)(?=\s*\{)", "", text)


def _last(pattern: re.Pattern[str], text: str) -> str:
    groups: tuple[str | None, ...] = ()
    for match in pattern.finditer(text):
        found = match.groups() or (match.group(),)
        if any(group and group.strip(" \t*_.") for group in found):
            groups = found
    return next((group.strip() for group in groups if group), "")


def _last_tag(response: str) -> str:
    """What stands between the last two tags that belong together and have something in them."""
    start, found = -1, ""
    for match in _TAG.finditer(response):
        if not match[1]:
            start = match.end()
        elif start >= 0:
            content = response[start : match.start()].strip()
            found = content if content.strip(" \t*_.") else found
            start = -1
    return found


def _last_formula(statement: str) -> str:
    """The content of the formula that ends last.

    Each kind of delimiter is followed on its own, in one pass. What opens within a formula that has
    ended is forgotten; of two that open alike, the later one counts.
    """
    opened: dict[str, tuple[int, int]] = {}  # where each kind opened: its delimiter, its content
    found = ""
    for match in _DELIMITER.finditer(statement):
        token = match.group()
        kind = _CLOSED_BY.get(token)
        is_empty = kind == "$" and opened.get(kind, (0, 0))[1] == match.start()
        if kind in opened and not is_empty:
            begin, start = opened.pop(kind)
            opened = {other: at for other, at in opened.items() if at[0] < begin}
            content = statement[start : match.start()].strip()
            found = content if content.strip(" \t*_.") else found
        elif token in (r"\(", r"\[") or kind == "$":
            opened[kind or token] = match.span()
    return found


def _after_hashes(response: str) -> str:
    """What follows `####` in the last line that is not blank, if it begins so."""
    found = _HASHES.match(response.rstrip().rpartition("\n")[2])
    return found.group(1) if found else ""


def _unescaped(text: str) -> str:
    """The content of a JSON string; as it stands where a model wrote its backslashes bare."""
    with contextlib.suppress(ValueError):
        return str(json.loads(f'"{text}"'))
    return text


def _payload(statement: str) -> str:
    """The answer in what was stated: all of it, or the last formula or number of a sentence."""
    statement = statement.strip().strip("*_ \t").rstrip(".,;")
    if not _is_sentence(statement):
        return statement.strip("*_ \t")
    formula = _last_formula(statement)
    if formula:
        return formula
    return _last(_NUMBER, statement) or statement


def _is_sentence(statement: str) -> bool:
    """Whether there are words around the answer, or a formula's delimiters."""
    if "$" in statement or r"\(" in statement:
        return True
    first = last = None
    for last in _WORD.finditer(statement):
        first = first or last
    if first is None or last is None:
        return False
    return _BLANK.search(statement, first.end(), last.start()) is not None
