"""Are the overrides keys of the installed verl? Asked of its configuration, not of its code."""

from __future__ import annotations

import difflib
import functools
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ktae.errors import InputError, one_line
from ktae.trainers.verl import names, options, versions
from ktae.trainers.verl.overrides import IGNORED, Overrides, arguments, number_in, with_sections


def compose(settings: Overrides) -> Any:
    """verl's whole configuration with the overrides applied.

    Raises:
        InputError: verl is absent or of another version; a key is unknown to it (the nearest known
            one is named) or, given as new, is there already; an option of `algorithm.credit` is
            unknown; the estimator is `ktae` and the trainer mode is not one of its own, the loss
            averages advantages, or the old trainer lacks what the estimator needs.
    """
    versions.require()
    from hydra.errors import HydraException

    known = _stock()
    for key in settings:
        name = key.lstrip("+")
        if key.startswith("+") and name in known:
            raise InputError(f"verl's configuration has {name} already; leave out the +")
        if not key.startswith("+") and name not in known:
            raise InputError(f"the installed verl has no key {name}; {_hint(name, known)}")
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


def typed(settings: Overrides) -> Overrides:
    """The overrides, with numbers for text that spells one where verl's own value is a number.

    YAML takes `1e-6` for text, and so would verl, which finds out in the middle of a run.

    Raises:
        InputError: verl is absent or of another version.
    """
    versions.require()
    numbers = {}
    for key, value in settings.items():
        number, stock = number_in(value) if isinstance(value, str) else None, _stock().get(key)
        if number is not None and isinstance(stock, int | float) and not isinstance(stock, bool):
            is_integer = isinstance(stock, int) and number.is_integer()
            numbers[key] = int(number) if is_integer else number
    return settings | numbers


def _hint(name: str, known: dict[str, Any]) -> str:
    """A setting that is spelt like it, or one of its own section whose last part is; or else what
    that section has."""
    settings = [
        key for key in known if not isinstance(known[key], dict) and not key.startswith(IGNORED)
    ]
    section, _, last = name.rpartition(".")
    close = difflib.get_close_matches(name, settings, n=1, cutoff=0.9)
    by_last = {key.rpartition(".")[2]: key for key in settings if key.startswith(f"{section}.")}
    for near in difflib.get_close_matches(last, by_last, n=1):
        close.append(by_last[near])
    close += [key for key in settings if key.endswith(f".{last}")]
    if close:
        return f"did you mean {close[0]}?"
    to_add = f"to add a new one: +{name}"
    has = known.get(section)
    return f"{section} has {', '.join(has)}; {to_add}" if isinstance(has, dict) else to_add
