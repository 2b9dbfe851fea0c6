"""Graders by name, and ours: one response against its accepted answers, in this process.

Only the workers of `ktae.grading.workers` should call this on unknown texts.
"""

from __future__ import annotations

import functools
import json
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence

from ktae.grading import latex
from ktae.grading.compare import same
from ktae.grading.expressions import parsed
from ktae.grading.extract import Fallback, extract
from ktae.grading.forms import Kind, read
from ktae.grading.verdict import AS_TEXT, Outcome, Verdict

PATIENCE = 1.5  # processor seconds to compare a response with all its accepted answers
_HASHES = re.compile(r"(?:^|\n)####[ \t]*(\S[^\n]*)\s*\Z")


class _OutOfTime(BaseException):
    """Not an `Exception`, so that no library takes it for one of its own."""

    @classmethod
    def stop(cls, *_: object) -> None:
        raise cls


def verify(response: str, answers: Sequence[str], fallback: Fallback = "stated") -> Verdict:
    """The verdict on one response, in a main thread; one of the answers is enough.

    Raises nothing but MemoryError.
    """
    text, rule = extract(response, fallback) or (None, "")
    reasons: dict[Outcome, str] = {}
    limit = signal.getitimer(signal.ITIMER_PROF)[0] / 3
    end = time.process_time() + min(PATIENCE, limit or PATIENCE)
    for i, answer in enumerate(answers, 1):
        # A whole solution, as data sets hold it, gives its `#### 5` or last box.
        hashes, box = _HASHES.search(answer), extract(answer, "none")
        accepted = hashes[1].strip() if hashes else box.text if box else answer
        # A slow one takes half of what is left, the last one all of it.
        patience = (end - time.process_time()) / (1 if i == len(answers) else 2)
        outcome, reason = _compared(accepted, text, patience)
        if outcome is Outcome.CORRECT:
            return Verdict(outcome, text, reason, rule)
        reasons.setdefault(outcome, reason)
    if text is None and Outcome.INCORRECT in reasons:  # an answer could have been compared
        return Verdict(Outcome.UNANSWERED, None, "no answer found")
    outcome = Outcome.UNDECIDED if Outcome.UNDECIDED in reasons else Outcome.INCORRECT
    return Verdict(outcome, text, reasons[outcome], rule)


def _compared(answer: str, stated: str | None, patience: float) -> tuple[Outcome, str]:
    """Whether the two agree, and as what, or why not: no response gets around it by being slow."""
    text = latex.clean(answer)
    if not re.search(r"\w|\\[a-zA-Z{]", text) or not latex.braces_match(text):
        return Outcome.UNDECIDED, f"the accepted answer does not parse: {answer[:100]!r}"
    if stated is None:
        return Outcome.INCORRECT, ""
    if answer == stated:
        return Outcome.CORRECT, "same text"
    if patience <= 0:
        return Outcome.INCORRECT, "not compared in time"
    signal.signal(signal.SIGVTALRM, _OutOfTime.stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, patience, 0.1)  # repeats: a library may swallow one
    try:
        accepted, other = read(answer), read(stated)
        if same(accepted, other):
            return Outcome.CORRECT, f"same {accepted.kind}"
        if accepted.kind is Kind.EXPRESSION and parsed(accepted.body) is None:
            return Outcome.INCORRECT, AS_TEXT
        for_what = "another" if other.kind is accepted.kind else f"{other.kind} for"
        return Outcome.INCORRECT, f"{for_what} {accepted.kind}"
    except _OutOfTime:  # undecided where the accepted answer is as slow beside 0
        is_slow = stated == "0" or _compared(answer, "0", patience / 3)[0] is Outcome.UNDECIDED
        return Outcome.UNDECIDED if is_slow else Outcome.INCORRECT, "not compared in time"
    except MemoryError:
        raise
    except Exception as error:
        return Outcome.INCORRECT, f"not compared: {type(error).__name__}: {error}"[:120]
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def math_verify_alone(response: str, answers: Sequence[str]) -> Verdict:
    """math-verify as its README uses it: both texts through `parse`, then `verify`."""
    import math_verify

    target = math_verify.parse(response, parsing_timeout=None)
    if not target:
        return Verdict(Outcome.UNANSWERED, None, "math-verify found nothing to parse")
    for answer in answers:
        gold = math_verify.parse(answer if "$" in answer else f"${answer}$", parsing_timeout=None)
        if math_verify.verify(gold, target, timeout_seconds=None):
            return Verdict(Outcome.CORRECT, str(target[-1]), "same by math-verify", "math-verify")
    return Verdict(Outcome.INCORRECT, str(target[-1]), "", "math-verify")


DEFAULT = "ktae"
GRADERS: dict[str, Callable[[str, Sequence[str]], Verdict]] = {
    DEFAULT: verify,
    "ktae-boxed": functools.partial(verify, fallback="none"),
    "ktae-last": functools.partial(verify, fallback="last"),
    "math-verify": math_verify_alone,
}
"""`ktae` is the grader of training and evaluation; `ktae-boxed` takes boxes only, `ktae-last` also
the last number of a response; `math-verify` is the library alone."""
MEMORY = 4 << 30  # bytes of a worker's address space


def serve() -> None:
    """A worker: one line of JSON in, one outcome out, until the parent closes the pipe, a signal
    ends it as its processor time is over, or it has used up its address space."""
    # The pipes are out of reach for libraries that read or print.
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    # The parent may have ignored or blocked the timer's signal.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(10_000)
    parsed("x / 2")  # imports for a second, which is no part of any task's time
    os.dup2(nothing, 2)  # the parent reads of a failing start alone
    for line in requests:
        grader, response, answers, seconds = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            verdict = GRADERS[grader](response, answers)
        except MemoryError:
            os._exit(1)
        except Exception as error:
            reason = f"internal error: {type(error).__name__}: {error}"[:200]
            verdict = Verdict(Outcome.UNDECIDED, None, reason)
        signal.setitimer(signal.ITIMER_PROF, 0)  # none while it waits for the next task
        replies.write(json.dumps(verdict).encode() + b"\n")
