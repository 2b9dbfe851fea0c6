r"""Where in a response the answer is.

The rules, first to last; within each, the last place in the response counts:

1. `boxed`: the last complete, non-empty `\boxed{...}` or `\fbox{...}`, braces matched.
2. `tag`: `<answer>...</answer>`.
3. `hashes`: `#### ...` as the last line, as in GSM8K.
4. `json`: the value of `"answer": ...` in a JSON object.
5. `stated`: what follows a label `Answer:` that begins a line, or `answer is` within the last 300
   characters (further up it is a step of the reasoning); on the same line, or on the next one with
   text. Of display math or a code fence that begins there, all lines. The same in Spanish, French,
   German, Portuguese, Italian, Russian, Chinese, Japanese and Korean. `A:` is such a label only in
   the last line: further up it may be a choice.
6. `closing`: what the last line ends in, if that is a number, a date, a time or a formula, either
   in bold (`**42**`) or where a sentence with "is", "are" or "=" ends ("The date is 01/31/2011.").
   The full stop must be there: without it the response may have been cut off.
7. `last`, only where it is asked for: the last number of the response. Any long response contains
   one, so with this rule a response that was cut off in the middle counts as an answer.

What is taken from a whole sentence, `ktae.grading.statements` says.

Rules 2 to 7 do not look at a box that the response's end cuts off, nor beyond it. Special tokens
at the response's end, such as `<|im_end|>`, are no part of it.

Every rule takes time linear in the length of the response.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import Literal, NamedTuple

from ktae.grading.statements import NUMBER, answer_in, last_number

Fallback = Literal["none", "stated", "last"]
"""How far to go beyond `boxed`: not at all, to rules 2 to 6, or to all."""

_SPECIAL = re.compile(r"(?:<[|｜][^|｜<>\s]{1,40}[|｜]>|</?s>|<eos>|<pad>|<end_of_turn>)\Z")
_LONGEST_SPECIAL = 44
"""Characters of a match of `_SPECIAL`."""
_BRACES = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
_INNER_BOX = re.compile(r"\\(?:boxed|fbox)(?=\s*\{)")
_BARE_BOX = re.compile(r"\\boxed\s+([^\s{}$\\]+)")
_GOES_ON = re.compile(r"\n[^\S\n]*\n|\n####|</?(?:think|answer)>", re.IGNORECASE)
_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_HASHES = re.compile(r"####[ \t]*(\S.*)")
_JSON = re.compile(r'"?answer"\s*:\s*(?:"((?:[^"\\]++|\\.)*+)"|(-?[\d.]+(?:[eE][-+]?\d+)?))')
_LABEL = re.compile(
    r"(?:^[ \t>#*_-]*(?:(?:the|my)[ \t]+)?(?:final[ \t]+|最终|最終)?"
    r"(?:answer|respuesta|r[ée]ponse|antwort|resposta|risposta|ответ|答案|答え|解答|答|정답|답)"
    r"(?:[ \t]+final[ea]?)?|^(?-i:A)(?=[:：]\s*+[^\n]*+\s*+\Z))[ \t]*[*_]{0,3}[:：][ \t*_]*",
    re.IGNORECASE | re.MULTILINE,
)
_CONCLUSION = re.compile(
    r"\banswer[*_]{0,3}(?:[ \t]+to[^\n.:]{1,60}?)?[ \t*_]{1,4}is\b:?[ \t*_:]*",
    re.IGNORECASE,
)
_OTHER_CONCLUSION = re.compile(
    r"(?:\b(?:respuesta(?:[ \t]+\w+)?[ \t]+es|r[ée]ponse(?:[ \t]+\w+)?[ \t]+est"
    r"|antwort(?:[ \t]+\w+)?[ \t]+(?:ist|lautet)|resposta(?:[ \t]+\w+)?[ \t]+é"
    r"|risposta(?:[ \t]+\w+)?[ \t]+è|ответ(?:[ \t]+(?:равен|это)\b|[ \t]*[:—–-]))(?!\w)"
    r"|(?:答案|答え|正解)(?:应该|應該)?[*_]{0,3}(?:[是为為はが]|[ \t]*[:：])"
    r"|(?:정답|답)(?:은|는|이))"
    r"[ \t*_:：]*",
    re.IGNORECASE,
)
_CONCLUSION_LENGTH = 300
_OPENS_BLOCK = re.compile(r"\\\[|\$\$|```\w*[^\S\n]*\n|\\begin\{(?:align|equation|gather)\w*\*?\}")
_CLOSES_BLOCK = {r"\[": r"\]", "$$": "$$"}
_ROWS = re.compile(r"\\begin\{((?:align|equation|gather)\w*\*?)\}(.*)\\end\{\1\}", re.DOTALL)
_LONGEST_STATEMENT = 1000
_STATEMENT = re.compile(r"(?:\r?\n\s*)?([^\n]{1,1000})")
_JUDGEMENT = re.compile(
    r"(?:in)?(?:correct|right|valid|reasonable)[*_]*"
    r"(?:[ \t]*[.,!;?].*|[ \t]+(?:because|since|as)\b.*)?",
    re.IGNORECASE,
)
_NOT_BLANK = re.compile(r"\S")
_UNITS = r"(?:[ \t]?(?:°|\\?%|[€£¥]))?(?:[ \t]+[^\W\d_]+){0,3}"
_BOLD = re.compile(r"(\*\*|__)(?=\S)([^*\n]{1,200}?)[.!]?\1[ \t.!]*$")
_CLOSING = re.compile(
    rf"(?:\b(?:is|are|was|were|equals)|=)[ \t]+(?:[a-z]+[ \t]+){{0,2}}?"
    rf"({NUMBER}{_UNITS}|\$[^$\n]+\$|\\\((?:[^\\\n]|\\[^()])+\\\))[.!]$",
    re.IGNORECASE,
)
_VALUE = re.compile(
    rf"(?:[^\W\d]+[ \t]*=[ \t]*)?{NUMBER}{_UNITS}|\$[^$]+\$|\\\(.+\\\)", re.IGNORECASE
)


class Extracted(NamedTuple):
    """An answer as it stands in the response, and the rule that found it."""

    text: str
    rule: str


def extract(response: str, fallback: Fallback = "stated") -> Extracted | None:
    """The response's answer, or None if there is none by these rules."""
    response = _without_special(response)
    boxed = last_boxed(response)
    if boxed is not None:
        return Extracted(boxed, "boxed")
    if fallback == "none":
        return None
    complete = _before_a_cut_off_box(response)
    hashes = _HASHES.match(complete.rstrip().rpartition("\n")[2])  # of the last line with text
    for rule, statement in (
        ("tag", _last_tag(complete)),
        ("hashes", hashes[1] if hashes else ""),
        ("json", _last_in_json(complete)),
    ):
        text = answer_in(statement)
        if text:
            return Extracted(text, rule)
    end = max(0, len(response) - _CONCLUSION_LENGTH)
    text = _stated(complete, end)
    if text:
        return Extracted(text, "stated")
    text = _closing(complete[end:]) if complete == response else ""
    if text:
        return Extracted(text, "closing")
    if fallback == "last":
        text = last_number(complete)
        if text:
            return Extracted(text, "last")
    return None


