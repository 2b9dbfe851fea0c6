"""The answer within a statement: all of it, or the formula or number that a sentence ends in.

From a sentence the last formula is taken, or else the last number. Where it says of some of them
"is ...", "equals ...", "= ..." or begins with one, the last of those is taken, and of those only
what comes before "because", "after", "if" and the like: 45 in "45 miles after 4 hours", 8 in
"12 - 4, which is 8 because ...". What ", not", "(not" or ", rather than" begins after it is left
out, and so is "approximately" before it. A word with a reason is taken alone: "A because ...".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ktae.grading.tables import LANGUAGES
from ktae.grading.units import CJK

_DELIMITER = re.compile(r"\\.|\$\$?", re.DOTALL)
_CLOSED_BY = {r"\)": r"\(", r"\]": r"\[", "$": "$", "$$": "$"}
_BLANK = re.compile(r"\s")
_WORD = re.compile(r"[^\W\d_]{2,}")
_CJK = re.compile(CJK)
_DATE_OR_TIME = (
    r"\d{1,4}/\d{1,2}/\d{1,4}|\d{4}-\d{1,2}-\d{1,2}|\d{1,2}\.\d{1,2}\.\d{4}"
    r"|\d+(?::\d+)+(?:[ \t]?[ap]\.?m\b)?"
)
NUMBER = (
    rf"(?<![^\W{CJK[1:-1]}])(?<!\.)(?:{_DATE_OR_TIME}"
    r"|[-−+]?\d+ \d+/\d+(?!\d)"
    r"|[-−+]?[$€£¥]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:/\d+)?(?:[ \t]?\\?%)?"
    r"|[-−+]?\.\d+)"
)
_NUMBER = re.compile(NUMBER, re.IGNORECASE)
_ADVERB = rf"(?:{LANGUAGES['adverbs']})"
_SAYS_SO = re.compile(
    r"(?:^|[=≈:：是为為は]|\b(?:is|are|was|were|equals?|gives?|makes?|total of|es|est|ist|beträgt"
    r"|é|è|равно|равен|равна))[ \t*_$]*"
    rf"(?:{_ADVERB}[ \t*_]+)?$",
    re.IGNORECASE,
)
_BEGINS_WITH_ADVERB = re.compile(rf"^{_ADVERB}[ \t*_]+", re.IGNORECASE)
_GOES_ON = re.compile(
    r"(?:[ \t_]|\*\*)*+(?:[-−+*/×·÷^=<>≈]|\\(?![%)\]])|,[ \t]*[$\d]|\d"
    r"|(?:minus|plus|times|divided|multiplied|of|out of|to|and|or|percent of|x)\b"
    r"|(?:is|are|was|equals?|in|lies|must|can|has|becomes?|simplifies|satisf\w+)\b"
    r"|(?:more|less|fewer|greater)\b[^.]*\bthan\b)",
    re.IGNORECASE,
)
_REASON = re.compile(r"\b(?:because|since|when|if|after|given|where|as)\b", re.IGNORECASE)
_CONTRAST = re.compile(r",[ \t]*(?:and[ \t]+)?(?:not|rather than|instead of)\b.*", re.IGNORECASE)
_ASIDE = re.compile(
    r"(?<!\band)(?<!\bor)(?<=[\w.$})\]])[ \t]+\((?:(?:not|rather than|instead of)\b.*"
    r"|(?:since|because|rounded|approximately|approx)\b[^()]*\)?\s*$)",
    re.IGNORECASE,
)
"""Of "5 (not 4)"; "p and (not q)" has none."""
_WORD_AND_REASON = re.compile(r"([^\s,]+),?[ \t]+(?:because|since)\b.*", re.IGNORECASE | re.DOTALL)
_CHOICE = re.compile(r"\([A-J]\)[ \t]+(?=\S)|[A-J][).][ \t]+(?=\S)")
_LONE_NAME = re.compile(
    r"\\?[A-Za-z]{1,7}(?:_\{?\w+\}?)?(?:\([a-z]\))?|[A-Z]{1,4}|\\(?:angle|triangle) ?[A-Z]+"
)
_JOINED = re.compile(r"[ \t*_]*(?:,|,?[ \t]*\b(?:and|or)\b|、)[ \t*_]*(?:\b(?:and|or)\b[ \t]*)?")
_OR = re.compile(r"[ \t*_]*,?[ \t]*\bor\b[ \t*_]*")
_DOUBT = re.compile(
    rf"\b(?:{LANGUAGES['doubts']})\b|\b(?:{LANGUAGES['denials']})"
    r"(?:[ \t*_]+(?:be|have|has|is|equals?|to|exactly|necessarily|always)){0,4}"
    r"[ \t*_$]*$",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[.!?;:][ \t]|\n|\b(?:so|thus|hence|therefore|but)\b", re.IGNORECASE)
_OPERATION = re.compile(r"\b(?:of|times|plus|minus|by)[ \t*_$]*$", re.IGNORECASE)
_NO_VALUE = re.compile(
    rf"\b(?:{LANGUAGES['doubts']}|{LANGUAGES['denials']}|{LANGUAGES['bounds']})\b", re.IGNORECASE
)
_LONGEST = 2000
"""Characters at the end of a statement that are taken apart."""
_BEFORE = 30
"""Characters before a number in which the verb is looked for."""


class _Part(NamedTuple):
    start: int
    end: int
    text: str


def answer_in(statement: str) -> str:
    """The answer in what was stated: all of it, or the formula or number of a sentence."""
    statement = statement[-_LONGEST:].strip().strip('*_` \t"“”').rstrip('.,;。，； ✓✔*_`"”')
    statement = _ASIDE.sub("", _BEGINS_WITH_ADVERB.sub("", statement)).rstrip()
    reason = _WORD_AND_REASON.fullmatch(statement)
    statement = reason[1] if reason else statement
    mark = ""
    if choice := _CHOICE.match(statement):  # both count: "(C) 12" of "(C) $12$ because ..."
        mark, statement = choice.group(), statement[choice.end() :]
    said = _CONTRAST.sub("", statement)
    if is_sentence(said):
        formulas = _formulas(said)
        parts = [_Part(*m.span(), m.group()) for m in _NUMBER.finditer(said)]
        parts = [
            p for p in parts if not any(f.start <= p.start < f.end for f in formulas)
        ] + formulas
        if parts:
            text = _most_likely(said, sorted(parts), formulas)
            return mark + (statement if text is None else text)
    return mark + (said if _NUMBER.fullmatch(said) else statement).strip("*_` \t")


def is_doubted(before: str) -> bool:
    """Whether a sentence denies or doubts the value that comes after this beginning of it."""
    return _DOUBT.search(_CLAUSE.split(before)[-1]) is not None


def last_number(text: str) -> str:
    """The last number, date or time in a text; empty if there is none."""
    return next((match.group() for match in reversed([*_NUMBER.finditer(text)])), "")


def is_sentence(statement: str) -> bool:
    """Whether there are words around the answer, or a formula's delimiters."""
    if "$" in statement or r"\(" in statement:
        return True
    first = last = None
    for last in _WORD.finditer(statement):
        first = first or last
    if first is None or last is None:
        return False
    if _CJK.match(statement):  # no blanks between words; "18個" begins with its number
        return _NUMBER.search(statement) is not None
    return _BLANK.search(statement, first.end(), last.start()) is not None


