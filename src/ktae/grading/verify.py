r"""One response against its accepted answers, in this process and without a time limit.

Only the workers of `ktae.grading.pool` should call this on unknown texts.

An answer that the response gives is compared with each accepted one, cheapest first:

1. the same text (`ktae.grading.values.tidy`), or the same words;
2. both are written numbers: they agree or they do not (`ktae.grading.values.same_number`);
3. dates, clock times and ratios as such, and not as quotients (`ktae.grading.notation`);
4. the same expression (`ktae.grading.expressions`), also without names: `x = 5` is `5`;
5. the same choice, or the same value beside its letter (`ktae.grading.choices`);
6. lists without brackets, in any order, element by element.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ktae.grading import expressions, notation, values
from ktae.grading.choices import choice
from ktae.grading.extraction import Extracted, Fallback, extract
from ktae.grading.verdict import Outcome, Verdict

_NAME = r"\\?[A-Za-z]\w*(?:_\{[^{}]*\})?(?:\([A-Za-z]\w*\))?"
_ASSIGNMENT = re.compile(rf"^\s*{_NAME}\s*=(?!=)\s*")
_TUPLE_NAME = re.compile(r"^\([\w\\, ]+\)\s*=\s*(?=\()")
_PLUS_MINUS = re.compile(r"^(?:\\pm(?![a-z])|±)\s*")
_OR = re.compile(r"\bor\b")
_AND = re.compile(r"\s*,?\s*\\text\s*\{\s*(?:and|or)\s*\}\s*|\s*,?\s+(?:and|or)\s+")


def verify(response: str, answers: Sequence[str], fallback: Fallback = "stated") -> Verdict:
    """The verdict on one response. Raises nothing but MemoryError.

    Args:
        response: whatever a model wrote.
        answers: the accepted answers; any one of them makes the response correct.
        fallback: see `ktae.grading.extraction`.
    """
    return decide(extract(response, fallback), answers)


def decide(extracted: Extracted | None, answers: Sequence[str]) -> Verdict:
    """The verdict on what was found in a response. Raises nothing but MemoryError."""
    # No answer: that is sure only where there is something it could have been compared with.
    if extracted is None:
        if not any(map(is_answer, answers)):
            return _unparsable(None, answers)
        return Verdict(Outcome.UNANSWERED, None, "no answer found")
    errors = []
    for answer in answers:
        try:
            how = agree(answer, extracted.text)
        except MemoryError:
            raise
        except Exception as error:
            errors.append(f"internal error: {type(error).__name__}: {error}"[:200])
            continue
        if how:
            return Verdict(Outcome.CORRECT, extracted.text, f"{extracted.rule}, {how}")
    if unparsable := [answer for answer in answers if not is_answer(answer)]:
        return _unparsable(extracted.text, unparsable)
    if errors:
        return Verdict(Outcome.UNDECIDED, extracted.text, errors[0])
    return Verdict(Outcome.INCORRECT, extracted.text, extracted.rule)


def _unparsable(text: str | None, answers: Sequence[str]) -> Verdict:
    reason = f"the accepted answer does not parse: {answers[0][:100]!r}" if answers else "no answer"
    return Verdict(Outcome.UNDECIDED, text, reason)


def is_answer(answer: str) -> bool:
    """Whether anything could be compared with this reference answer."""
    if values.number(answer) or values.words(answer) or notation.is_written(answer):
        return True
    if expressions.parsed(answer) is not None:
        return True
    parts = elements(answer)
    if len(parts) > 1:
        return all(map(is_answer, parts))
    bare = _ASSIGNMENT.sub("", values.tidy(answer))
    return bare != values.tidy(answer) and is_answer(bare)


def agree(answer: str, given: str) -> str:
    """By which comparison `given` is the accepted `answer`; empty if by none."""
    parts, given_parts = elements(answer), elements(given)
    # "70,110" may be one number or two: the other side's form tells which is meant.
    if len(parts) > 1 >= len(given_parts):
        given_parts = elements(given, thousands=False)
    elif len(given_parts) > 1 >= len(parts):
        parts = elements(answer, thousands=False)
    in_order = _in_order(answer, given)
    # x = 1, y = 2 says which is which, so (2, 1) is another point.
    if in_order:
        return "same elements" if all(map(agree, *in_order)) else ""
    if len(parts) > 1 and len(given_parts) > 1:
        return "same elements" if _agree_in_some_order(parts, given_parts) else ""
    many, union = (parts, given) if len(parts) > 1 else (given_parts, answer)
    if len(many) > 1 and _OR.search(f"{answer} {given}") and expressions.is_union(many, union):
        return "same expression"
    how = _agree_as_one(answer, given) or _agree_as_choice(answer, given)
    if how:
        return how
    bare, given_bare = (_ASSIGNMENT.sub("", values.tidy(text)) for text in (answer, given))
    # Of two assignments both names count: x = 5 is not y = 5.
    if (bare == values.tidy(answer)) != (given_bare == values.tidy(given)):
        return _agree_as_one(bare, given_bare)
    return ""


def elements(answer: str, *, thousands: bool = True) -> list[str]:
    r"""The elements of a list without brackets around it; one element if it is none.

    `thousands` as in `ktae.grading.values.tidy`.
    """
    text = _AND.sub(", ", values.tidy(answer, thousands=thousands))
    depth, start, parts = 0, 0, []
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    parts.append(text[start:].strip())
    signed = []
    for part in parts:
        both = _PLUS_MINUS.sub("", part)
        signed += [part] if both == part else [both, f"-{both}"]  # `7` and `-7` of `\pm 7`
    return signed


def _agree_as_one(answer: str, given: str) -> str:
    if values.tidy(given) and values.tidy(given) == values.tidy(answer):
        return "same text"
    expected = values.number(answer)
    got = values.number(given, letters=not re.search(r"[^\W\d_]", answer))
    if expected and got:
        return "same number" if values.same_number(expected, got) else ""
    as_written = notation.agree(answer, given)
    if as_written is not None:
        return "same date, time or ratio" if as_written else ""
    same_words = _same_words(answer, given)
    if same_words is not None:
        return "same words" if same_words else ""
    # 4343 in base 6 is another number than in base 5.
    bases = {values.base(answer), values.base(given)} - {None}
    if len(bases) > 1:  # math-verify reads over them
        return ""
    return "same expression" if expressions.agree(answer, given) else ""


def _agree_as_choice(answer: str, given: str) -> str:
    """The response may give a choice, its value or both; what is accepted decides which counts."""
    expected, got = choice(answer), choice(given)
    if got is None:
        return ""
    if expected and expected.letter == got.letter and not (expected.value and got.value):
        return "same choice"
    return agree(answer, got.value) if got.value else ""


def _same_words(answer: str, given: str) -> bool | None:
    r"""Whether two answers in words are the same; None if words do not decide.

    math-verify takes the letters of a word for factors, in any order, and reads over
    `\text{ million}`.
    """
    a, b = values.words(answer), values.words(given)
    if a and (a == b or values.plain(answer) == values.plain(given)):
        return True
    if a and b and not (values.is_product(answer) and values.is_product(given)):
        return False
    if values.scale(answer) or values.scale(given):
        return values.plain(answer) == values.plain(given)
    return None


def _in_order(answer: str, given: str) -> tuple[list[str], list[str]] | None:
    """The values of both, where all of one side have different names and none of the other has.

    There the order counts: `x = 1, y = 2` is `(1, 2)` and not `(2, 1)`. Names that differ in their
    indices alone (`x_1`, `x_2`) are those of solutions, in any order.
    """
    both = [_coordinates(answer), _coordinates(given)]
    if len(both[0]) != len(both[1]) or len(both[0]) < 2:
        return None
    # A part's name without its index; empty where it has none.
    matches = [[_ASSIGNMENT.match(part) for part in parts] for parts in both]
    names = [
        {name.group().partition("_")[0].strip("= ") if name else "" for name in side}
        for side in matches
    ]
    if {""} not in names or not any(len(some - {""}) == len(both[0]) for some in names):
        return None
    bare, given_bare = ([_ASSIGNMENT.sub("", part) for part in parts] for parts in both)
    return bare, given_bare


def _coordinates(text: str) -> list[str]:
    """The elements of a list or tuple, whose name (`(x, y) = `) is left out."""
    text = _TUPLE_NAME.sub("", values.tidy(text, thousands=False))
    if text.startswith("(") and text.endswith(")") and len(elements(text)) == 1:
        text = text[1:-1]
    return elements(text, thousands=False)


def _agree_in_some_order(parts: list[str], given_parts: list[str]) -> bool:
    """Whether each part has a counterpart of its own. Agreement is taken to be transitive."""
    if len(parts) != len(given_parts) or len(parts) > 100:
        return parts == given_parts
    # Each part of the answer takes one counterpart away: 1, 1, 2 is not 1, 2, 2.
    open_parts = list(given_parts)
    for part in parts:
        match = next((other for other in open_parts if agree(part, other)), None)
        if match is None:
            return False
        open_parts.remove(match)
    return True
