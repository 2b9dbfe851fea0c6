"""What a grader says about one response."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Outcome(StrEnum):
    """The four outcomes."""

    CORRECT = "correct"
    """The response gives one of the accepted answers."""
    INCORRECT = "incorrect"
    """It gives another one."""
    UNANSWERED = "unanswered"
    """No answer can be found in it. Reward 0, and reported apart."""
    UNDECIDED = "undecided"
    """Nobody knows: out of time or memory, the accepted answer does not parse, an internal error.
    Never a reward of 0."""


class Verdict(NamedTuple):
    """The outcome, and how it came about."""

    outcome: Outcome
    extracted: str | None = None
    """The answer found in the response, as it stands there; None where none was."""
    reason: str = ""
    """Which rule found the answer and which decided, or why nothing could be decided."""

    @property
    def correct(self) -> float | None:
        """1.0, 0.0, or None where the verdict is undecided: `correct` of a rollout record."""
        if self.outcome is Outcome.UNDECIDED:
            return None
        return float(self.outcome is Outcome.CORRECT)
