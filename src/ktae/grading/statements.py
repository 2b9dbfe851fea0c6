r"""The answer within a statement: all of it, or the formula or number that a sentence ends in.

A sentence states the formulas and numbers at which a verb points, "is ...", "equals ...", "= ...",
or with which it begins. The last of those is taken, and of those only what comes before "because",
"after", "if" and the like: 45 in "45 miles after 4 hours", 8 in "12 - 4, which is 8 because ...".
It states none that it denies, doubts, bounds or only supposes, and none that is taken back. Where
no verb points at any, behind a label, a lone number counts: "Answer: Tom scored 24 points". What
", not", "(not" or ", rather than" begins after it is left out, and so is "approximately" before it.
A word with a reason is taken alone: "A because ...".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

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
    r"|(?<!\\)\$(?!\d[^$]*(?:\s\$|\$\d))([^$]+?)(?<!(?<!\\)\\)\$",
    re.DOTALL,
)
_LONE = re.compile(rf"{NUMBER}|\(?[A-J]\)?", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{2,}")
_ADVERB_FIRST = re.compile(rf"^(?:{LANGUAGES['adverbs']})[ \t*_]+", re.IGNORECASE)
_SAYS_SO, _SAYS_SO_OF_FORMULA = (
    re.compile(
        rf"(?:^|{LANGUAGES['verbs_between_letters']}|\bto (?:get|obtain)"
        # "has to pay 5", but not "two hours to earn 5"
        rf"|(?:\b(?:ha[sd]|have|needs?|needed|able|going) to |(?<!\bto )\b)(?:{verbs}))"
        rf"[ \t*_$]*(?:(?:{LANGUAGES['objects']}|{LANGUAGES['adverbs']})[ \t*_]+){{0,2}}$",
        re.IGNORECASE,
    )
    for verbs in (LANGUAGES["verbs"], f"{LANGUAGES['verbs']}|{LANGUAGES['connectives']}")
)
"""What points at a number, and at a formula."""
_WORD_OF_UNIT = rf"(?:[ \t]+(?!{UNITS['no_unit']})[^\W\d_]+(?:/[a-z]+|['’]s?)?)"
_UNIT = rf"(?:[ \t]?(?:°|\\?%|[€£¥]))?{_WORD_OF_UNIT}{{0,9}}"
"""A unit may have many words: "red marbles in her bag"."""
_NEXT_SENTENCE = re.compile(r"(?:(?<=[.?])|(?<=[.?]\$)|(?<=[.?]\\[\])]))[ \t]+(?=[A-Z$\\])")
_END = re.compile(
    rf"({_UNIT})(?:,{_WORD_OF_UNIT}{{1,3}})?"
    r"(?:(?:,?[ \t]+(?:because|since)|,[ \t]+as)\b[^,]*)?[ \t]*[.!]",
    re.IGNORECASE,
)
"""Of a sentence, behind its value and unit."""
_GOES_ON = re.compile(
    r"['’]\w|[的の의]|(?:st|nd|rd|th)\b"
    r"|(?:[ \t_]|\*\*)*+(?:[-−+*/×·÷^=<>≈]|\\(?![%)\]])|,[ \t]*(?:[$\d]|or\b)"
    r"|(?:minus|plus|times|divided|multiplied|to(?! the nearest)|and|or(?! so\b)|x|iff)\b"
    r"|(?:is|are|was|lies|must|can|has)\b|(?:out |per ?cent )?of\b(?=.*[\d$\\])"
    r"|(?:[^\W\d_]+[ \t]+){0,3}(?:more|less|fewer|greater)\b[^.]*\bthan\b)",
    re.IGNORECASE,
)
"""After a number that is not all of what is said."""
_REASON = re.compile(r"\b(?:because|since|when|if|after|given|where|as)\b", re.IGNORECASE)
_CASES = re.compile(
    r"\bunless\b|\b(?:when|if|for)\b.*\b(?:otherwise|else|if|when)\b", re.IGNORECASE
)
"""After one of several answers: "5 if x is even and 6 otherwise"."""
_CONTRAST = re.compile(rf"[,，][ \t]*(?:and[ \t]+)?(?:{LANGUAGES['contrasts']}).*", re.IGNORECASE)
_ASIDE = re.compile(
    rf"(?<!\band)(?<!\bor)(?<=[\w.$}})\]])[ \t]+\((?:(?:{LANGUAGES['contrasts']}).*"
    r"|(?:since|because|rounded|approximately|approx)\b[^()]*\)?\s*$)",
    re.IGNORECASE,
)
"""Of "5 (not 4)"; "p and (not q)" has none."""
_WORD_AND_REASON = re.compile(
    r"([^\s,]+)(?:,?[ \t]+(?:because|since)|,[ \t]+(?:as|(?:it|they|there)[ \t]+\w+))\b.*",
    re.IGNORECASE | re.DOTALL,
)
_CHOICE = re.compile(r"\([A-J]\)[ \t]+(?=\S)|[A-J][).][ \t]+(?=\S)")
_JOINED = re.compile(
    r"(?:[ \t*_]*(?:,|、)|(?:[ \t]+[^\W\d_]+){0,3}[ \t*_]*,?[ \t]*\b(?:and|or)\b)[ \t*_]*"
)
_DENIED = re.compile(
    rf"\b(?:{LANGUAGES['doubts']})\b(?:(?!,|\band\b).)*$|\b(?:{LANGUAGES['denials']})"
    r"(?:[ \t*_]+(?!(?:is|are|was|were)\b)"
    rf"(?:be|to|exactly|necessarily|always|answer|{LANGUAGES['verbs']})){{0,4}}$"
    rf"|(?:{LANGUAGES['denials_between_letters']})[是为為]?$",
    re.IGNORECASE,
)
"""Of what stands before a value in its clause."""
_DENIED_BEHIND = re.compile(
    rf"[\s$*_)}}\]\\]*(?:{LANGUAGES['taken_back']}|{LANGUAGES['denied_behind']})\b"
    r"(?! (?:to|that|for)\b)"
    rf"|[\s$*_)}}\]\\]*{_WORD_OF_UNIT}{{0,9}}[.,;:!?\n(]\s*(?:(?!if\b)[a-z]+,?[ \t]+){{0,2}}"
    rf"(?:(?:(?:th(?:is|at)|it)(?: (?:answer|result|value))?|which)[ \t]*"
    rf"(?:{LANGUAGES['taken_back']})|I(?: a|['’])m not (?:sure|certain))\b(?! (?:to|that|for)\b)"
    rf"|[ \t$*]*[가이]?[ \t]*(?:{LANGUAGES['denied_behind_between_letters']})",
    re.IGNORECASE,
)
_NOT_STATED = re.compile(
    rf"\b(?:{LANGUAGES['asides']})(?:(?!,).)*$"
    rf"|\b(?:{LANGUAGES['suppositions']})\b(?:(?!,|\bthen\b).)*$"
    rf"|\b(?:{LANGUAGES['refusals']}|{LANGUAGES['denials']})\b(?:(?!,|\b(?:and|we)\b).)*\b"
    rf"(?:to (?:get|obtain|make|reach)|(?!(?:is|are|was|were|so)\b)(?:{LANGUAGES['verbs']}))$",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"[.!?;:][ \t]|\n|\\\[|\$\$|\b(?:(?:so|thus)(?! far)|hence|therefore|(?<!anything )but)\b",
    re.IGNORECASE,
)
_NOT_LONE = re.compile(
    rf"\b(?:{LANGUAGES['refusals']}|{LANGUAGES['denials']})\b[^,]*$"
    rf"|\b(?:{LANGUAGES['bounds']})[ \t*_$(]*$|{LANGUAGES['denials_between_letters']}",
    re.IGNORECASE,
)
_LONGEST = 2000
"""Characters at the end of a statement that are taken apart."""
_BEFORE, _LONGEST_CLAUSE = 30, 300
"""Characters before a number in which a verb is looked for, and a word that denies or doubts it."""


class _Part(NamedTuple):
    """A number or formula, or several that are joined, in a sentence."""

    start: int
    end: int
    text: str


def answer_in(statement: str) -> str:
    """The answer in what was stated: all of it, or the formula or number of a sentence."""
    statement = statement[-_LONGEST:].strip().strip('*_` \t"“”').rstrip('.,;。，； ✓✔*_`"”项項')
    statement = _ASIDE.sub("", _ADVERB_FIRST.sub("", statement)).rstrip()
    if reason := _WORD_AND_REASON.fullmatch(statement):
        statement = reason[1]
    mark = ""
    if choice := _CHOICE.match(statement):  # both count: "(C) 12" of "(C) $12$ because ..."
        mark, statement = choice[0], statement[choice.end() :]
    said = _CONTRAST.sub("", statement)
    if is_sentence(said):
        return mark + (_said_last(said) or lone_value(said) or statement)
    return mark + (said if _LONE.fullmatch(said) else statement).strip("*_` \t")


def closing_value(line: str) -> str:
    """The value with its unit in which a line's last sentence ends, where a verb points at it."""
    sentence = _NEXT_SENTENCE.split(line)[-1]
    for part in _said_to_be(sentence, _parts(sentence)):
        end = _END.fullmatch(sentence, part.end)
        if end and sentence[: part.start].rstrip(" \t*_$")[-1:] not in ("", ":"):
            return answer_in(sentence[part.start : end.end(1)])
    return ""


