r"""What a response states: the place in it where its answer is.

Looked at is what follows the last `</think>`, up to the first end token or new turn. A thought that
is still open states nothing. There, first to last; within each rule the last place counts:

1. `boxed`: the last box, or list of boxes. A label `Answer:` that begins a line below comes first.
2. `tag`: `<answer>...</answer>`.
3. `hashes`: `#### ...` as the last line, as in GSM8K.
4. `json`: the value of `"answer": ...` in a JSON object.
5. `stated`: what follows a label `Answer:` or a heading, or `answer is` near the end (further up it
   is a step of the reasoning), on the same line or the next one with text.
6. `sum`: the last line computes with numbers, "Total: 80 + 67 = 147".
7. `bare`: all of it, where it is one value and nothing else.
8. `closing`: what the last line ends in: "C is correct", a value in bold (`**42**`), display math,
   or the end of a sentence with its full stop: without it the response may have been cut off.
9. `last`, only where it is asked for: the last number, also of a response that was cut off.

A sentence that denies or doubts a value states none. Words beside a box deny it, and then no box
counts. The next sentence may take a value back. Rules 2 to 9 do not look at a box that the
response's end cuts off, nor beyond it. Every rule takes time linear in the length.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from ktae.grading.latex import AND, LANGUAGES, NAME, OR, TEXT
from ktae.grading.statements import (
    NUMBER,
    answer_in,
    closing_value,
    is_denied,
    is_sentence,
    is_stated,
    lone_value,
)

Fallback = Literal["none", "stated", "last"]
"""How far to go beyond `boxed`: not at all, to rules 2 to 8, or to all."""

_END = re.compile(
    rf"<[|｜](?:{LANGUAGES['turns']})[|｜]>|</?s>|<eos>|<pad>|<(?:end|start)_of_turn>|\[/?INST\]"
    r"|\n(?:Human|User|#{2,4} ?(?:Instruction|Question|Problem|Input))[ \t]*:"
)
"""What ends a turn, or begins the next one."""
_THOUGHT = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>|[◁](/?)think[▷]", re.IGNORECASE)
_BRACES = re.compile(
    r"\\(?:boxed|fbox)\s*\{|\\boxed\s+(?P<bare>[^\s{}$\\]*[^\s{}$\\.,;:])|\\.|[{}]", re.DOTALL
)
_NOT_BLANK = re.compile(r"\S")
_INNER_BOX = re.compile(r"\\(?:boxed|fbox)(?=\s*\{)")
_MARKS = r"[\s$]|\\[()\[\],;!\s]|\\text\s*\{|\}"
_JOIN = (
    r"[,;，；、&]|\\q?quad"
    rf"|(?<![^\W_])(?:{'|'.join(word for word in (*AND, *OR) if len(word) < 4)})(?![^\W_])"
)
_BETWEEN = re.compile(
    rf"(?:{_MARKS})*(?:{_JOIN})(?:{_MARKS}|{_JOIN})*(?:[*]*\([a-z]{{1,3}}\)[*]*[\s:$]*)?"
    rf"(?P<name>{NAME}\s*=\s*[$]?)?"
)
"""Between two boxes of one list."""
_NAME_BEFORE = re.compile(rf"(?:^|[\s$(])({NAME}\s*=\s*)\$?$")
_OR_ANOTHER = re.compile(
    r"\\boxed *\{(\d+)\}[$*]*,?\s*(?:or|oder|ou|или|或)\s*[$*]*(?!\1\b)\d+[$*]*[.!]?\s*$",
    re.MULTILINE,
)
_LONGEST_BETWEEN = 60
_GOES_ON = re.compile(r"\n[^\S\n]*\n|\n####|</?(?:think|answer)>", re.IGNORECASE)
_TAG = re.compile(r"<answer>((?:(?!</?answer>).)*)</answer>", re.IGNORECASE | re.DOTALL)
_JSON = re.compile(r'"?answer"\s*:\s*(?:"((?:[^"\\]++|\\.)*+)"|(-?[\d.]+(?:[eE][-+]?\d+)?))')
_NAMED = (
    rf"(?:(?:{LANGUAGES['final']})[ \t]*){{0,3}}(?:{LANGUAGES['labels']})"
    rf"(?:[ \t]+(?:{LANGUAGES['final_after']}))?"
)
_LABEL = re.compile(
    # At the beginning of a line, with a colon; or as a heading of its own.
    r"(?:^(?:\\(?:text(?:bf)?|mathbf)\{|[^\w\n])*+"
    r"(?:(?:final[ \t]+answer|(?-i:A(?:nswer|NSWER)))(?=[ \t]*[=→–-])"
    rf"|{_NAMED}(?=[ \t*_]*[:：]|(?<=ans)\.[ \t]))"
    r"|^(?-i:A)(?=[:：]\s*+[^\n]*+\s*+\Z))[ \t]*[*_]{0,3}"
    r"(?:[:：]|(?<=ans)\.|(?<=answer)[ \t]*(?:=|→|[-–](?=[ \t])))[ \t*_}]*"
    r"|^(?:[ \t]*#+[ \t]*+[*_]*|[^\w\n]*(?:[*_]{2}|(?=final)))(?:\d+\.[ \t]*)?"
    rf"{_NAMED}[ \t]*[*_]*[ \t]*(?=\r?\n)",
    re.IGNORECASE | re.MULTILINE,
)
_CONCLUSION = re.compile(
    r"\b(?:answer|(?:correct|right)[ \t]+(?:option|choice|statement))[*_]{0,3}"
    r"(?:[ \t]+to[^\n.:]{1,60}?)?[ \t*_]{1,4}"
    r"(?:is\b|(?:must|should|would)[ \t]+be(?=[ \t*_:]+(?:[-$\\\d(]|(?-i:[A-J])))"
    r"(?!.*\bif\b)):?[ \t*_:]*"
    rf"|(?:{'|'.join(LANGUAGES['conclusions'])})[ \t*_:：]*",
    re.IGNORECASE,
)
_CONCLUSION_LENGTH = 300
_OPENS_BLOCK = re.compile(r"\\\[|\$\$|```\w*[^\S\n]*\n|\\begin\{(?:align|equation|gather)\w*\*?\}")
_BLOCK = re.compile(
    r"(?:\\\[(.{0,1000}?)\\\]|\$\$(.{0,1000}?)\$\$|```\w*[^\S\n]*\n(.{0,1000}?)```"
    r"|(\\begin\{(align|equation|gather)(\w*\*?)\}.{0,1000}?\\end\{\5\6\}))"
    r"(?P<rest>[^\n]*)",
    re.DOTALL,
)
_ROWS = re.compile(r"\\begin\{((?:align|equation|gather)\w*\*?)\}(.*)\\end\{\1\}", re.DOTALL)
_STATEMENT = re.compile(r"(?:(?P<below>\r?\n)\s*)?([^\n]{1,1000})")
_BULLET = re.compile(r"(?:[-•*]|\d\.)[ \t]+(?=\S)")
_JUDGEMENT = re.compile(
    r"(?:in)?(?:correct|right|valid|reasonable)[*_]*"
    r"(?:[ \t]*[.,!;?].*|[ \t]+(?:because|since|as)\b.*)?",
    re.IGNORECASE,
)
_CORRECT_CHOICE = re.compile(
    r"(?:^|[.,;:]|\b(?:so|thus|hence|therefore|option|choice|answer),?)[ \t]*[*_(]*(?-i:([A-J]))"
    r"[*_).]*[ \t]+is[ \t]+(?:correct|the[ \t]+(?:correct|right)[ \t]+(?:answer|option|choice|one))"
    r"[*_.!]*$",
    re.IGNORECASE,
)
_BOLD = re.compile(r"(\*\*|__)(?=\S)([^*\n]{1,200}?)[.!]?\1[ \t.!]*$")
_SUM = re.compile(
    rf"^[A-Za-z][A-Za-z ]{{0,60}}[:,][ \t]*([$\d.(][-−+*/×÷$\d., ()]*=[ \t]*{NUMBER})\.?$"
)
_BARE = re.compile(
    r"(?:[-−+±√∞π]?[\d.\\$(\[{|√π]|\\?[A-Za-z]\w{0,2} *[=<>:,(^_+*/-]|[A-Z]\w{2,20} *=)"
    r"[^\n]{0,200}|\(?[A-Z]\)?\.?|[^\W\d_]{3,20}"
)
_NUMBER = re.compile(NUMBER, re.IGNORECASE)


class Extracted(NamedTuple):
    """An answer as it stands in the response, and the rule that found it."""

    text: str
    rule: str


def extract(response: str, fallback: Fallback = "stated") -> Extracted | None:
    """The response's answer, or None if there is none by these rules."""
    said, thought = _final_part(response)
    # Of a thought that has ended a box counts, where nothing is stated after it.
    return _extracted(said, fallback) or _extracted(thought, "none")