def _without_special(response: str) -> str:
    """The response without the special tokens at its end; as it stands where there are none."""
    kept = response.rstrip()
    end = len(kept)
    while token := _SPECIAL.search(kept, max(0, end - _LONGEST_SPECIAL), end):
        end = token.start()
        while end and kept[end - 1].isspace():
            end -= 1
    return response if end == len(kept) else kept[:end]


def last_boxed(response: str) -> str | None:
    r"""The content of the `\boxed{}` that is complete, not empty, and closes last.

    A box around boxes is one box; its content comes without the inner ones' `\boxed`. A box that
    the response's end cuts off is none.
    """
    box, _ = _boxes(response)
    bare = None
    for match in _BARE_BOX.finditer(response):
        bare = match
    if bare is not None and (box is None or bare.start() > box[1]):
        return bare.group(1).rstrip(".,;:") or None
    return None if box is None else _INNER_BOX.sub("", response[box[0] : box[1]]).strip()


def _boxes(response: str) -> tuple[tuple[int, int] | None, int | None]:
    """Where the content of the last complete, non-empty box is, and the first cut-off box."""
    opened: list[re.Match[str] | None] = []  # for each open brace its box, None if it is no box
    last = None
    for match in _BRACES.finditer(response):
        token = match.group()
        # Of two characters is an escaped brace, which opens nothing.
        if token.endswith("{") and len(token) != 2:
            opened.append(match if len(token) > 1 else None)
        elif token == "}" and opened:
            box = opened.pop()
            if box and _NOT_BLANK.search(response, box.end(), match.start()):
                last = (box.end(), match.start())
    return last, next((box.start() for box in opened if box), None)


