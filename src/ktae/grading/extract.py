r"""Finds the answer in a response: conventions by position, of which the last one counts.

| rule | convention |
| --- | --- |
| `boxed` | `\boxed{5}`; several that are joined are one list |
| `tag` | `<answer>5</answer>`, also one that is open at the end |
| `hashes` | `#### 5` anywhere in the last line |
| `json` | `"answer": 5` |
| `label` | `Answer: 5`, a heading above it, `the answer is 5` |
| `line` | where there is none of these: the last line, if it is one value |
| `last` | only if asked for: the last number, also of a response that was cut off |

Behind a label and in the last line stands a value, or a sentence with a single one. Two different
ones, a hedge or a doubt are no answer. Every rule takes linear time.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from ktae.grading.latex import CJK, NAME, TABLES, UNITS
from ktae.grading.values import same_number, written

Fallback = Literal["none", "stated", "last"]
"""How far to go beyond boxes: not at all, to all conventions, or to the last number."""

_NOUNS, _VERBS, _DOUBTS = ("|".join(TABLES[x].values()) for x in ("labels", "verbs", "doubts"))
_WORDS = TABLES["around"]
_LETTER = rf"[^\W\d_{CJK[1:-1]}]"  # of scripts with blanks between words
_END_OF_WORD = "(?![a-zà-ÿа-я])"
_TURN_END = re.compile(TABLES["turns"]["ends"])
_TURN_BEGIN = re.compile(rf"(?:\s*+(?:(?i:assistant|model)\s*+)?(?:{_TURN_END.pattern}))*")
"""Tokens of a chat template that stand in front."""
_THOUGHT = re.compile(TABLES["turns"]["thoughts"], re.IGNORECASE)
_DOUBTED = rf"(?<!{_LETTER})(?:{_DOUBTS})(?!{_LETTER})"
_DOUBT = re.compile(rf"{_DOUBTED}|\?", re.IGNORECASE)
_NAMED_ANSWER = (
    rf"(?<!{_LETTER})(?<!['’]s )(?P<noun>{_NOUNS})(?-i:{_END_OF_WORD})[*_]{{0,3}}"
    r"(?:[ \t]+(?:to|for|of)\b[^\n.:]{1,60}?)?(?:,[ \t]*then,)?[ \t]*"
)
_STATES = rf"(?:[:：]|(?P<verb>(?:{_VERBS})(?-i:{_END_OF_WORD}):?))[*_}}]{{0,3}}[ \t]*"
_IN_TEXT = re.compile(_NAMED_ANSWER + _STATES, re.IGNORECASE)
_LABEL = re.compile(
    rf"^(?:\\text(?:bf)?\{{|\d+[.)][ \t]|[^\w\n])*+(?!(?-i:answer)[ \t]*=)(?:{_NAMED_ANSWER}"
    rf"(?:{_STATES}|(?:[=→➜]>?|[-–—][ \t]|(?<=ans)\.|(?=[*_]*[ \t]*\r?$))[*_]{{0,3}}[ \t]*)"
    r"|(?-i:A)[:：](?=[^\n]*+\s*\Z))",
    re.IGNORECASE | re.MULTILINE,
)
"""At the beginning of a line, with a colon or as a heading; `A:` in the last line alone."""
_OF_ANSWER = re.compile(rf"(?<!{_LETTER})(?:{_NOUNS})[ \t]+\w", re.IGNORECASE)
_BOX = re.compile(r"\\(?:begin|frame)?(?:boxed|box|fbox)(?=\s*\{)")
_BRACES = re.compile(rf"{_BOX.pattern}\s*\{{|\\.|[{{}}]", re.DOTALL)
_JOIN = _WORDS["between_boxes"]
_BETWEEN = re.compile(
    rf"(?=.*?(?:{_JOIN}))(?:[\s${{}}*]|\\text|\\[^a-z]|{_JOIN}|\([a-z]{{1,3}}\)|{NAME}\s*=)*",
    re.DOTALL,
)
_HEDGE_BEFORE = re.compile(rf"(?:{_WORDS['hedges']})[\s$*_=\\(\[:]*$")
_TAKEN_BACK = re.compile(
    r"[\s$*_)\]}\\]*\?|[\W_]*(?:(?:or|oder|ou|или|或)\s*[$*]*\d+(?![\d.]*\\?%)"
    rf"|(?:or )?(?:{_WORDS['conditions']})\b"
    rf"|(?:{_WORDS['on_second_thought']})\b[^.!?\n\d]{{0,60}}?(?:{_DOUBTED}|should be[ $*]*-?\d))",
    re.IGNORECASE,
)
"""Behind an answer, in its sentence or at the beginning of the next one: "But that is wrong."."""
_TAG = re.compile(r"<answer>((?:(?!</?answer>).)*)(</answer>|\Z)", re.IGNORECASE | re.DOTALL)
_JSON = re.compile(
    r"""["'](?:final_)?answer["']\s*:\s*(?:"((?:[^"\\]++|\\.)*+)"|'([^'\n]*+)'"""
    r"""|\[([^\[\]]*+)\]|(-?[\d.]+(?:[eE][-+]?\d+)?))"""
)
_ESCAPED = re.compile(r'\\(?:([\\"/])|u([0-9a-fA-F]{4}))')
_FORMULA = re.compile(
    r"\$\$(.{1,1000}?)\$\$|\\\[(.{1,1000}?)\\\]|\\\(((?:(?!\\\().){1,1000}?)\\\)"
    # In "$5 + $3 = $8" they are dollars.
    r"|(?<!\\)\$(?!\d[^$]*(?:\s\$|\$\d))([^$]{1,1000}?)(?<!(?<!\\)\\)\$",
    re.DOTALL,
)
_BEHIND = re.compile(
    rf"\s{{0,99}}(?P<block>{_FORMULA.pattern}|```\w*\s+(.{{1,1000}}?)```)[ \t*_.,;。]*(?=\r?\n|\Z)"
    r"|[ \t]*(?:\r?\n\s{0,99}(?:[-•*][ \t]+)?)?(?P<line>[^\n]{1,1000})",
    re.DOTALL,
)
"""Behind a label: a block, the rest of its line, or the next line with text, maybe an item."""
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.])[-−+]?(?:(?:US|HK|[AC])?\\?[$€£¥￥₤₹]|[A-Z]{2,3}[ \t]?(?=\d))?[-−]?"
    r"(?:\d+ \d+/\d+|\d+(?:[,:/.^-]?\d+)*|\.\d+)"
    rf"(?:[ \t]?\\?%|[ \t]?(?:{UNITS['sure']})(?![\w/^²³])|(?!(?:st|nd|rd|th)\b)[a-zA-Z°²³]+)?"
    rf"(?:(?i:[ \t]*(?:{UNITS['scale']})))?".replace(r"^\s*", "").replace(r"^\W*", r"\b")
)
"""A number, ratio, date or time, with its currency and a unit: behind a blank a sure one."""
_VALUE = re.compile(rf"{_FORMULA.pattern}|({_NUMBER.pattern})", re.DOTALL)
_CHOICE = re.compile(r"\(?\b(?:[B-HJ]|A(?! (?!or\b|and\b)[a-z]))\b\)?")
_CHOICE_FIRST = re.compile(r"(?:\([A-Ja-j]\)|[A-J][).:])(?:[ \t]+(?=\S)|$)")
_NOT_BEFORE = re.compile(rf"\b(?:{_WORDS['not_before']})[ \t*_$(]*$", re.IGNORECASE)
_NOT_BEHIND = re.compile(_WORDS["not_behind"])
_OPERATES = re.compile(r"[^,;.=]{0,40}?[-−+*/×÷·x][^,;.=]{0,40}?")
_EQUALS = re.compile(r"[^,;.=]{0,40}?(?:=|\bis\b|\bequals\b)[^,;.=]{0,3}")
_SENTENCE_END = re.compile(r"(?:(?<=[.?。])|(?<=[.?]\$)|(?<=[.?]\\[\])]))[ \t]+(?=[A-Z$\\])")
_NEXT = re.compile(rf"{_SENTENCE_END.pattern}|\n|\Z")
_REASON = re.compile(r"(?<=.)(?:,?[ \t]+\(?(?:because|since)|,[ \t]+as)\b.*", re.DOTALL)
_FIRST = re.compile(rf"^(?:(?:{_WORDS['fillers']})[ \t,:]+|=[ \t]*)+", re.IGNORECASE)
_SAYS_NOTHING = re.compile(_WORDS["says_nothing"], re.IGNORECASE)
_LATEX = re.compile(r"\\(?:text|mathrm|textbf|mbox|begin|end)\s*\{[^{}]*\}|\\[a-zA-Z]+")
_SENTENCE = re.compile(
    r"(?s:.)\$|\\\(|\A[^\W\d_]+ [^\W\d_]+\b|[^\W\d_]{2}[^\W\d_]*+[\W\d_](?s:.*?)[^\W\d_]{2}"
)
"""Two words, or a formula's delimiters."""
_NAMED = re.compile(r"^(?:[^\d:.,;({\"`]{1,40}:|[A-Za-z ]{1,40}[ \t]=|∴)[ \t*_]*(?=\S)")
_AROUND = '.,;。，； ✓✔*_`"“”项項\t\r\n'
_BOLD = re.compile(r"(\*\*|__|`+)(?=\S)([^*`\n]+?)\1|<<[^<>\n]*>>")


class Extracted(NamedTuple):
    """An answer as it stands in the response, and the rule that found it."""

    text: str
    rule: str


class _Statement(NamedTuple):
    """What a convention says the answer is, and where; the last one counts."""

    place: int
    rule: str
    text: str
    is_phrase: bool = False  # `the answer is ...` may say something about it
    is_doubted: bool = False


def extract(response: str, fallback: Fallback = "stated") -> Extracted | None:
    """The response's answer, or None if there is none by these rules."""
    text = _TURN_END.split(_TURN_BEGIN.sub("", response, count=1), maxsplit=1)[0]
    final, thought = text, ""
    *_, mark = (None, *_THOUGHT.finditer(text))
    if mark and (mark[1] or mark[2]):
        final, thought = text[mark.end() :], text[: mark.start()]
    elif mark:  # an answer ends a thought as well
        answer = re.match("(?is).*(<answer>.*)", text[mark.end() :])
        final = answer[1] if answer else ""
    is_doubted = _DOUBT.search(final.rstrip().rpartition("\n")[2])
    return _extracted(final, fallback) or (None if is_doubted else _extracted(thought, "none"))


def _extracted(text: str, fallback: Fallback) -> Extracted | None:
    statements = [*_boxes(text)] if fallback == "none" else [*_boxes(text), *_conventions(text)]
    for _, rule, statement, is_phrase, is_doubted in sorted(statements, reverse=True):
        answer = statement if rule == "boxed" else _answer_in(statement, rule, is_phrase)
        if answer is not None:
            return Extracted(answer, rule) if answer and not is_doubted else None
    if fallback != "none" and (line := _last_line(text)):
        return Extracted(line, "line")
    numbers = _NUMBER.findall(text) if fallback == "last" else []
    return Extracted(numbers[-1], "last") if numbers else None


def _boxes(text: str) -> Iterator[_Statement]:
    """The last complete box, or boxes of one list; refused where a hedge stands beside it."""
    boxes: list[tuple[int, int, str]] = []
    opened: list[re.Match[str] | None] = []  # for each open brace its box, None if it is no box
    for match in _BRACES.finditer(text):
        token, box = match[0], None
        if token.endswith("{") and len(token) != 2:  # of two characters is an escaped brace
            opened.append(match if len(token) > 1 else None)
        elif token == "}" and opened:
            box = opened.pop()
        if box and (content := text[box.end() : match.start()]).strip():
            while boxes and boxes[-1][0] > box.start():
                boxes.pop()  # it is within this one
            boxes.append((box.start(), match.end(), content))
    if not boxes:
        return
    chain = [boxes.pop()]
    start, end, _ = chain[0]
    hedge = _HEDGE_BEFORE.search(text, max(0, start - 99), start) or _TAKEN_BACK.match(text, end)
    while boxes and _BETWEEN.fullmatch(text, max(boxes[-1][1], start - 60), start):
        chain.insert(0, boxes.pop())
        start = chain[0][0]
    contents = [_BOX.sub("", content).strip() for *_, content in chain]
    answer = ", ".join([contents[0]] if len({*contents}) == 1 else contents)
    if label := _LABEL.match(answer):  # "Answer: 18" within it
        answer = answer[label.end() :].strip("} ")
    yield _Statement(end, "boxed", answer, is_doubted=bool(hedge))


def _conventions(text: str) -> Iterator[_Statement]:
    """What all conventions but boxes say, in any order."""
    for tag in _TAG.finditer(text):
        # A box in it counts at its own place.
        place = tag.start() if _BOX.search(tag[1]) or not tag[2] else tag.end()
        yield _Statement(place, "tag", tag[1], False, bool(_TAKEN_BACK.match(text, tag.end())))
    for value in _JSON.finditer(text):
        content = next(filter(None, value.groups()), "")  # often with bare backslashes: \frac
        content = _ESCAPED.sub(lambda match: match[1] or chr(int(match[2], 16)), content)
        yield _Statement(value.end(), "json", content)
    line_start = text.rstrip().rfind("\n") + 1
    if (hashes := text.rfind("####", line_start)) >= 0:
        yield _Statement(hashes, "hashes", text[hashes:].lstrip("#"))
    for label in (*_LABEL.finditer(text), *_IN_TEXT.finditer(text, max(0, len(text) - 300))):
        is_phrase = label["verb"] is not None
        clause = re.split(r"[.,:;!?\n]", text[max(0, label.start() - 80) : label.start()])[-1]
        is_doubted = is_phrase and bool(_DOUBT.search(clause))
        statement = ""
        if behind := _BEHIND.match(text, label.end()):
            sentence = behind["line"] and _NEXT.search(text, behind.start("line"))
            block = next(filter(None, behind.groups()[1:6]), "")
            statement = behind["line"] or f"${' '.join(block.split())}$"
            is_doubted = is_doubted or bool(_TAKEN_BACK.match(text, (sentence or behind).end()))
        yield _Statement(label.start(), "label", statement, is_phrase, is_doubted)


def _answer_in(statement: str, rule: str = "label", is_phrase: bool = False) -> str | None:
    """A bare value, or the only one of a sentence; None if it says nothing, empty if in doubt."""
    text = _FIRST.sub("", _BOLD.sub(r"\2", statement[:1000]).strip(_AROUND), count=1)
    if not re.search(r"\w|\\[a-zA-Z{]", text):
        return None
    if _BOX.search(text):
        return ""  # it counts at its own place, or the end cut it off
    choice = _CHOICE_FIRST.match(text)
    mark = choice[0] if choice else ""
    # What follows a label may go on with something else; what is marked ends in its answer.
    text = _SENTENCE_END.split(text[len(mark) :])[0 if rule == "label" else -1]
    text = _REASON.sub("", text).rstrip(_AROUND)
    value = _only_value(text)
    if is_phrase and not value and _SAYS_NOTHING.match(text):
        return None
    if re.search(r"\bor\b", text) and value:
        return value  # "2.5 or 5/2"
    if not _SENTENCE.search(_LATEX.sub(" ", text)):
        return "" if re.search(r"\d", text) and _DOUBT.search(text) else mark + text
    if value is None:
        yes_or_no = re.match(r"(?i:yes|no|true|false)(?=,)", text)
        return yes_or_no[0] if yes_or_no else None if is_phrase and len(text.split()) > 3 else text
    return value and mark + value


def _only_value(text: str) -> str | None:
    """The only number, formula or choice of a sentence; None if it has none, empty if in doubt."""
    matches = [*_VALUE.finditer(text)]
    values = [m for m in matches if re.search(r"[\d\\=<>+*/,-]", m[m.lastindex or 0])]
    values = values or matches or [*_CHOICE.finditer(text)]
    if not values:
        return None
    texts = [match[match.lastindex or 0].strip() for match in values]
    gaps = [text[a.end() : b.start()] for a, b in itertools.pairwise(values)]
    is_chain = gaps and _EQUALS.fullmatch(gaps[-1]) and all(map(_OPERATES.fullmatch, gaps[:-1]))
    first, *others = (written(value.lstrip("$")) for value in texts)
    is_same = len({*texts}) == 1 or all(first and n and same_number(first, n) for n in others)
    is_alone = is_chain or (is_same and not any(" and " in gap for gap in gaps))
    last = values[-1]
    is_left_open = _NOT_BEFORE.search(text, 0, last.start()) or _NOT_BEHIND.match(text, last.end())
    return texts[-1] if is_alone and not is_left_open and not _DOUBT.search(text) else ""


def _last_line(text: str) -> str:
    """The last line's value: all of it, or the only one of a sentence that has come to its end."""
    text = text.rstrip()
    if text.count(r"\[") > text.count(r"\]") or text.count("$$") % 2:
        return ""  # the end cut a formula off
    opening, closing = (r"\[", r"\]") if text.endswith(r"\]") else ("$$", "$$")
    if text.endswith(closing):
        before, _, formula = text.removesuffix(closing).rpartition(opening)
        lead = _SENTENCE_END.split(before.rstrip().rpartition("\n")[2])[-1]
        if _DOUBT.search(lead) or _NOT_BEFORE.search(lead):
            return ""
        text = f"${' '.join(formula.split())}$"
    *above, line = ["", *(line for line in text.split("\n") if re.search(r"\w", line))]
    line = _SENTENCE_END.split(line.strip())[-1]
    if _BOX.search(line) or _DOUBT.search(line) or _OF_ANSWER.search(line):
        return ""
    bare = _BOLD.sub(r"\2", _NAMED.sub("", line, count=1)[:1000]).strip(_AROUND)
    bare = _FIRST.sub("", bare, count=1)
    if _SENTENCE.search(_LATEX.sub(" ", bare)):
        return (_only_value(bare) or "") if re.search(r"[.!。*$)\]`\"]\W*$", line) else ""
    word = r"[^\W\d_]{3,20}|[Nn]o" if not any(above) else "(?!)"  # alone it may be all of it
    is_value = re.search(r"\d|\\[a-zA-Z]", bare) or re.fullmatch(rf"{_CHOICE.pattern}|{word}", bare)
    is_open = bare[-1:] in (*":=?+-*/(", "") or '"' in bare or len(bare) > 200
    return bare if is_value and not is_open else ""
