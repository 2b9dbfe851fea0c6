"""Graders by name, to be compared on the same outputs.

Each takes a response and its accepted answers and returns a `Verdict`. They run in the workers of
`ktae.grading.pool`, under its time limit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from ktae.grading.extraction import Fallback, extract, last_boxed
from ktae.grading.verdict import Outcome, Verdict
from ktae.grading.verify import decide, verify

Grader = Callable[[str, Sequence[str]], Verdict]

DEFAULT = "ktae"


def math_verify_alone(response: str, answers: Sequence[str]) -> Verdict:
    """math-verify as its README uses it: both texts through `parse`, then `verify`."""
    from math_verify import parse, verify

    target = parse(response, parsing_timeout=None)
    if not target:
        return Verdict(Outcome.UNANSWERED, None, "math-verify found nothing to parse")
    extracted = str(target[-1])
    for answer in answers:
        gold = parse(answer if "$" in answer else f"${answer}$", parsing_timeout=None)
        if verify(gold, target, timeout_seconds=None):
            return Verdict(Outcome.CORRECT, extracted, "math-verify")
    return Verdict(Outcome.INCORRECT, extracted, "math-verify")


def strict_boxed(response: str, answers: Sequence[str]) -> Verdict:
    r"""The last `\\boxed{}` is, character by character, an accepted answer; blanks aside."""
    boxed = last_boxed(response)
    if boxed is None:
        return Verdict(Outcome.UNANSWERED, None, "no box")
    same = "".join(boxed.split()) in {"".join(answer.split()) for answer in answers}
    return Verdict(Outcome.CORRECT if same else Outcome.INCORRECT, boxed, "characters")


FALLBACKS: dict[str, Fallback] = {DEFAULT: "stated", "ktae-boxed": "none", "ktae-last": "last"}
"""How far those of ktae's own go to find an answer."""

GRADERS: dict[str, Grader] = {
    **{name: functools.partial(verify, fallback=how) for name, how in FALLBACKS.items()},
    "math-verify": math_verify_alone,
    "strict-boxed": strict_boxed,
}
"""`ktae` is the grader of training and evaluation; `ktae-boxed` takes boxes only, `ktae-last` also
the last number of a response; `math-verify` is the library alone; `strict-boxed` compares text."""


def grade_in_steps(
    grader: str, response: str, answers: Sequence[str], tell: Callable[[str], None]
) -> Verdict:
    """As `GRADERS[grader]`; a grader of ours gives the answer it found to `tell` before it compares
    it, for a verdict that the time limit cuts off."""
    if grader not in FALLBACKS:
        return GRADERS[grader](response, answers)
    extracted = extract(response, FALLBACKS[grader])
    if extracted is not None:
        tell(extracted.text)
    return decide(extracted, answers)
