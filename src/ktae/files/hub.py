"""Names that may be a folder here or something on the Hugging Face hub."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

from ktae.errors import InputError

logger = logging.getLogger(__name__)


def copy_of(name: str) -> Path:
    """Where a copy of a model of the hub is looked for, whether or not there is one."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches, "ktae", "models", name).expanduser()


def local_or_hub(what: str, name: str) -> str:
    """What to load: the folder, ktae's copy of a hub's model (of other weights?), or its name."""
    check_local_or_hub(what, name)
    path = os.path.expanduser(name)
    if not Path(path).is_dir() and (copy_of(name) / "config.json").is_file():
        logger.warning("ktae: %s %s: taking the copy in %s", what, name, copy_of(name))
        return str(copy_of(name))
    return path


def check_local_or_hub(what: str, name: str) -> None:
    """Refuse, at no cost, what can be neither a local folder nor a hub name."""
    path = Path(os.path.expanduser(name))  # that of Path raises where there is no such user
    if not name or not path.is_dir():
        is_local = path.exists() or (os.path.dirname(name) and path.parent.is_dir())
        if is_local or not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", name):
            raise InputError(f"{what} {name!r} is neither a folder nor a hub name")
        return
    for file in path.iterdir():  # a library that opens a pipe waits forever
        if file.exists() and not (file.is_file() or file.is_dir()):
            raise InputError(f"{what} {name}: {file.name} is a pipe or a device; expected a file")
    if (path / "recipe.yaml").is_file() and not (path / "tokenizer.json").is_file():
        raise InputError(f"{what} {name} is a run folder; its model is {path / 'model'}")
