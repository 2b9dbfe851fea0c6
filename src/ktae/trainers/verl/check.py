"""Are the overrides keys of the installed verl? Asked of its configuration, not of its code."""

from __future__ import annotations

import difflib
import functools
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ktae.errors import InputError, one_line
from ktae.trainers import check_version
from ktae.trainers.verl import names, options
from ktae.trainers.verl.overrides import IGNORED, Overrides, arguments, with_sections


def compose(settings: Overrides) -> Any:
    """verl's whole configuration with the overrides applied.

    Raises:
        InputError: verl is absent or of another version; a key is unknown to it (the nearest known
            one is named); Hydra refuses an override; an option of `algorithm.credit` is
            unknown; the estimator is `ktae` and the trainer mode is not one of its own, the loss
            averages advantages, or the old trainer lacks what the estimator needs.
    """
    check_version("verl")
    from hydra.errors import HydraException

    # Hydra says the rest itself: of a new key that is there already, of a value of another type.
    for key in settings:
        if not key.startswith("+") and key not in _stock():
            used = [name for name in _stock() if not name.startswith(IGNORED)]
            near = difflib.get_close_matches(key, used, n=1, cutoff=0.8)
            hint = f"did you mean {near[0]}? To" if near else "to"
            raise InputError(f"the installed verl has no key {key}; {hint} add a new one: +{key}")
    try:
        config = configuration(arguments(settings))
    except HydraException as error:
        raise InputError(f"verl refuses an override: {one_line(error, 2000)}") from None
    if config.algorithm.adv_estimator != names.ESTIMATOR:
        options.from_algorithm(config.algorithm)
        return config
    mode = config.trainer.v1.trainer_mode
    if config.trainer.use_v1 and mode not in names.MODES:
        raise InputError(names.without_mode(mode))
    options.checked(config, is_old=not config.trainer.use_v1)
    return config


def configuration(overrides: Sequence[str]) -> Any:
    """verl's own, with these overrides applied."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    spec = importlib.util.find_spec("verl")
    assert spec is not None and spec.submodule_search_locations is not None
    folder = Path(next(iter(spec.submodule_search_locations)), "trainer", "config")
    with initialize_config_dir(str(folder), version_base=None):
        return hydra_compose("ppo_trainer", overrides=list(overrides))


@functools.cache
def _stock() -> dict[str, Any]:
    """All dotted keys of the installed verl's configuration, of sections too, and their values."""
    from omegaconf import OmegaConf

    return dict(with_sections(OmegaConf.to_container(configuration(()), resolve=False)))
