r"""The answer within a statement: all of it, or the formula or number that a sentence ends in.

From a sentence the last formula is taken, or else the last number. Where it says of some of them
"is ...", "equals ...", "= ..." or begins with one, the last of those is taken, and of those only
what comes before "because", "after", "if" and the like: 45 in "45 miles after 4 hours", 8 in
"12 - 4, which is 8 because ...". What ", not", "(not" or ", rather than" begins after it is left
out, and so is "approximately" before it. A word with a reason is taken alone: "A because ...".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ktae.grading.latex import LANGUAGES, UNITS
from ktae.grading.values import CJK

_CJK = re.compile(CJK)
NUMBER = (
    rf"(?<![^\W{CJK[1:-1]}])(?<!\.)(?:\d{{1,4}}/\d{{1,2}}/\d{{1,4}}|\d{{4}}-\d{{1,2}}-\d{{1,2}}"
    r"|\d+(?::\d+)+(?:[ \t]?[ap]\.?m\b)?|[-−+]?\d+ \d+/\d+(?!\d)"
    r"|[-−+]?[$€£¥]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:/\d+)?(?:[ \t]?\\?%)?"
    r"|[-−+]?\.\d+)"
)
"""A number, date, time or ratio in a sentence."""
_NUMBER = re.compile(NUMBER, re.IGNORECASE)
_SCALE = re.compile(rf"[ \t]*(?:{UNITS['scale']})".replace(r"^\s*", ""), re.IGNORECASE)
_FORMULA = re.compile(
    r"\$\$(.+?)\$\$|\\\[(.+?)\\\]|\\\(((?:(?!\\\().)+?)\\\)"
    # In "$5 + $3 = $8" they are dollars.
    r"|(?<!\\)\$(?!\d[^$]*(?:\s\$|\$\d))([^$]+?)(?<!\\)\$",
    re.DOTALL,
)
_WORD = re.compile(r"[^\W\d_]{2,}")
_ADVERB = rf"(?:{LANGUAGES['adverbs']})[ \t*_]+"
_BEGINS_WITH_ADVERB = re.compile(rf"^{_ADVERB}", re.IGNORECASE)
_SAYS_SO = re.compile(
    r"(?:^|[=≈:：是为為は]|\b(?:is|are|was|were|equals?|gives?|makes?|total of|es|est|ist|beträgt"
    rf"|é|è|равно|равен|равна))[ \t*_$]*(?:{_ADVERB})?$",
    re.IGNORECASE,
)
_GOES_ON = re.compile(
    r"(?:[ \t_]|\*\*)*+(?:[-−+*/×·÷^=<>≈]|\\(?![%)\]])|,[ \t]*(?:[$\d]|or\b)|\d"
    r"|(?:minus|plus|times|divided|multiplied|of|out of|to|and|or|percent of|x)\b"
    r"|(?:if and only if|iff)\b"
    r"|(?:is|are|was|equals?|in|lies|must|can|has|becomes?|simplifies|satisf\w+)\b"
    r"|(?:more|less|fewer|greater)\b[^.]*\bthan\b)",
    re.IGNORECASE,
)
"""After a number that is not all of what is said."""
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
_JOINED = re.compile(
    r"(?:[ \t*_]*(?:,|、)|(?:[ \t]+[^\W\d_]+){0,3}[ \t*_]*,?[ \t]*\b(?:and|or)\b)[ \t*_]*"
)
_OR = re.compile(r"[ \t*_]*,?[ \t]*\bor\b[ \t*_]*")
_DOUBT = re.compile(
    rf"\b(?:{LANGUAGES['doubts']})\b|\b(?:{LANGUAGES['denials']})"
    rf"(?:[ \t*_]+(?:be|to|exactly|necessarily|always|{LANGUAGES['verbs']})){{0,4}}[ \t*_$]*$"
    rf"|\b(?:{LANGUAGES['suppositions']})\b(?:(?!,|\bthen\b).)*$",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[.!?;:][ \t]|\n|\b(?:so|thus|hence|therefore|but)\b", re.IGNORECASE)
_OPERATION = re.compile(r"\b(?:of|times|plus|minus|by)[ \t*_$]*$", re.IGNORECASE)
_NO_VALUE = re.compile(
    rf"\b(?:{LANGUAGES['doubts']}|{LANGUAGES['denials']}|{LANGUAGES['bounds']})\b"
    rf"|{LANGUAGES['bounds_between_letters']}",
    re.IGNORECASE,
)
_LONGEST = 2000
"""Characters at the end of a statement that are taken apart."""
_BEFORE = 30
"""Characters before a number in which the verb is looked for."""

_Part = tuple[int, int, str]
"""Where a number or formula begins and ends, and what it is."""


def answer_in(statement: str) -> str:
    """The answer in what was stated: all of it, or the formula or number of a sentence."""
    statement = statement[-_LONGEST:].strip().strip('*_` \t"“”').rstrip('.,;。，； ✓✔*_`"”')
    statement = _ASIDE.sub("", _BEGINS_WITH_ADVERB.sub("", statement)).rstrip()
    if reason := _WORD_AND_REASON.fullmatch(statement):
        statement = reason[1]
    mark = ""
    if choice := _CHOICE.match(statement):  # both count: "(C) 12" of "(C) $12$ because ..."
        mark, statement = choice[0], statement[choice.end() :]
    said = _CONTRAST.sub("", statement)
    if is_sentence(said):
        formulas, numbers = _parts(_FORMULA, said), _parts(_NUMBER, said)
        numbers = [n for n in numbers if not any(f[0] <= n[0] < f[1] for f in formulas)]
        if formulas or numbers:
            text = _most_likely(said, sorted(numbers + formulas), formulas)
            return mark + (statement if text is None else text)
    return mark + (said if _NUMBER.fullmatch(said) else statement).strip("*_` \t")


def _parts(pattern: re.Pattern[str], said: str) -> list[_Part]:
    """All numbers or formulas with the words that make them others: "5 million"."""
    parts = []
    for match in pattern.finditer(said):
        scale = _SCALE.match(said, match.end())
        text = match[match.lastindex or 0].strip()
        if text.strip(" \t*_."):
            end, word = (scale.end(), scale[0].rstrip()) if scale else (match.end(), "")
            parts.append((match.start(), end, text + word))
    return parts


def is_doubted(before: str) -> bool:
    """Whether a sentence denies or doubts the value that comes after this beginning of it."""
    return _DOUBT.search(_CLAUSE.split(before)[-1]) is not None


def last_number(text: str) -> str:
    """The last number, date or time in a text; empty if there is none."""
    return "".join(_NUMBER.findall(text)[-1:])


def is_sentence(statement: str) -> bool:
    """Whether there are words around the answer, or a formula's delimiters."""
    if "$" in statement or r"\(" in statement:
        return True
    if _CJK.match(statement):  # no blanks between words; "18個" begins with its number
        return _WORD.search(statement) is not None and _NUMBER.search(statement) is not None
    words = [*_WORD.finditer(statement)]
    return bool(words) and any(c.isspace() for c in statement[words[0].end() : words[-1].start()])


