"""Tasks of reasoning-gym as TRL gets them."""

import numpy as np
import pytest

from ktae.estimators import preset
from ktae.recipe import Recipe
from ktae.trainers.trl.tasks import task_of

pytest.importorskip("reasoning_gym", reason="needs the extra 'gym'")


def make_recipe(**changes):
    task = {"source": "reasoning-gym", "name": "chain_sum", "instruction": "Be brief."}
    content = {"name": "x", "steps": 2, "rollout": {"prompts_per_step": 3}, "task": task}
    return Recipe.model_validate(content | changes)


def test_rows_and_rewards():
    recipe = make_recipe()
    task = task_of(recipe)
    rows = task.train_set(recipe)
    assert len(rows) == 6
    assert [message["role"] for message in rows[0]["prompt"]] == ["system", "user"]
    reward = task.reward(None, recipe)
    completions = [[{"role": "assistant", "content": f"It is {x}."}] for x in rows["answer"]]
    assert reward(completions=completions, reference=rows["reference"]) == [1.0] * 6
    assert reward(completions=["so?"] * 6, reference=rows["reference"]) == [0.0] * 6


@pytest.mark.parametrize("graded", [True, False])
def test_a_graded_estimator_gets_the_scores(graded):
    letters = {"name": "letter_counting", "answer": "whole"}
    recipe = make_recipe(credit=preset("calibrated", graded_rewards=graded), task=letters)
    task = task_of(recipe)
    rows = task.train_set(recipe)
    wordy = [f"perhaps {answer}" for answer in rows["answer"]]
    scores = task.reward(None, recipe)(completions=wordy, reference=rows["reference"])
    assert all((0 < score < 1) == graded for score in scores)
    assert all(score <= recipe.correct_above for score in scores if score < 1)
    right = task.reward(None, recipe)(completions=rows["answer"], reference=rows["reference"])
    assert np.all(np.array(right, np.float32) > np.float32(recipe.correct_above))
