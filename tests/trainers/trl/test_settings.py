"""From a recipe to TRL's configuration, where no training shows it."""

import pytest

from ktae import recipe as recipes
from ktae.trainers.trl.settings import grpo_config


@pytest.mark.parametrize(
    ("trl", "quantile", "weight"),
    [({}, 1.0, 0.0), ({"top_entropy": 0.2}, 0.2, 0.0), ({"entropy_coef": -0.03}, 1.0, -0.03)],
)
def test_settings_of_the_entropy(tmp_path, trl, quantile, weight):
    recipe = recipes.Recipe.model_validate({"name": "x", "steps": 1, "trl": trl})
    config = grpo_config(recipe, tmp_path)
    assert (config.top_entropy_quantile, config.entropy_coef) == (quantile, weight)
