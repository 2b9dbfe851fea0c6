"""verl's reward function, `reward.custom_reward_function.path=pkg://ktae.trainers.verl.reward`."""

from __future__ import annotations

from typing import Any

from ktae.data import gym, tasks
from ktae.demo import language_named
from ktae.errors import InputError
from ktae.grading.rewards import accepted
from ktae.grading.verdict import Outcome
from ktae.grading.workers import default_pool

DEMO = "ktae/demo-"
"""Begins the `data_source` of a demo language's rows, before the language's name."""


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any] | None = None,
    *,
    max_response_length: int | None = None,
    graded: bool = False,
    **_: Any,
) -> dict[str, float]:
    """Grade one response.

    Args:
        data_source: which grader: a demo language's, reasoning-gym's, or mathematics for anything
            else.
        solution_str: the response, without special tokens.
        ground_truth: the answer (text or a number), or a list of accepted ones.
        extra_info: not used.
        max_response_length: the limit in tokens, which the demo needs.
        graded: whether reasoning-gym's score itself is given, for an estimator of graded rewards.

    Returns:
        `score` 1 or 0, the reward before any shaping; `acc`, the same, which verl's shaping leaves
        alone and the estimator reads; `unanswered` 1 where no answer was found; `undecided` 1
        where the grader could not tell: the estimator leaves such a rollout out of its statistics.
        Numbers throughout, since verl averages them over the validation set.

    Raises:
        InputError: the demo without its limit, or in a language that is not installed here.
    """
    is_gym, is_demo = data_source == f"ktae/{tasks.GYM}", data_source.startswith(DEMO)
    if is_gym:
        verdict = tasks.gym_verdict(solution_str, ground_truth)
    elif not is_demo:
        verdict = default_pool().grade(solution_str, accepted(ground_truth))
    elif max_response_length is None:
        raise InputError(
            "the demo's reward needs "
            "+reward.custom_reward_function.reward_kwargs.max_response_length"
        )
    else:
        # verl strips the <eos> that says whether the response came to its end. A word is a token,
        # so a response that did is at least one word short of the limit.
        finished = len(solution_str.split()) < max_response_length
        language = language_named(data_source.removeprefix(DEMO))
        verdict = language.verdict(solution_str, ground_truth, finished)
    score = verdict.correct or 0.0
    if graded and is_gym and verdict.outcome is Outcome.INCORRECT:  # part of it may be right
        score = gym.score(solution_str, ground_truth) or 0.0
    return {
        "score": score,
        "acc": score,
        "unanswered": float(verdict.outcome is Outcome.UNANSWERED),
        "undecided": float(verdict.outcome is Outcome.UNDECIDED),
    }
