r"""Finds the answer in a response: conventions by position, of which the last one counts.

| rule | convention |
| --- | --- |
| `boxed` | `\boxed{5}`; several that are joined are one list |
| `tag` | `<answer>5</answer>`, also one that is open at the end |
| `hashes` | `#### 5` anywhere in the last line |
| `json` | `"answer": 5` |
| `label` | `Answer: 5`, a heading above it, `the answer is 5`, `5 is the answer` |
| `line` | where there is none of these: the last line, if it is one value |
| `last` | only if asked for: the last number, also of a response that was cut off |

Looked at is what follows the last `</think>`, up to the first end token or new turn. A thought that
is still open states nothing; of one that has ended a box counts, if nothing is stated after it.

Behind a label and in the last line stands a bare value, or a sentence with a single number or
formula. Two different ones, a hedge or a word of doubt are no answer. Sentences are not parsed.
Every rule takes time linear in the length.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from ktae.grading.latex import NAME, UNITS
from ktae.grading.values import CJK, same_number, written

Fallback = Literal["none", "stated", "last"]
"""How far to go beyond boxes: not at all, to all conventions, or to the last number."""

LANGUAGES = {  # nouns, verbs behind them, words of doubt
    "English": (
        r"(?:(?:final|correct|right|the|my|our)[ \t]+){0,3}(?:answers?|ans)"
        r"|(?:correct|right)[ \t]+(?:option|choice|statement)",
        r"is|are|was|(?:must|should|would)[ \t]+be",
        r"not|cannot|\w+n['’]t|never|neither|nor|no|none|nothing|nobody|without|maybe|perhaps"
        r"|possibly|probably|likely|(?:might|may|could)(?: possibly)? (?:be|equal)|would have|unless|if|whether|suppose|assum\w+|let"
        r"|guess|unsure|unclear|doubt|either|between(?=[ $\\(]*\d)|anything|except|wrong|incorrect|impossible"
        r"|otherwise|fail\w*|claim\w*|contradict\w*|thinks?|thought|says?|unable|remains|show|prove"
        r"|or (?:more|less|so|fewer|perhaps)|rather than|instead|so far|for example",
    ),
    "Chinese": (
        "(?:最终|正确|正確)?的?(?:答案|选项)】?|(?:故|因此|所以|应该?)?选|答(?=[:：])",
        "(?:应该)?[是为為]|(?<=选)择?(?=[ :：]*[A-J])|(?<=】)",
        "不|并非|可能|也许|或许|大概|[大小多少高低]于|超过|至少|至多|以上|以下|平方|倍",
    ),
    "Spanish": (r"respuestas?(?: final| correcta)?", "es|son", "tal vez|quizás?|más|menor|mayor"),
    "French": ("r[ée]ponses?(?: finale| correcte)?", "est|sont", "pas|peut-être|moins|plus"),
    "German": ("antwort", "ist|lautet|sind", r"nicht|kein|vielleicht|\w*mindestens|mehr|größer"),
    "Portuguese": ("respostas?(?: final| correta)?", "é|são", "não|talvez|maior|menor|mais"),
    "Italian": ("rispost[ae](?: finale| corretta)?", "è|sono", "non|forse|almeno|maggiore|più"),
    "Russian": ("(?:окончательный )?ответ", "равен|это", "не|возможно|больше|меньше"),
    "Japanese": ("(?:最終的な)?(?:答え|解答|正解)", "[はが]", "ない|ません|未満|より"),
    "Korean": ("(?:최종 )?(?:정답|답)", "[은는이]", "아니|아닙|이상|이하|미만|보다"),
    "Indonesian": ("jawaban(?:nya)?(?: akhir)?", "adalah", "bukan|tidak|mungkin|kurang|lebih"),
    "Vietnamese": ("đáp (?:án|số)(?: cuối cùng)?", "là", "không|có lẽ|lớn|nhỏ"),
}
_NOUNS, _VERBS, _DOUBTS = map("|".join, zip(*LANGUAGES.values(), strict=True))
_LETTER = rf"[^\W\d_{CJK[1:-1]}]"
"""Of a script with blanks between words."""
_DOUBT = re.compile(rf"(?<!{_LETTER})(?:{_DOUBTS})(?!{_LETTER})|\?", re.IGNORECASE)
_LABEL = re.compile(
    rf"(?<!{_LETTER})(?P<noun>{_NOUNS}|(?-i:A)(?=[:：]))(?!{_LETTER})[*_\"]{{0,3}}"
    r"(?:[ \t]+(?:to|for|of)\b[^\n.:]{1,60}?)?(?:,[ \t]*then,)?[ \t]*"
    rf"(?:(?P<colon>[:：])|(?P<sign>[=→]|[-–—](?=[ \t]))|(?P<dot>(?<=ans)\.)"
    rf"|(?P<verb>(?:{_VERBS})(?-i:(?![a-zà-ÿа-я])):?)|(?P<heading>(?=[*_]*[ \t]*\r?$)))[*_}}]{{0,3}}[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_IS_ANSWER = re.compile(
    r"(?:^|[.:;!?][ \t])(?P<value>[^\n.:;!?]{1,60}?),?[ \t*_$]+is[ \t]+(?:correct[ \t*_]*[.!]"
    r"|(?:the|our|my)[ \t]+(?:(?:final|correct|right)[ \t]+)*(?:answer|option|choice)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_NEAR_END, _LONGEST, _LONGEST_BETWEEN = 300, 1000, 60
"""Characters at the end in which a sentence may state the answer (above, it states a step); of a
statement; and between two boxes of one list."""
_END = re.compile(
    r"<[|｜](?:im_end|im_start|endoftext|end▁of▁sentence|begin▁of▁sentence|eot_id|eom_id|end|return"
    r"|start_header_id|[Uu]ser|[Aa]ssistant|pad|endofprompt)[|｜]>|</?s>|<eos>|<pad>"
    r"|<(?:end|start)_of_turn>|\[/?INST\]"
    r"|\n(?:Human|User|#{2,4} ?(?:Instruction|Question|Problem|Input))[ \t]*:"
)
_THOUGHT = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>|[◁](/?)think[▷]", re.IGNORECASE)
_BRACES = re.compile(
    r"\\(?:begin)?(?:boxed|fbox)\s*\{|\\boxed\s+(?P<bare>[^\s{}$\\]*[^\s{}$\\.,;:])|\\.|[{}]",
    re.DOTALL,
)
_BOX = re.compile(r"\\(?:begin)?(?:boxed|fbox)(?=\s*\{)")
_MARKS = r"[\s$]|\\[()\[\],;!\s]|\\text\s*\{|\}"
_JOIN = (
    r"[,;，；、&]|\\q?quad"
    r"|(?<![^\W_])(?:and|or|y|o|et|ou|und|oder|e|и|или|en|dan|和|或|或者)(?![^\W_])"
)
_BETWEEN = re.compile(
    rf"(?:{_MARKS})*(?:{_JOIN})(?:{_MARKS}|{_JOIN})*(?:\**\([a-z]{{1,3}}\)\**[\s:$]*)?"
    rf"(?:{NAME}\s*=\s*[$]?)?"
)
_HEDGE_BEFORE = re.compile(
    r"(?:\bnot|n['’]t|n['’]t be|never|nicht|than|不是|不小于)[\s$*_=\\(\[:]*$"
)
_HEDGE_BEHIND = re.compile(r"[$*\s]*,?\s*(?:or|oder|ou|или|或)\s*[$*]*\d+(?![\d.]*\\?%)")
_TAG = re.compile(r"<answer>((?:(?!</?answer>).)*)(</answer>|\Z)", re.IGNORECASE | re.DOTALL)
_JSON = re.compile(
    r'"(?:final_)?answer"\s*:\s*(?:"((?:[^"\\]++|\\.)*+)"|\[?(-?[\d.]+(?:[eE][-+]?\d+)?)\]?)'
)
_BLOCK = re.compile(
    r"\s{0,99}(?:\\\[(.{0,1000}?)\\\]|\$\$(.{0,1000}?)\$\$|```\w*[^\S\n]*\n?(.{0,1000}?)```"
    r"|(\\begin\{((?:align|equation|gather)\w*\*?)\}.{0,1000}?\\end\{\5\}))[ \t*_.,;。]*(?=\r?\n|\Z)",
    re.DOTALL,
)
_OPENS_BLOCK = re.compile(r"\s{0,99}(?:\\\[|\$\$\n|```\w*\n|\\begin\{(?:align|equation|gather))")
_ROWS = re.compile(r"\\begin\{((?:align|equation|gather)\w*\*?)\}(.*)\\end\{\1\}", re.DOTALL)
_LINE = re.compile(r"[ \t]*(?:(\r?\n)\s{0,99})?([^\n]{1,1000})")
_FORMULA = re.compile(
    r"\$\$(.+?)\$\$|\\\[(.+?)\\\]|\\\(((?:(?!\\\().)+?)\\\)"
    # In "$5 + $3 = $8" they are dollars.
    r"|(?<!\\)\$(?!\d[^$]*(?:\s\$|\$\d))([^$]+?)(?<!(?<!\\)\\)\$",
    re.DOTALL,
)
_SCALE = re.compile(rf"[ \t]*(?:{UNITS['scale']})".replace(r"^\s*", ""), re.IGNORECASE)
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.])[-−+]?(?:(?:US|HK|[AC])?\\?[$€£¥￥₤₹]|[A-Z]{2,3}[ \t]?(?=\d))?[-−]?"
    r"(?:\d+ \d+/\d+|\d+(?:[,:/.^-]?\d+)*|\.\d+)(?:[ \t]?\\?%|[ap]\.?m\b|[a-zA-Z°²³]+)?"
)
"""A number, ratio, date or time, with its currency and a unit that has no blank before it."""
_CHOICE = re.compile(r"\(?\b(?:[B-HJ]|A(?! [a-z]))\b\)?")
_CHOICE_FIRST = re.compile(r"(?:\([A-Ja-j]\)|[A-J][).:])(?:[ \t]+(?=\S)|$)")
_NOT_BEFORE = re.compile(
    r"\b(?:(?<!total )of|than|least|most|nearly|almost|hardly|under|over|below|above|up to|by|step"
    r"|line|case|part|theorem|equation|figure|twice|half|double|triple|times|plus|minus)[ \t*_$(]*$",
    re.IGNORECASE,
)
_NOT_BEHIND = re.compile(
    r"(?:st|nd|rd|th)\b|['’]|[的の의]|[ \t]*(?:[-+*/×÷^<>≈]|(?:times|of \d|per ?cent of|choose)\b)"
)
_OPERATES, _EQUALS = (
    re.compile(rf"[^,;.=]{{0,40}}?(?:{sign})[^,;.=]{{0,{behind}}}")
    for sign, behind in (("[-−+*/×÷·x]", 40), (r"=|\bis\b|\bequals\b", 3))
)
_SENTENCE_END = re.compile(r"(?:(?<=[.?])|(?<=[.?]\$)|(?<=[.?]\\[\])]))[ \t]+(?=[A-Z$\\])")
_REASON = re.compile(r"(?<=.)(?:,?[ \t]+(?:because|since)|,[ \t]+as)\b.*", re.DOTALL)
_FIRST = re.compile(
    r"(?:(?:about|around|approximately|exactly|only|just|therefore|thus|then|simply|clearly|indeed"
    r"|option|choice|equal to|given by|the interval)[ \t:]+)+",
    re.IGNORECASE,
)
_JUDGES = re.compile(r"(?:in)?(?:correct|right|wrong|valid|reasonable)\b", re.IGNORECASE)
_LATEX = re.compile(r"\\(?:text|mathrm|textbf|mbox)\s*\{[^{}]*\}|\\[a-zA-Z]+")
_WORD = re.compile(r"[^\W\d_]{2,}")
_WORDS_BEFORE = re.compile(r"(?<!\\text)(?<!\\textbf)(?<![^\W_])(?!\d+[.)] |\\?text(?:bf)?\{)\w")
_NAMED = re.compile(r"^(?:[A-Za-z ]{1,40}(?::|[ \t]=)|∴)[ \t*_]*(?=\S)")
_AROUND = '.,;。，； ✓✔*_`"“”项項\t\r\n'
_EITHER = re.compile(r"\bor\b")
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
    is_phrase: bool = False
    """Whether it follows a verb: `the answer is ...` may say something about it."""
    is_doubted: bool = False


def extract(response: str, fallback: Fallback = "stated") -> Extracted | None:
    """The response's answer, or None if there is none by these rules."""
    final, thought = _final_part(response)
    return _extracted(final, fallback) or _extracted(thought, "none")