def _extracted(response: str, fallback: Fallback) -> Extracted | None:
    boxed, end_of_box, cut = _boxed(response)
    if boxed is not None:
        boxed = _stated(TEXT.sub(r" \1 ", boxed).strip(), 0) or boxed  # "Answer: 18" within it
        below = response[max(end_of_box, len(response) - _CONCLUSION_LENGTH) :]
        below = _stated(below, None) if fallback != "none" else ""
        return Extracted(below, "stated") if below else Extracted(boxed, "boxed")
    if fallback == "none":
        return None
    # Up to the first box that the response's end cuts off: `4` may have become `42` in it. One that
    # is open though the text goes on after it was not cut off: "I write no \boxed{ yet."
    complete = response
    if cut is not None and not _GOES_ON.search(response.rstrip(), cut):
        complete = response[:cut].rstrip(" \t$\\([")
    end = max(0, len(response) - _CONCLUSION_LENGTH)
    last_line = complete.rstrip().rpartition("\n")[2].strip()
    rules: dict[str, Callable[[], str]] = {
        "tag": lambda: _within(_last(_TAG, complete)),
        "hashes": lambda: _within(last_line[4:]) if last_line.startswith("####") else "",
        "json": lambda: _within(_unescaped(_last(_JSON, complete))),
        "stated": lambda: _stated(complete, end),
        "sum": lambda: _last(_SUM, last_line),
        "bare": lambda: _bare(complete.strip("*_` \t\r\n∴")),
        "closing": lambda: _closing(complete[end:]) if complete == response else "",
        "last": lambda: ["", *_NUMBER.findall(complete)][-1] if fallback == "last" else "",
    }
    return next((Extracted(text, rule) for rule, find in rules.items() if (text := find())), None)


