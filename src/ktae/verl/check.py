"""Are the overrides keys of the installed verl? Asked of its configuration, not of its code."""

from __future__ import annotations

import difflib
import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ktae.errors import InputError, one_line
from ktae.verl import options, plugin, versions
from ktae.verl.overrides import Overrides, arguments


def compose(settings: Overrides) -> Any:
    """verl's whole configuration with the overrides applied.

    Raises:
        InputError: verl is absent or of another version; a key is unknown to it (the nearest known
            one is named) or, given as new, is there already; an option of `algorithm.ktae` is
            unknown; the estimator is `ktae` and the trainer mode is not one of its own.
    """
    versions.require()
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException

    _refuse_unknown(settings, _known_keys())
    with initialize_config_dir(str(_folder()), version_base=None):
        try:
            config = hydra_compose("ppo_trainer", overrides=arguments(settings))
        except HydraException as error:
            raise InputError(f"verl refuses an override: {one_line(error, 2000)}") from None
    options.from_algorithm(config.algorithm)
    mode = config.trainer.v1.trainer_mode
    is_ktae = config.algorithm.adv_estimator == plugin.ESTIMATOR
    if is_ktae and config.trainer.use_v1 and mode not in plugin.MODES:
        raise InputError(plugin.without_mode(mode))
    return config


def _folder() -> Path:
    spec = importlib.util.find_spec("verl")
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations))) / "trainer" / "config"


@functools.cache
def _known_keys() -> frozenset[str]:
    """All dotted keys of the installed verl's configuration."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(_folder()), version_base=None):
        stock = hydra_compose("ppo_trainer")
    return frozenset(_keys(OmegaConf.to_container(stock, resolve=False)))


def _refuse_unknown(settings: Overrides, known: frozenset[str]) -> None:
    for key in settings:
        name = key.lstrip("+")
        if key.startswith("+") and name in known:
            raise InputError(f"verl's configuration has {name} already; leave out the +")
        if not key.startswith("+") and name not in known:
            nearest = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {nearest[0]}?" if nearest else f"to add a new one: +{name}"
            raise InputError(f"the installed verl has no key {name}; {hint}")


def _keys(content: Any, prefix: str = "") -> Iterator[str]:
    """All dotted keys, of sections too."""
    for key, value in content.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{key}.")