def _final_part(response: str) -> tuple[str, str]:
    """What follows all thoughts up to the turn's end; and the thought that has ended."""
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


def _extracted(text: str, fallback: Fallback) -> Extracted | None:
    statements = [*_boxes(text)] if fallback == "none" else [*_boxes(text), *_conventions(text)]
    refused, judgement = "", None
    for _, rule, statement, is_phrase, is_doubted in sorted(statements, reverse=True):
        if refused and (rule != "boxed" or statement not in refused):
            return None
        answer = statement if rule == "boxed" else answer_in(statement, rule, is_phrase)
        if is_phrase and answer and _JUDGES.match(answer):  # may refer to what stands above
            judgement = judgement or Extracted(answer, rule)
        elif answer and not is_doubted:
            return Extracted(answer, rule)
        elif answer is not None:
            refused = statement
    if refused or fallback == "none" or judgement:
        return judgement
    if line := _last_line(text):
        return Extracted(line, "line")
    numbers = _NUMBER.findall(text) if fallback == "last" else []
    return Extracted(numbers[-1], "last") if numbers else None


def _boxes(text: str) -> Iterator[_Statement]:
    r"""The last complete box, or boxes of one list; refused where a hedge stands beside it.

    A box around boxes is one box; its content comes without the inner ones' `\boxed`.
    """
    boxes: list[tuple[int, int, str]] = []
    opened: list[re.Match[str] | None] = []  # for each open brace its box, None if it is no box
    for match in _BRACES.finditer(text):
        token, box, content = match[0], None, ""
        if match["bare"]:
            box, content = match, match["bare"]
        elif token.endswith("{") and len(token) != 2:  # of two characters is an escaped brace
            opened.append(match if len(token) > 1 else None)
        elif token == "}" and opened and (box := opened.pop()):
            content = text[box.end() : match.start()]
        if box and content.strip():
            while boxes and boxes[-1][0] > box.start():
                boxes.pop()  # it is within this one
            boxes.append((box.start(), match.end(), content))
    if not boxes:
        return
    start, end, content = boxes.pop()
    is_hedged = _HEDGE_BEFORE.search(text, max(0, start - 30), start)
    is_hedged = is_hedged or _HEDGE_BEHIND.match(text, end, end + 30)
    place, contents = end, [content]
    while boxes and _BETWEEN.fullmatch(text, max(boxes[-1][1], start - _LONGEST_BETWEEN), start):
        start, _, content = boxes.pop()
        contents.insert(0, content)
    contents = [_BOX.sub("", content).strip() for content in contents]
    answer = contents[0] if len({*contents}) == 1 else ", ".join(contents)
    if label := _LABEL.match(answer.removeprefix(r"\text{").lstrip()):  # "Answer: 18" within it
        answer = answer.removeprefix(r"\text{").lstrip()[label.end() :].strip("} ")
    yield _Statement(place, "boxed", answer, is_doubted=bool(is_hedged))


