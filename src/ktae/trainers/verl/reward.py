"""verl's reward function, `reward.custom_reward_function.path=pkg://ktae.trainers.verl.reward`."""

from __future__ import annotations

import functools
from typing import Any

from ktae.data import gym
from ktae.demo import SUMS, Language, language_named
from ktae.errors import InputError
from ktae.grading.pool import default_pool
from ktae.grading.rewards import accepted


def demo_source(language: str) -> str:
    """The `data_source` of a demo language's rows; those of other data are graded as mathematics.

    The sums have the name that rows had before there was another language.
    """
    return DEMO if language == SUMS.name else f"{DEMO}-{language}"


DEMO = "ktae/demo"


@functools.cache
def language_of(data_source: str) -> Language | None:
    """The language whose rows have that `data_source`; None for those of other data."""
    if data_source.startswith(f"{DEMO}-"):
        return language_named(data_source.removeprefix(f"{DEMO}-"))
    return SUMS if data_source == DEMO else None


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
        data_source: which grader: a `demo_source`, reasoning-gym's, or mathematics for anything
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

    Raises:
        InputError: the demo without its limit, or in a language that is not installed here.
    """
    if data_source == gym.DATA_SOURCE:
        try:
            score = gym.score(solution_str, ground_truth)
        except gym.ScorerError:
            return _scores(correct=False, undecided=True)
        correct = (score or 0.0) if graded else score == 1
        return _scores(correct=correct, unanswered=score is None)
    language = language_of(data_source)
    if language is not None:
        if max_response_length is None:
            raise InputError(
                "the demo's reward needs "
                "+reward.custom_reward_function.reward_kwargs.max_response_length"
            )
        # verl strips the <eos> that says whether the response came to its end. A word is a token,
        # so a response that did is at least one word short of the limit.
        finished = len(solution_str.split()) < max_response_length
        correct = language.is_correct(solution_str, ground_truth, finished)
        return _scores(correct=correct, unanswered=language.extract_answer(solution_str) is None)
    outcome = default_pool().grade(solution_str, accepted(ground_truth)).outcome
    return _scores(
        correct=outcome == "correct",
        unanswered=outcome == "unanswered",
        undecided=outcome == "undecided",
    )


def _scores(
    *, correct: float, unanswered: bool = False, undecided: bool = False
) -> dict[str, float]:
    """Numbers throughout: verl averages them over the validation set."""
    return {
        "score": float(correct),
        "acc": float(correct),
        "unanswered": float(unanswered),
        "undecided": float(undecided),
    }