def _most_likely(statement: str, parts: Sequence[_Part], formulas: Sequence[_Part]) -> str | None:
    """What a sentence says the answer is, several if they are joined; None if it says of none."""
    named = [part for part in parts if not _LONE_NAME.fullmatch(part[2])] or parts
    likely = []
    for i, (start, end, text) in enumerate(named):
        if not _SAYS_SO.search(statement, max(0, start - _BEFORE), start):
            continue
        texts = [text]
        for next_start, next_end, text in named[i + 1 :]:
            if not _JOINED.fullmatch(statement, end, next_start):
                break
            texts.append(text)
            end = next_end
        if not _GOES_ON.match(statement, end):
            likely.append((start, end, ", ".join(texts)))
    if likely:
        # What comes after "because" explains the answer, and is not it.
        reason = _REASON.search(statement, likely[0][1])
        return [text for start, _, text in likely if reason is None or start < reason.start()][-1]
    if _NO_VALUE.search(statement):
        return None
    # No verb points at any of them: the last formula is the likeliest, or else the last number.
    last = [part for part in named if part in formulas] or named
    start, _, text = last[-1]
    for before, end, other in reversed(last[:-1]):
        if not _OR.fullmatch(statement, end, start):
            break
        start, text = before, f"{other}, {text}"
    return None if _OPERATION.search(statement, 0, start) else text  # "a third of 12"