def _final_part(response: str) -> tuple[str, str]:
    """What is said after all thoughts up to the turn's end; and the thought that has ended."""
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


def _boxed(response: str) -> tuple[str | None, int, int | None]:
    r"""The last box or list of boxes, where it ends, and where the first cut-off box begins.

    A box around boxes is one box; its content comes without the inner ones' `\boxed`.
    """
    boxes, cut = _boxes(response)
    if boxes:
        last = boxes[-1]
        if is_denied(response, last.start, last.end) or _OR_ANOTHER.match(response, last.start):
            return None, 0, cut
    texts, name = [], ""
    for i in reversed(range(len(boxes))):
        box, last_end = boxes[i], boxes[i - 1].end if i else -_LONGEST_BETWEEN
        between = None
        if 0 <= box.start - last_end <= _LONGEST_BETWEEN:
            between = _BETWEEN.fullmatch(response, last_end, box.start)
        # The first of the list has a name where the others have one.
        before = between or (name and _NAME_BEFORE.search(response, box.start - 20, box.start))
        name = (before and before[1]) or ""
        texts.append(name.strip(" $") + _INNER_BOX.sub("", response[box.content]).strip())
        if between is None:
            break
    text = texts[0] if len({*texts}) == 1 else ", ".join(reversed(texts))
    return text or None, boxes[-1].end if boxes else 0, cut


class _Box(NamedTuple):
    start: int
    end: int
    content: slice


