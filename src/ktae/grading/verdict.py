"""What a grader says about one response."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

AS_TEXT = "compared as text"  # why it is incorrect, where the accepted answer is no value
TIME_LIMIT = "time limit"  # the rule of a verdict that was not reached in time


class Outcome(StrEnum):
    """Unanswered is a reward of 0, reported apart; undecided is none: time ran out, or the accepted
    answer does not parse."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNANSWERED = "unanswered"
    UNDECIDED = "undecided"


class Verdict(NamedTuple):
    """The outcome, and how it came about."""

    outcome: Outcome
    extracted: str | None = None
    """The answer found in the response, as it stands there; None where none was."""
    reason: str = ""
    """Which comparison decided, or why nothing could be decided."""
    rule: str = ""
    """The convention that marks the answer (`ktae.grading.extract`), or `TIME_LIMIT`."""

    @property
    def correct(self) -> float | None:
        """1.0, 0.0, or None where the verdict is undecided: `correct` of a rollout record."""
        return None if self.outcome is Outcome.UNDECIDED else float(self.outcome is Outcome.CORRECT)
