"""The recipes that matrices train."""

import pytest
from small import LAB
from trl import GRPOConfig

from ktae.recipe import load
from ktae.runs import RunFolder
from ktae.trainers.trl.settings import grpo_config


@pytest.mark.parametrize(
    ("folder", "language"), [("lists", "lists"), ("hard", "sums"), ("stories", "stories")]
)
def test_recipes_of_a_folder_differ_in_the_method_alone(folder, language):
    """So that a difference between two of them is a difference between methods."""
    method = {"name", "algorithm", "credit"}
    paths = sorted((LAB / "recipes" / folder).glob("*.yaml"))
    recipes = [load(path) for path in paths]
    assert {path.stem for path in paths} == {
        *("grpo", "grpo-ktae", "grpo-calibrated", "dapo", "dapo-ktae")
    }
    assert len({recipe.model_dump_json(exclude=method) for recipe in recipes}) == 1
    assert {recipe.demo.language for recipe in recipes} == {language}
    assert len({(r.algorithm.minibatches, r.algorithm.epochs) for r in recipes}) == 1
    for recipe in recipes:
        assert isinstance(grpo_config(recipe, RunFolder(paths[0]).checkpoints), GRPOConfig)
