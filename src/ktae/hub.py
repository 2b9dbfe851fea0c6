"""Names that may be a folder here or something on the Hugging Face hub, and a recipe's model."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ktae.errors import InputError

if TYPE_CHECKING:
    from ktae.recipe import Recipe

HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


def check_local_or_hub(what: str, name: str) -> None:
    """Refuse, at no cost, what can be neither a local folder nor a hub name.

    Raises:
        InputError: `name` is a path that does not exist, or a file; `what` begins the message.
    """
    path = Path(os.path.expanduser(name))  # that of Path raises where there is no such user
    if path.is_file():
        raise InputError(f"{what} {name} is a file; expected its folder, or a hub name")
    own = ("config.json", "tokenizer.json")
    if name and (path / "recipe.yaml").is_file() and not any((path / x).exists() for x in own):
        raise InputError(
            f"{what} {name} is a run folder; what it has trained is in {path / 'model'}, once it "
            "has finished"
        )
    folder = os.path.dirname(name)
    is_path = not HUB_NAME.fullmatch(name) or (folder and Path(folder).is_dir())
    if not name or (is_path and not path.is_dir()):
        raise InputError(f"{what} path {name!r} does not exist")


def model_name(recipe: Recipe) -> str:
    """The folder or hub name of a recipe's model; the demo's is pretrained if it is not there yet.

    Raises:
        InputError: it can be neither, or the demo's cannot be written.
    """
    name = recipe.model.path
    if name != "demo":
        check_local_or_hub("model", name)
        return os.path.expanduser(name)
    from ktae.demo import language_named
    from ktae.demo.pretrain import base_model

    return str(base_model(language_named(recipe.demo.language), recipe.model.demo_seed))