def _most_likely(statement: str, parts: Sequence[_Part], formulas: Sequence[_Part]) -> str | None:
    """What a sentence says the answer is, among the numbers and formulas that it names.

    Several that are joined are a list. None where it says that the answer lies between two.
    """
    named = [part for part in parts if not _LONE_NAME.fullmatch(part.text)] or parts
    likely = []
    for i, part in enumerate(named):
        if not _SAYS_SO.search(statement, max(0, part.start - _BEFORE), part.start):
            continue
        joined = [part]
        for other in named[i + 1 :]:
            if not _JOINED.fullmatch(statement, joined[-1].end, other.start):
                break
            joined.append(other)
        if not _GOES_ON.match(statement, joined[-1].end):
            likely.append(joined)
    if likely:
        # What comes after "because" explains the answer, and is not it.
        reason = _REASON.search(statement, likely[0][-1].end)
        before = [some for some in likely if reason is None or some[0].start < reason.start()]
        return ", ".join(part.text for part in before[-1])
    if _NO_VALUE.search(statement):
        return None
    # No verb points at any of them: the last formula is the likeliest, or else the last number.
    last = [part for part in named if part in formulas] or named
    joined = [last[-1]]
    for other in reversed(last[:-1]):
        if not _OR.fullmatch(statement, other.end, joined[0].start):
            break
        joined.insert(0, other)
    if _OPERATION.search(statement, 0, joined[0].start):  # "a third of 12"
        return None
    return ", ".join(part.text for part in joined)


def _formulas(statement: str) -> list[_Part]:
    """The formulas, by where they end; those within another one are left out.

    Each kind of delimiter is followed on its own, in one pass. What opens within a formula that has
    ended is forgotten; of two that open alike, the later one counts.
    """
    opened: dict[str, tuple[int, int]] = {}  # where each kind's delimiter and content begin
    formulas: list[_Part] = []
    for match in _DELIMITER.finditer(statement):
        token = match.group()
        kind = _CLOSED_BY.get(token)
        is_empty = kind == "$" and opened.get(kind, (0, 0))[1] == match.start()
        if kind == "$" and kind in opened and _is_money(statement, opened[kind][1], match.start()):
            opened[kind] = match.span()
        elif kind in opened and not is_empty:
            begin, start = opened.pop(kind)
            opened = {other: at for other, at in opened.items() if at[0] < begin}
            content = statement[start : match.start()].strip()
            if content.strip(" \t*_."):
                while formulas and formulas[-1].start > begin:
                    formulas.pop()
                formulas.append(_Part(begin, match.end(), content))
        elif token in (r"\(", r"\[") or kind == "$":
            opened[kind or token] = match.span()
    return formulas


def _is_money(statement: str, start: int, end: int) -> bool:
    """Whether dollar signs around this text stand before amounts: `$5 + $3`."""
    content = statement[start:end]
    return content[:1].isdigit() and (
        content[-1:].isspace() or statement[end + 1 : end + 2].isdigit()
    )
