"""The recipes that matrices train."""

from small import LAB
from trl import GRPOConfig

from ktae.recipe import load
from ktae.runs import RunFolder
from ktae.trainers.trl.run import grpo_config


def test_recipes_differ_in_the_credit_alone():
    """So that a difference between two arms is a difference between methods."""
    paths = sorted((LAB / "recipes/hard").glob("*.yaml"))
    recipes = [load(path) for path in paths]
    assert [path.stem for path in paths] == ["grpo-calibrated", "grpo"]
    assert len({recipe.model_dump_json(exclude={"name", "credit"}) for recipe in recipes}) == 1
    for recipe in recipes:
        assert isinstance(grpo_config(recipe, RunFolder(paths[0]).checkpoints), GRPOConfig)
