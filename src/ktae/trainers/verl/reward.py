"""verl's reward function, `reward.custom_reward_function.path=pkg://ktae.trainers.verl.reward`."""

from __future__ import annotations

from typing import Any

from ktae.grading.rewards import accepted
from ktae.grading.verdict import Outcome, Verdict
from ktae.grading.workers import default_pool


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any] | None = None,
    **_: Any,
) -> dict[str, float]:
    """Grade one response, without special tokens, as mathematics, by an answer or a list of them.

    It gives `score` 1 or 0, the reward before any shaping; `acc`, the same, which verl's shaping
    leaves alone and the estimator reads; `unanswered` 1 where no answer was found; `undecided` 1
    where the grader could not tell: such a rollout is left out of the statistics.
    """
    return as_scores(default_pool().grade(solution_str, accepted(ground_truth)))


def as_scores(verdict: Verdict) -> dict[str, float]:
    """A verdict in the form of `compute_score`."""
    score = verdict.correct or 0.0
    return {
        "score": score,
        "acc": score,
        "unanswered": float(verdict.outcome is Outcome.UNANSWERED),
        "undecided": float(verdict.outcome is Outcome.UNDECIDED),
    }
