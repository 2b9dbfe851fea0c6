r"""What a response states: the place in it where its answer is.

Looked at is what follows the last `</think>`, up to the first end token or new turn. A thought that
is still open states nothing. There, first to last; within each rule the last place counts:

1. `boxed`: the last complete, non-empty `\boxed{...}` or `\fbox{...}`. Boxes joined by nothing but
   a comma, "and" or "or" are one list. A label `Answer:` that begins a line below comes first.
2. `tag`: `<answer>...</answer>`.
3. `hashes`: `#### ...` as the last line, as in GSM8K.
4. `json`: the value of `"answer": ...` in a JSON object.
5. `stated`: what follows a label `Answer:` that begins a line, a heading "Final Answer", or
   `answer is` within the last 300 characters (further up it is a step of the reasoning); on the
   same line, or on the next one with text. Of display math or a code fence that begins there, all
   lines. The same in the languages of `tables.toml`. `A:` is such a label only in the last line.
6. `bare`: all of it, where it is one value and nothing else.
7. `closing`: what the last line ends in: a value in bold (`**42**`), display math, or the end of a
   sentence ("The date is 01/31/2011."). The full stop must be there: without it the response may
   have been cut off.
8. `last`, only where it is asked for: the last number of the response. Any long response contains
   one, so with this rule a response that was cut off in the middle counts as an answer.

What is taken from a whole sentence, `ktae.grading.statements` says. Rules 2 to 8 do not look at a
box that the response's end cuts off, nor beyond it. Every rule takes time linear in the length.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import deque
from typing import Literal, NamedTuple

from ktae.grading.latex import TEXT
from ktae.grading.statements import NUMBER, answer_in, is_doubted, is_sentence, last_number
from ktae.grading.tables import AND, LANGUAGES, OR, UNITS

Fallback = Literal["none", "stated", "last"]
"""How far to go beyond `boxed`: not at all, to rules 2 to 7, or to all."""

_END = re.compile(
    r"<[|｜](?:im_end|im_start|endoftext|end▁of▁sentence|begin▁of▁sentence|eot_id|eom_id|end|return"
    r"|start_header_id|User|user|Assistant|pad|endofprompt)[|｜]>|</?s>|<eos>|<pad>|<end_of_turn>"
    r"|<start_of_turn>|\[/?INST\]"
    r"|\n(?:Human|User|#{2,4} ?(?:Instruction|Question|Problem|Input))[ \t]*:"
)
"""What ends a turn, or begins the next one."""
_THOUGHT = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>|[◁](/?)think[▷]", re.IGNORECASE)
_BRACES = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
_INNER_BOX = re.compile(r"\\(?:boxed|fbox)(?=\s*\{)")
_BARE_BOX = re.compile(r"\\boxed\s+([^\s{}$\\]+)")
_WORDS_BETWEEN = "|".join(word for word in (*AND, *OR) if len(word) < 4)
_BETWEEN = re.compile(
    rf"(?:[\s$]|\\[()\[\],;!\s]|\\text\s*\{{|\}})*(?:[,;，；、&]|\\q?quad|(?<![^\W_])(?:{_WORDS_BETWEEN})(?![^\W_]))"
    rf"(?:[\s$,;，；、&]|\\[()\[\],;!\s]|\\q?quad|(?<![^\W_])(?:{_WORDS_BETWEEN})(?![^\W_])|\\text\s*\{{|\}})*"
    r"(?:[*]*\([a-z]{1,3}\)[*]*[\s:$]*)?(?P<name>\\?[A-Za-z]\w{0,9}(?:_\{?\w{1,5}\}?)?\s*=\s*[$]?)?"
)
_NAME_BEFORE = re.compile(r"(?:^|[\s$(])(\\?[A-Za-z](?:_\{?\w{1,5}\}?)?\s*=\s*)\$?$")
_LONGEST_BETWEEN = 60
_GOES_ON = re.compile(r"\n[^\S\n]*\n|\n####|</?(?:think|answer)>", re.IGNORECASE)
_TAG = re.compile(r"<(/?)answer>", re.IGNORECASE)
_HASHES = re.compile(r"####[ \t]*(\S.*)")
_JSON = re.compile(r'"?answer"\s*:\s*(?:"((?:[^"\\]++|\\.)*+)"|(-?[\d.]+(?:[eE][-+]?\d+)?))')
_NAMED = (
    rf"(?:(?:{LANGUAGES['final']})[ \t]*){{0,3}}(?:{LANGUAGES['labels']})"
    rf"(?:[ \t]+(?:{LANGUAGES['final_after']}))?"
)
_LABEL = re.compile(
    # At the beginning of a line, with a colon; or as a heading of its own.
    r"(?:^(?:\\(?:text(?:bf)?|mathbf)\{|[^\w\n])*+(?:final[ \t]+answer(?=[ \t]*[=→-])"
    rf"|{_NAMED}(?=[ \t*_]*[:：]|(?<=ans)\.[ \t]))"
    r"|^(?-i:A)(?=[:：]\s*+[^\n]*+\s*+\Z))[ \t]*[*_]{0,3}"
    r"(?:[:：]|(?<=ans)\.|(?<=answer)[ \t]*(?:=|→|[-–](?=[ \t])))[ \t*_}]*"
    r"|^(?:[ \t]*#+[ \t]*+[*_]*|[^\w\n]*(?:[*_]{2}|(?=final)))(?:\d+\.[ \t]*)?"
    rf"{_NAMED}[ \t]*[*_]*[ \t]*(?=\r?\n)",
    re.IGNORECASE | re.MULTILINE,
)
_CONCLUSION = re.compile(
    r"\b(?:answer|(?:correct|right)[ \t]+(?:option|choice|statement))[*_]{0,3}"
    r"(?:[ \t]+to[^\n.:]{1,60}?)?[ \t*_]{1,4}is\b:?[ \t*_:]*",
    re.IGNORECASE,
)
_OTHER_CONCLUSION = re.compile(
    rf"(?:{'|'.join(LANGUAGES['conclusions'])})[ \t*_:：]*", re.IGNORECASE
)
_CONCLUSION_LENGTH = 300
_OPENS_BLOCK = re.compile(r"\\\[|\$\$|```\w*[^\S\n]*\n|\\begin\{(?:align|equation|gather)\w*\*?\}")
_CLOSES_BLOCK = {r"\[": r"\]", "$$": "$$"}
_ROWS = re.compile(r"\\begin\{((?:align|equation|gather)\w*\*?)\}(.*)\\end\{\1\}", re.DOTALL)
_LONGEST_STATEMENT = 1000
_STATEMENT = re.compile(r"(?:(?P<below>\r?\n)\s*)?([^\n]{1,1000})")
_BULLET = re.compile(r"(?:[-•*]|\d\.)[ \t]+(?=\S)")
_JUDGEMENT = re.compile(
    r"(?:in)?(?:correct|right|valid|reasonable)[*_]*"
    r"(?:[ \t]*[.,!;?].*|[ \t]+(?:because|since|as)\b.*)?",
    re.IGNORECASE,
)
_NOT_BLANK = re.compile(r"\S")
_WORD = rf"(?:[ \t]+(?!{UNITS['no_unit']})[^\W\d_]+(?:/[a-z]+|['’]s?)?)"
_UNITS = rf"(?:[ \t]?(?:°|\\?%|[€£¥]))?{_WORD}{{0,9}}"
_FORMULA = r"\$[^$\n]+\$|\\\((?:[^\\\n]|\\[^()])+\\\)"
_BOLD = re.compile(r"(\*\*|__)(?=\S)([^*\n]{1,200}?)[.!]?\1[ \t.!]*$")
_PART = rf"(?:{NUMBER}|{_FORMULA}){_UNITS}"
_CLOSING = re.compile(
    rf"(?:\b(?:{LANGUAGES['verbs']})|=)[ \t]+"
    rf"(?:(?:{LANGUAGES['objects']}|{LANGUAGES['adverbs']})[ \t]+){{0,2}}"
    rf"({_PART}(?:(?:,|,?[ \t]+(?:and|or))[ \t]+{_PART})*)(?:,{_WORD}{{1,3}})?[.!]$",
    re.IGNORECASE,
)
_VALUE = re.compile(
    rf"(?:[^\W\d]+[ \t]*=[ \t]*)?{NUMBER}{_UNITS}|\$[^$]+\$|\\\(.+\\\)", re.IGNORECASE
)
_BARE = re.compile(
    r"(?:[-−+±√∞π]?[\d.\\$(\[{|√π]|\\?[A-Za-z]\w{0,2}\s*[=<>:,(^_+*/-])[^\n]{0,200}|\(?[A-Z]\)?\.?|[^\W\d_]{3,20}"
)
_LONGEST_BARE = 200


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
    boxed, end_of_box = _boxed(response)
    if boxed is not None:
        inside = TEXT.sub(r"\1", boxed)
        if _LABEL.match(inside) or _CONCLUSION.search(inside):  # "Answer: 18" within the box
            boxed = _stated(inside, 0) or boxed
        below = response[max(end_of_box, len(response) - _CONCLUSION_LENGTH) :]
        below = _stated(below, None) if fallback != "none" else ""
        return Extracted(below, "stated") if below else Extracted(boxed, "boxed")
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
    line = complete.strip()
    if len(line) <= _LONGEST_BARE and _BARE.fullmatch(line) and line[-1] not in ":=?":
        is_formula = line[0] == "$" == line[-1] and line.count("$") == 2
        if is_formula or not is_sentence(line):
            return Extracted(answer_in(line), "bare")
    text = _closing(complete[end:]) if complete == response else ""
    if text:
        return Extracted(text, "closing")
    if fallback == "last":
        text = last_number(complete)
        if text:
            return Extracted(text, "last")
    return None


def _final_part(response: str) -> tuple[str, str]:
    """What is said to the reader, up to the end of the turn, and the thought that has ended.

    Nothing is said where a thought is still open.
    """
    begin = 0  # a chat template's tokens may stand in front
    for token in _END.finditer(response):
        text = response[begin : token.start()]
        if text.strip().lower() not in ("", "assistant", "model"):
            response = text
            break
        begin = token.end()
    else:
        response = response[begin:]
    last = _last(_THOUGHT, response)
    if last is None:
        return response, ""
    if last[1] or last[2]:
        return response[last.end() :], response[: last.start()]
    opened = response.lower().rfind("<answer>")  # an answer ends a thought as well
    return (response[opened:] if opened > last.start() else ""), ""


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(iter(deque(pattern.finditer(text), maxlen=1)), None)


def _boxed(response: str, *, joined: bool = True) -> tuple[str | None, int]:
    """What is in the last box, or in the boxes that are one list with it; and where it ends."""
    boxes, _ = _boxes(response)
    last = boxes[-1] if boxes else None
    bare = _last(_BARE_BOX, response)
    if bare is not None and (last is None or bare.start() > last.end):
        return bare[1].rstrip(".,;:") or None, bare.end()
    if last is None:
        return None, 0
    contents, names, first = [last], [""], last
    for box in reversed(boxes[:-1] if joined else []):
        if not 0 <= first.start - box.outer_end <= _LONGEST_BETWEEN:
            break
        between = _BETWEEN.fullmatch(response, box.outer_end, first.start)
        if between is None:
            break
        names[-1] = between["name"] or ""
        contents.append(box)
        names.append("")
        first = box
    if len(contents) > 1 and any(names):
        name = _NAME_BEFORE.search(response, max(0, first.start - 20), first.start)
        names[-1] = name[1] if name else ""
    texts = [
        name.strip(" $") + _INNER_BOX.sub("", response[box.begin : box.end]).strip()
        for name, box in zip(reversed(names), reversed(contents), strict=True)
    ]
    if len(texts) == 1 or len({*texts}) == 1:
        return texts[-1], last.outer_end
    return ", ".join(texts), last.outer_end


def last_boxed(response: str) -> str | None:
    r"""The content of the `\boxed{}` that is complete, not empty, and closes last.

    A box around boxes is one box; its content comes without the inner ones' `\boxed`. A box that
    the response's end cuts off is none.
    """
    return _boxed(response, joined=False)[0]


class _Box(NamedTuple):
    start: int
    """Of `\\boxed`; `begin` and `end` are of the content."""
    begin: int
    end: int
    outer_end: int


def _boxes(response: str) -> tuple[list[_Box], int | None]:
    """The complete, non-empty boxes in no other one, and where the first cut-off box begins."""
    opened: list[re.Match[str] | None] = []  # for each open brace its box, None if it is no box
    boxes: list[_Box] = []
    for match in _BRACES.finditer(response):
        token = match.group()
        # Of two characters is an escaped brace, which opens nothing.
        if token.endswith("{") and len(token) != 2:
            opened.append(match if len(token) > 1 else None)
        elif token == "}" and opened:
            box = opened.pop()
            if box and _NOT_BLANK.search(response, box.end(), match.start()):
                while boxes and boxes[-1].start > box.start():
                    boxes.pop()  # it is within this one
                boxes.append(_Box(box.start(), box.end(), match.start(), match.end()))
    return boxes, next((box.start() for box in opened if box), None)


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


def _stated(response: str, end: int | None) -> str:
    """What follows the last label, or `answer is` beyond `end`, that anything follows."""
    heads = [*_LABEL.finditer(response)]
    if end is not None:
        heads += [*_CONCLUSION.finditer(response, end), *_OTHER_CONCLUSION.finditer(response, end)]
    judgement = ""  # "... so the answer is correct." may refer to "Answer: 12" above
    # From the end: what is said last counts, if anything follows it.
    for head in sorted(heads, key=re.Match.end, reverse=True):
        line = _STATEMENT.match(response, head.end())
        if line and line[2].strip(" \t*_."):
            text = _in_block(response, line.start(2))
            statement = _BULLET.sub("", line[2], count=1) if line["below"] else line[2]
            text = answer_in(statement) if text is None else text
            before = response[max(0, head.start() - _CONCLUSION_LENGTH) : head.end()].rstrip(" :*_")
            if head.re is not _LABEL and is_doubted(before):
                continue
            if text and (head.re is _LABEL or not _JUDGEMENT.fullmatch(line[2])):
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
    """What the last line ends in: a value in bold, display math, or the end of a sentence."""
    lines = [line for line in end.rstrip().split("\n") if re.search(r"\w|\$\$|\\[\[\]]", line)]
    line = lines[-1].rstrip() if lines else ""
    text = "\n".join(lines).rstrip(" .")
    for opening, closing in _CLOSES_BLOCK.items():
        if text.endswith(closing) and (start := text.rfind(opening, 0, -len(closing))) >= 0:
            return _in_block(text, start) or ""
    line = re.sub(r"[^\w.!$)}*\]]+$", "", line)
    if bold := _BOLD.search(line):
        value = bold[2].strip()
        return answer_in(value) if _VALUE.fullmatch(value) else ""
    sentence = _CLOSING.search(line)
    if sentence is None or is_doubted(line[: sentence.start(1)]):
        return ""
    return answer_in(sentence[1])
