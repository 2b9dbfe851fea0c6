"""verl's reward function for a recipe's task that ktae's grader does not grade: the demo's,
reasoning-gym's, and rewards of the user's own."""

from __future__ import annotations

from typing import Any

from ktae.errors import InputError
from ktae.experiments.demo import sums
from ktae.experiments.tasks import gym
from ktae.experiments.tasks.base import own_reward
from ktae.trainers.verl.reward import as_scores


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any] | None = None,
    *,
    max_response_length: int | None = None,
    function: str | None = None,
    **_: Any,
) -> dict[str, float]:
    """Grade one response.

    Args:
        data_source: of `Task.data_source`, which names the task.
        solution_str: the response, without special tokens.
        ground_truth: `TaskRow.reference`.
        extra_info: not used.
        max_response_length: the limit in tokens, which the demo needs.
        function: the user's own reward function, by its name in the recipe.

    Returns:
        As `ktae.trainers.verl.reward.compute_score`.

    Raises:
        InputError: the demo without its limit, no such task, or no such function.
    """
    if function is not None:
        reward = own_reward(function)(solution_str, str(ground_truth))
        zero = dict.fromkeys(("score", "acc", "unanswered", "undecided"), 0.0)
        unknown = {"undecided": 1.0}
        return zero | (unknown if reward is None else {"score": reward, "acc": reward})
    if data_source == "ktae/demo":
        if max_response_length is None:
            raise InputError(
                "the demo's reward needs "
                "+reward.custom_reward_function.reward_kwargs.max_response_length"
            )
        # verl strips the <eos> that says whether the response came to its end. A word is a token,
        # so a response that did is at least one word short of the limit.
        finished = len(solution_str.split()) < max_response_length
        return as_scores(sums.grade(solution_str, ground_truth, finished))
    if data_source != f"ktae/{gym.NAME}":
        raise InputError(f"data_source is {data_source!r:.100}; expected a task of ktae's")
    return as_scores(gym.grade(solution_str, ground_truth))
