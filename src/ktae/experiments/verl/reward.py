"""verl's reward function for a recipe's task that ktae's grader does not grade: the demo's,
reasoning-gym's, and rewards of the user's own."""

from __future__ import annotations

import functools
from typing import Any

from ktae.experiments import recipe as recipes
from ktae.experiments.tasks import Task, task_of
from ktae.grading.verdict import Outcome, Verdict
from ktae.trainers.verl.reward import as_scores


@functools.cache
def _task(recipe: str) -> Task:
    return task_of(recipes.load(recipe))


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: dict[str, Any] | None = None,
    *,
    recipe: str,
    **_: Any,
) -> dict[str, float]:
    """Grade one response as the task of `recipe`, the file of the run's recipe, says.

    Arguments and result are otherwise those of `ktae.trainers.verl.reward.compute_score`;
    `ground_truth` is `TaskRow.reference`.
    """
    task = _task(recipe)
    # verl strips the end token, which says whether the response came to its end. The demo alone
    # asks: there a word is a token, so a response that did is a word short of the limit or more.
    finished = len(solution_str.split()) < task.recipe.rollout.max_response_length
    response = [solution_str], [str(ground_truth)], [finished]
    if task.recipe.reward is None:
        return as_scores(task.grade(*response)[0])
    (reward,) = task.rewards(*response)
    scores = as_scores(Verdict(Outcome.UNDECIDED))
    if reward is not None:
        scores |= {"score": reward, "acc": reward, "undecided": 0.0}
    return scores