def _conventions(text: str) -> Iterator[_Statement]:
    """What all conventions but boxes say, in any order."""
    for tag in _TAG.finditer(text):
        is_whole = tag[2] and not _BOX.search(tag[1])
        yield _Statement(tag.end() if is_whole else tag.start(), "tag", tag[1])
    for value in _JSON.finditer(text):
        content = value[1] or value[2] or ""
        with contextlib.suppress(ValueError):  # a model may have written its backslashes bare
            content = str(json.loads(f'"{content}"'))
        yield _Statement(value.end(), "json", content)
    line_start = text.rstrip().rfind("\n") + 1
    if (hashes := text.rfind("####", line_start)) >= 0:
        yield _Statement(hashes, "hashes", text[hashes:].lstrip("#"))
    for label in _LABEL.finditer(text):
        head = text[max(0, label.start() - 40) : label.start()].rpartition("\n")
        is_first = (label.start() < 40 or head[1]) and not _WORDS_BEFORE.search(head[2])
        is_near_end = label.start() >= len(text) - _NEAR_END
        if label["noun"] == "A" and not (is_first and label.start() >= line_start):
            continue
        if is_first or (is_near_end and (label["verb"] is not None or label["colon"])):
            yield _behind(label)
    for match in _IS_ANSWER.finditer(text, max(0, len(text) - _NEAR_END)):
        if (value := _only_value(match["value"])) is not None:
            yield _Statement(match.end(), "label", value or "?")


