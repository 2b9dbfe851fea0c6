"""A recipe's model: a folder, a hub name, or the demo's, which is pretrained on first use."""

from __future__ import annotations

from ktae.files.hub import local_or_hub
from ktae.recipe import Recipe


def model_name(recipe: Recipe) -> str:
    """The folder or hub name of a recipe's model; the demo's is pretrained if it is not there yet.

    Raises:
        InputError: it can be neither, or the demo's cannot be written.
    """
    name = recipe.model.path
    if name != "demo":
        return local_or_hub("model", name)
    from ktae.demo import language_named
    from ktae.demo.pretrain import base_model

    return str(base_model(language_named(recipe.demo.language), recipe.model.demo_seed))