def lone_value(statement: str) -> str:
    """The only number or formula of a sentence, where no word before it denies or bounds it."""
    parts = _parts(statement)
    if len(parts) != 1 or _NOT_LONE.search(statement, 0, parts[0].start):
        return ""
    start, end, text = parts[0]
    return text if is_stated(statement, start, end) and not _GOES_ON.match(statement, end) else ""


def _parts(said: str) -> list[_Part]:
    """All formulas, and numbers beside them, with the words that make them others: "5 million"."""
    parts: list[_Part] = []
    for pattern in (_FORMULA, _NUMBER):
        for match in pattern.finditer(said):
            scale = _SCALE.match(said, match.end())
            text = match[match.lastindex or 0].strip()
            is_within = any(part.start <= match.start() < part.end for part in parts)
            if text.strip(" \t*_.") and not is_within:
                end, word = (scale.end(), scale[0].rstrip()) if scale else (match.end(), "")
                parts.append(_Part(match.start(), end, text + word))
    return sorted(parts)


def is_denied(text: str, start: int, end: int) -> bool:
    """Whether the words beside the value there deny or doubt it, or the next ones take it back."""
    behind = text[end : end + _LONGEST_CLAUSE]
    return bool(_DENIED.search(_clause(text, start)) or _DENIED_BEHIND.match(behind))