def _behind(label: re.Match[str]) -> _Statement:
    """What a label says: the block, the rest of its line, or the next line with text behind it."""
    text, end = label.string, label.end()
    clause = re.split(r"[.,:;!?\n]", text[max(0, label.start() - 80) : label.start()])[-1]
    is_doubted = bool(label["verb"] is not None and _DOUBT.search(clause))
    if block := _BLOCK.match(text, end):
        content = next(filter(None, block.groups()[:4]), "")
        if rows := _ROWS.search(content):  # of several aligned ones the last is the result
            content = rows[2].rstrip("\\ \n").rpartition(r"\\")[2]
            content = content.replace("&", "").strip().removeprefix("=")
        return _Statement(label.start(), "label", f"$${content}$$", is_doubted=is_doubted)
    line = _LINE.match(text, end)
    content = line[2] if line else ""
    if line and line[1]:
        content = re.sub(r"^[-•*][ \t]+", "", content)
    is_doubted |= bool(_OPENS_BLOCK.match(text, end))  # the end cut it off
    return _Statement(label.start(), "label", content, label["verb"] is not None, is_doubted)


def answer_in(statement: str, rule: str = "label", is_phrase: bool = False) -> str | None:
    """The answer in what is marked as one: a bare value, or the only one of a sentence.

    None where it says nothing, and empty where it leaves open what it says.
    """
    text = _plain(statement)
    if not re.search(r"\w|\\[a-zA-Z{]", text):
        return None
    if _BOX.search(text):
        return ""  # it counts at its own place, or the end cut it off
    choice = _CHOICE_FIRST.match(text)
    mark = choice[0] if choice else ""
    # What follows a label may go on with something else; what is marked ends in its answer.
    text = _SENTENCE_END.split(text[len(mark) :])[0 if rule == "label" else -1]
    text = _REASON.sub("", text).rstrip(_AROUND)
    if _EITHER.search(text) and (value := _only_value(text)):
        return value  # "2.5 or 5/2"
    if not _is_sentence(text):
        return "" if re.search(r"\d", text) and _DOUBT.search(text) else mark + text
    value = _only_value(text)
    if value is None:
        return None if is_phrase and len(text.split()) > 3 else text
    return value and mark + value


