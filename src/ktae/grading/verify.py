r"""One response against its accepted answers, in this process.

Three steps: what the response states (`ktae.grading.extraction`), what that is
(`ktae.grading.forms`), and whether it is the same (`ktae.grading.compare`). Only the workers of
`ktae.grading.pool` should call this on unknown texts.
"""

from __future__ import annotations

import contextlib
import re
import signal
import threading
from collections.abc import Iterator, Sequence

from ktae.grading import latex
from ktae.grading.compare import AS_TEXT, same
from ktae.grading.expressions import parsed
from ktae.grading.extraction import Extracted, Fallback, extract, last_boxed
from ktae.grading.forms import Kind, read
from ktae.grading.verdict import Outcome, Verdict

PATIENCE = 1.5
"""Processor seconds for one comparison. What takes longer is not the same; see `_in_time`."""

_HASHES = re.compile(r"(?:^|\n)####[ \t]*(\S[^\n]*)\s*\Z")
_COMMAND = re.compile(
    r"\\(?!pi(?![a-z])|(?:alpha|beta|gamma|theta|lambda|mu|omega)(?![a-z]))[a-zA-Z]+|\\text\s*\{[^{}]*\}"
)

_SHORT = 40


class _OutOfTime(BaseException):
    """Not an `Exception`, so that no library takes it for one of its own."""


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
    accepted = [text for answer in answers if is_answer(text := accepted_in(answer))]
    if extracted is None:
        # No answer: that is sure only where there is something it could have been compared with.
        if not accepted:
            return _undecided(None, answers)
        return Verdict(Outcome.UNANSWERED, None, "no answer found")
    reasons = []
    for answer in accepted:
        how, why_not = _in_time(answer, extracted.text)
        if how:
            return Verdict(Outcome.CORRECT, extracted.text, f"{extracted.rule}, {how}")
        reasons.append(why_not)
    if len(accepted) < len(answers):
        broken = [answer for answer in answers if not is_answer(accepted_in(answer))]
        return _undecided(extracted.text, broken)
    reason = next(filter(None, reasons), "")
    return Verdict(
        Outcome.INCORRECT, extracted.text, ", ".join(filter(None, (extracted.rule, reason)))
    )


def _undecided(text: str | None, answers: Sequence[str]) -> Verdict:
    reason = f"the accepted answer does not parse: {answers[0][:100]!r}" if answers else "no answer"
    return Verdict(Outcome.UNDECIDED, text, reason)


def accepted_in(answer: str) -> str:
    r"""The accepted answer in a data set's entry: of a whole solution its `#### 5` or last box."""
    if hashes := _HASHES.search(answer):
        return hashes[1].strip()
    boxed = last_boxed(answer) if r"\boxed" in answer else None
    return answer if boxed is None else boxed


def is_answer(answer: str) -> bool:
    """Whether anything could be compared with this accepted answer: it is not empty or cut off."""
    text = latex.clean(answer)
    return bool(re.search(r"\w|\\[a-zA-Z{]", text)) and latex.braces_match(text)


def agree(answer: str, given: str) -> str:
    """By which comparison `given` is the accepted `answer`; empty if by none."""
    accepted = read(answer)
    # A letter may be a unit where the accepted answer has none.
    letters = not re.search(r"[^\W\d_]", _COMMAND.sub("", accepted.text))
    return same(accepted, read(given, letters=letters))


def _in_time(answer: str, given: str) -> tuple[str, str]:
    """By which comparison the two agree, or else why not: which kinds of answers they are.

    A response that takes too long or raises is not the same, whatever the accepted answer: it must
    not be able to dodge its verdict.
    """
    try:
        if (
            len(given) < _SHORT
            and (got := read(given)).number
            and (accepted := read(answer)).number
        ):
            return same(accepted, got), "another number"  # nothing in it takes long
        with _limited():
            if how := agree(answer, given):
                return how, ""
            accepted = read(answer)
            if accepted.kind is Kind.EXPRESSION and parsed(accepted.body) is None:
                return "", AS_TEXT
            kinds = accepted.kind, read(given).kind
            is_other = kinds[0] is not kinds[1]
            return "", f"{kinds[1]} for {kinds[0]}" if is_other else f"another {kinds[0]}"
    except MemoryError:
        raise
    except _OutOfTime:
        return "", "not compared in time"
    except Exception as error:
        return "", f"not compared: {type(error).__name__}: {error}"[:120]


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Raise `_OutOfTime` in the block after `PATIENCE` processor seconds, in a main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGVTALRM, stop)
    # Once more every tenth: a library may have swallowed the first.
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
