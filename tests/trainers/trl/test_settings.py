"""From a recipe to TRL's configuration, where no training shows it."""

import pytest

from ktae import recipe as recipes
from ktae.trainers.trl.settings import grpo_config


def test_the_share_of_tokens_of_high_entropy(tmp_path):
    recipe = recipes.Recipe.model_validate({"name": "x", "steps": 1, "trl": {"top_entropy": 0.2}})
    assert grpo_config(recipe, tmp_path).top_entropy_quantile == 0.2
    plain = recipes.Recipe.model_validate({"name": "x", "steps": 1})
    assert grpo_config(plain, tmp_path).top_entropy_quantile == 1.0


@pytest.mark.parametrize("weight", [0.01, -0.03])
def test_the_weight_of_the_entropy(tmp_path, weight):
    own = {"entropy_coef": weight}
    recipe = recipes.Recipe.model_validate({"name": "x", "steps": 1, "trl": own})
    assert grpo_config(recipe, tmp_path).entropy_coef == weight