def _plain(statement: str) -> str:
    text = _BOLD.sub(lambda match: match[2] or "", statement[:_LONGEST])
    return _FIRST.sub("", text.strip(_AROUND), count=1)


def _is_sentence(text: str) -> bool:
    """Whether there are words around the answer, or a formula's delimiters."""
    if "$" in text[1:] or r"\(" in text:
        return True
    words = [*_WORD.finditer(_LATEX.sub(" ", text))]
    return len(words) > 1 or bool(words and re.search(rf"^{CJK}.*\d", text))


def _only_value(text: str) -> str | None:
    """The only number, formula or choice of a sentence; None if it has none, empty if in doubt."""
    formulas = [(m.start(), m.end(), m[m.lastindex or 0].strip()) for m in _FORMULA.finditer(text)]
    values = [value for value in formulas if re.search(r"[\d\\=<>+*/,-]", value[2])]
    for match in _NUMBER.finditer(text):
        if not any(start <= match.start() < end for start, end, _ in formulas):
            scale = _SCALE.match(text, match.end())
            end = scale.end() if scale else match.end()
            values.append((match.start(), end, text[match.start() : end].strip()))
    if not values:
        values = formulas or [(*m.span(), m[0]) for m in _CHOICE.finditer(text)]
    if not values:
        return None
    values.sort()
    gaps = [text[a[1] : b[0]] for a, b in itertools.pairwise(values)]
    numbers = [written(value[2].lstrip("$")) for value in values]
    is_chain = gaps and _EQUALS.fullmatch(gaps[-1]) and all(map(_OPERATES.fullmatch, gaps[:-1]))
    is_same = all(n and numbers[0] and same_number(numbers[0], n) for n in numbers)
    is_same = (is_same or len({v[2] for v in values}) == 1) and not any(" and " in g for g in gaps)
    start, end, value = values[-1]
    is_alone = len(values) == 1 or is_chain or is_same
    is_left_open = _NOT_BEFORE.search(text, 0, start) or _NOT_BEHIND.match(text, end)
    return value if is_alone and not is_left_open and not _DOUBT.search(text) else ""


def _last_line(text: str) -> str:
    """The last line's value, where the line is a bare one or a sentence that has come to its end."""
    text = text.rstrip()
    for opening, closing in ((r"\[", r"\]"), ("$$", "$$")):
        start = text.rfind(opening, 0, -len(closing))
        if text.endswith(closing) and start >= 0:
            text = f"${' '.join(text[start + len(opening) : -len(closing)].split())}$"
        elif text.count(opening) > text.count(closing) or (
            opening == closing and text.count(opening) % 2
        ):
            return ""  # the end cut a formula off
    lines = [line for line in text.split("\n") if re.search(r"\w", line)]
    line = _SENTENCE_END.split(lines[-1].strip())[-1] if lines else ""
    if _BOX.search(line) or _DOUBT.search(line):
        return ""
    line = _NAMED.sub("", line)
    bare = _plain(line)
    if not _is_sentence(bare):
        is_value = re.search(r"\d|\\[a-zA-Z]", bare) or _CHOICE.fullmatch(bare) or len(lines) == 1
        return bare if is_value and bare[-1:] not in ":=?+-*/(" and len(bare) < 200 else ""
    return (_only_value(bare) or "") if re.search(r"[.!。*$)\]`\"]\W*$", line) else ""