def _boxes(response: str) -> tuple[list[_Box], int | None]:
    """The complete, non-empty boxes in no other one, and where the first cut-off box begins."""
    opened: list[re.Match[str] | None] = []  # for each open brace its box, None if it is no box
    boxes: list[_Box] = []
    for match in _BRACES.finditer(response):
        token, box, begin, end = match[0], None, 0, 0
        if match["bare"]:
            box, begin, end = match, match.start("bare"), match.end()
        elif token.endswith("{") and len(token) != 2:  # of two characters is an escaped brace
            opened.append(match if len(token) > 1 else None)
        elif token == "}" and opened and (box := opened.pop()):
            begin, end = box.end(), match.start()
        if box and _NOT_BLANK.search(response, begin, end):
            while boxes and boxes[-1].start > box.start():
                boxes.pop()  # it is within this one
            boxes.append(_Box(box.start(), match.end(), slice(begin, end)))
    return boxes, next((box.start() for box in opened if box), None)


def _last(pattern: re.Pattern[str], text: str) -> str:
    """What the last match that says anything has in its group."""
    contents = (match[match.lastindex or 0].strip() for match in pattern.finditer(text))
    return ["", *(content for content in contents if content.strip(" \t*_."))][-1]


def _unescaped(text: str) -> str:
    with contextlib.suppress(ValueError):  # a model may have written its backslashes bare
        return str(json.loads(f'"{text}"'))
    return text


def _within(text: str) -> str:
    """The answer in what is marked as one, which may have a label of its own."""
    return _stated(text, 0) or answer_in(text)


def _bare(text: str) -> str:
    if not _BARE.fullmatch(text) or text[-1] in ":=?":
        return ""
    is_formula = text[0] == "$" == text[-1] and text.count("$") == 2
    return answer_in(text) if is_formula or not is_sentence(text) else ""


def _stated(response: str, end: int | None) -> str:
    """What follows the last label, or `answer is` beyond `end`, that anything follows."""
    heads = [*_LABEL.finditer(response)]
    heads += _CONCLUSION.finditer(response, end) if end is not None else []
    judgement = ""  # "... so the answer is correct." may refer to "Answer: 12" above
    # From the end: what is said last counts, if anything follows it.
    for head in sorted(heads, key=re.Match.end, reverse=True):
        line = _STATEMENT.match(response, head.end())
        if not line or not line[2].strip(" \t*_."):
            continue
        if not is_stated(response, head.end(), line.end()):
            continue
        text = _in_block(response, line.start(2))
        if text is None:
            text = answer_in(_BULLET.sub("", line[2], count=1) if line["below"] else line[2])
        if text and (head.re is _LABEL or not _JUDGEMENT.fullmatch(line[2])):
            return text
        judgement = judgement or text
    return judgement


def _in_block(response: str, start: int) -> str | None:
    """What is in the block that begins there; None if it is none, empty if it is cut off."""
    block = _BLOCK.match(response, start)
    if block is None:
        return "" if _OPENS_BLOCK.match(response, start) else None
    content = next(filter(None, block.groups()[:4]), "")
    if block["rest"].strip(" \t\r*_.,;。") and "\n" not in block[0]:
        return None  # a formula within a sentence
    if rows := _ROWS.search(content):
        # Of several aligned rows the last one is the result; "&= 12" continues "x &= 3 + 9".
        last = rows[2].rstrip("\\ \n").rpartition(r"\\")[2]
        content = last.replace("&", "").strip().removeprefix("=")
    return " ".join(content.split())


def _closing(end: str) -> str:
    """What the last line ends in: a value in bold, display math, or the end of a sentence."""
    lines = [line for line in end.rstrip().split("\n") if re.search(r"\w|\$\$|\\[\[\]]", line)]
    text = "\n".join(lines).rstrip(" .")
    for opening, closing in ((r"\[", r"\]"), ("$$", "$$")):
        if text.endswith(closing) and (start := text.rfind(opening, 0, -len(closing))) >= 0:
            return (is_stated(text, start, len(text)) and _in_block(text, start)) or ""
    line = re.sub(r"[^\w.!$)}*\]]+$", "", lines[-1].rstrip() if lines else "")
    line = re.sub(r"([.!])(\$|\\\))$", r"\2\1", line)  # a stop within the formula
    choice = _CORRECT_CHOICE.search(line)
    if choice and is_stated(line, *choice.span(1)):
        return choice[1]
    if bold := _BOLD.search(line):
        before = line[: bold.start()].rstrip()
        is_said = before[-1:] in ":," or lone_value(f"{before} {bold[2]}")
        line = f"{'is' if is_said else before} {bold[2]}."
    return closing_value(line)
