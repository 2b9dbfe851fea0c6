"""Are the overrides keys of the installed verl? Asked of its configuration, not of its code."""

from __future__ import annotations

import difflib
import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ktae.errors import InputError, one_line
from ktae.trainers.verl import names, options, versions
from ktae.trainers.verl.overrides import IGNORED, Overrides, arguments, number_in


def compose(settings: Overrides) -> Any:
    """verl's whole configuration with the overrides applied.

    Raises:
        InputError: verl is absent or of another version; a key is unknown to it (the nearest known
            one is named) or, given as new, is there already; an option of `algorithm.credit` is
            unknown; the estimator is `ktae` and the trainer mode is not one of its own, the loss
            averages advantages, or the old trainer lacks what the estimator needs.
    """
    versions.require()
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException

    _refuse_unknown(settings)
    with initialize_config_dir(str(_folder()), version_base=None):
        try:
            config = hydra_compose("ppo_trainer", overrides=arguments(settings))
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


def _folder() -> Path:
    spec = importlib.util.find_spec("verl")
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations))) / "trainer" / "config"


@functools.cache
def _stock() -> dict[str, Any]:
    """All dotted keys of the installed verl's configuration, of sections too, and their values."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(_folder()), version_base=None):
        stock = hydra_compose("ppo_trainer")
    return dict(_dotted(OmegaConf.to_container(stock, resolve=False)))


def _dotted(content: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        yield f"{prefix}{key}", value
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{key}.")


def typed(settings: Overrides) -> Overrides:
    """The overrides, with numbers for text that spells one where verl's own value is a number.

    YAML takes `1e-6` for text, and so would verl, which finds out in the middle of a run.

    Raises:
        InputError: verl is absent or of another version.
    """
    versions.require()
    return {key: _typed(value, _stock().get(key)) for key, value in settings.items()}


def _typed(value: Any, own: Any) -> Any:
    number = number_in(value) if isinstance(value, str) else None
    if number is None or isinstance(own, bool) or not isinstance(own, int | float):
        return value
    return int(number) if isinstance(own, int) and number.is_integer() else number


def _refuse_unknown(settings: Overrides) -> None:
    known = _stock()
    for key in settings:
        name = key.lstrip("+")
        if key.startswith("+") and name in known:
            raise InputError(f"verl's configuration has {name} already; leave out the +")
        if not key.startswith("+") and name not in known:
            raise InputError(f"the installed verl has no key {name}; {_hint(name, known)}")


def _hint(name: str, known: dict[str, Any]) -> str:
    """What may be meant by a key that verl does not have: first, a setting of its own section."""
    section = name
    while section and not isinstance(known.get(section), dict):
        section = section.rpartition(".")[0]
    prefix = f"{section}." if section else ""
    settings = [key for key, value in known.items() if not value or not isinstance(value, dict)]
    settings = [key for key in settings if not key.startswith(IGNORED)]
    inside = [key.removeprefix(prefix) for key in settings if key.startswith(prefix)]
    if nearest := _nearest(name.removeprefix(prefix), inside):
        return f"did you mean {prefix}{nearest}?"
    last = name.rpartition(".")[2]
    if elsewhere := [key for key in settings if key.endswith(f".{last}")]:
        return f"did you mean {elsewhere[0]}?"
    to_add = f"to add a new one: +{name}"
    return f"{section} has {', '.join(known[section])}; {to_add}" if section else to_add


def _nearest(name: str, keys: list[str]) -> str | None:
    """The key that is spelt most like it, or else the one whose last part is."""
    if close := difflib.get_close_matches(name, keys, n=1):
        return close[0]
    by_last = {key.rpartition(".")[2]: key for key in keys}
    close = difflib.get_close_matches(name.rpartition(".")[2], by_last, n=1)
    return by_last[close[0]] if close else None