def is_stated(text: str, start: int, end: int) -> bool:
    """Whether the sentence around the value there neither denies nor only supposes it."""
    return not (is_denied(text, start, end) or _NOT_STATED.search(_clause(text, start)))


def _clause(text: str, start: int) -> str:
    before = text[max(0, start - _LONGEST_CLAUSE) : start].rstrip("\\([$*_: \t\r\n")
    return _CLAUSE.split(before + " ")[-1].rstrip()


def is_sentence(statement: str) -> bool:
    """Whether there are words around the answer, or a formula's delimiters."""
    if "$" in statement or r"\(" in statement:
        return True
    if _CJK.match(statement):  # no blanks between words; "18個" begins with its number
        return _WORD.search(statement) is not None and _NUMBER.search(statement) is not None
    words = [*_WORD.finditer(statement)]
    return bool(words) and any(c.isspace() for c in statement[words[0].end() : words[-1].start()])


def _said_to_be(statement: str, parts: Sequence[_Part]) -> list[_Part]:
    """Those at which a verb points, several in one if they are joined."""
    likely = []
    for i, (start, end, text) in enumerate(parts):
        pattern = _SAYS_SO_OF_FORMULA if statement[start] in "$\\" else _SAYS_SO
        points = pattern.search(statement, max(0, start - _BEFORE), start)
        if points is None or not is_stated(statement, start, end):
            continue
        texts = [text]
        for part in parts[i + 1 :]:
            if not _JOINED.fullmatch(statement, end, part.start):
                break
            texts.append(part.text)
            end = part.end
        if not _GOES_ON.match(statement, end):
            likely.append(_Part(start, end, ", ".join(texts)))
    return likely


def _said_last(statement: str) -> str | None:
    """What a sentence says the answer is, several if they are joined; None if it says of none."""
    likely = _said_to_be(statement, _parts(statement))
    if not likely or _CASES.search(statement, likely[0].end):
        return None
    # What comes after "because" explains the answer, and is not it.
    reason = _REASON.search(statement, likely[0].end)
    return [part.text for part in likely if reason is None or part.start < reason.start()][-1]