def _before_a_cut_off_box(response: str) -> str:
    r"""The response up to the first box that its end cuts off: `4` may have become `42` in it.

    One that is open though the text goes on after it was not cut off: "I write no \boxed{ yet."
    """
    _, cut = _boxes(response)
    if cut is None or _GOES_ON.search(response.rstrip(), cut):
        return response
    return response[:cut].rstrip(" \t$\\([")


def _last_in_json(response: str) -> str:
    """The last `"answer"` in JSON that holds anything."""
    last = ""
    for match in _JSON.finditer(response):
        content = match[1] or match[2] or ""
        last = content.strip() if content.strip(" \t*_.") else last
    with contextlib.suppress(ValueError):  # a model may have written its backslashes bare
        return str(json.loads(f'"{last}"'))
    return last


def _stated(response: str, end: int) -> str:
    """What follows the last label, or `answer is` beyond `end`, that anything follows."""
    heads = [
        *_LABEL.finditer(response),
        *_CONCLUSION.finditer(response, end),
        *_OTHER_CONCLUSION.finditer(response, end),
    ]
    judgement = ""  # "... so the answer is correct." may refer to "Answer: 12" above
    # From the end: what is said last counts, if anything follows it.
    for head in sorted(heads, key=re.Match.end, reverse=True):
        line = _STATEMENT.match(response, head.end())
        if line and line[1].strip(" \t*_."):
            text = _in_block(response, line.start(1))
            text = answer_in(line[1]) if text is None else text
            if text and (head.re is _LABEL or not _JUDGEMENT.fullmatch(line[1])):
                return text
            judgement = judgement or text
    return judgement


def _in_block(response: str, start: int) -> str | None:
    """What is in the display math or code fence that begins there; None if none does, or if it is
    one of several things on a line.

    Empty if the response's end cuts it off.
    """
    opened = _OPENS_BLOCK.match(response, start)
    if opened is None:
        return None
    mark = opened.group()
    closing = _CLOSES_BLOCK.get(mark) or ("```" if "`" in mark else mark.replace("begin", "end"))
    end = response.find(closing, opened.end(), opened.end() + _LONGEST_STATEMENT)
    if end < 0:
        return ""
    # A formula within a sentence is one of several things on its line.
    rest = response[end + len(closing) :].partition("\n")[0]
    if rest.strip(" \t\r*_.,;。") and "\n" not in response[start:end]:
        return None
    # Of several aligned rows the last one is the result.
    rows = _ROWS.search(response, start, end + len(closing))
    content = rows[2].rstrip("\\ \n").rpartition(r"\\")[2] if rows else response[opened.end() : end]
    if rows:  # "&= 12" continues "x &= 3 + 9"
        content = content.replace("&", "").strip().removeprefix("=")
    return " ".join(content.split())


def _last_tag(response: str) -> str:
    """What stands between the last two tags that belong together and have something in them."""
    start, last = -1, ""
    for match in _TAG.finditer(response):
        if not match[1]:
            start = match.end()
        elif start >= 0:
            content = response[start : match.start()].strip()
            last = content if content.strip(" \t*_.") else last
            start = -1
    return last


def _closing(end: str) -> str:
    """What the last line ends in, where that is a value in bold or the end of a sentence."""
    line = end.rstrip().rpartition("\n")[2]
    bold = _BOLD.search(line)
    if bold:
        value = bold[2].strip()
        return answer_in(value) if _VALUE.fullmatch(value) else ""
    sentence = _CLOSING.search(line)
    return answer_in(sentence[1]) if sentence else ""
