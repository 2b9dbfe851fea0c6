"""Estimators by name, and as a section of a recipe: `calibrated`, or a mapping.

    credit: {estimator: ktae, h3: 0, transforms: [centred, {scaled: 0.5}]}

`estimator` is a preset, a kind of estimator, or the name of one's own, such as
`package.module:Name`; the settings beside it replace those of the innermost estimator;
`transforms` wrap it, the first one first.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ktae.errors import InputError, expected_one_of, passed_on
from ktae.estimators import controls, transforms
from ktae.estimators.anchor_states import AnchorStates
from ktae.estimators.backoff import Backoff
from ktae.estimators.base import Estimator
from ktae.estimators.function import SIGNATURE, Function, ImportPath, name_of
from ktae.estimators.ktae import KTAE, released
from ktae.estimators.policy import AdvantageReweighting, EntropyWeights
from ktae.estimators.presence import PresenceZ, calibrated, trigrams
from ktae.estimators.salt import Salt
from ktae.estimators.sequences import ConflictTokens, Tempo
from ktae.estimators.stride import Stride
from ktae.estimators.transforms import Transform, innermost, layers
from ktae.estimators.turn_rewards import MTGRPO, TurnRewards

KINDS: dict[str, type[Estimator]] = {
    "ktae": KTAE,
    "presence-z": PresenceZ,
    "backoff": Backoff,
    "tempo": Tempo,
    "conflict-tokens": ConflictTokens,
    "anchor-states": AnchorStates,
    "salt": Salt,
    "turn-rewards": TurnRewards,
    "mt-grpo": MTGRPO,
    "advantage-reweighting": AdvantageReweighting,
    "entropy-weights": EntropyWeights,
    "stride": Stride,
}
"""The estimators with settings of their own; those that are no presets need turns or a policy."""

PRESETS: dict[str, Callable[..., Estimator]] = {
    "paper": KTAE,
    "released": released,
    # The paper's ablations (sec. 4.4).
    "no-fisher": functools.partial(KTAE, h1=0.0),
    "no-ig": functools.partial(KTAE, h2=0.0),
    "no-tf": functools.partial(KTAE, h3=0.0),
    "calibrated": calibrated,
    "trigrams": trigrams,
    "sharp-trigrams": functools.partial(trigrams, sharp=True),
    "tempo": Tempo,
    "conflict-tokens": ConflictTokens,
    "backoff": Backoff,
}
"""Ready settings; their arguments replace settings of the innermost estimator."""

DEFAULT = "backoff"
"""What trainers, functions and commands take where no estimator is named."""

TRANSFORMS: dict[str, type[Transform]] = {
    "over-units": transforms.OverUnits,
    "scaled": transforms.Scaled,
    "centred": transforms.Centred,
    "ignoring": transforms.Ignoring,
    "permuted-labels": controls.PermutedLabels,
    "random-places": controls.RandomPlaces,
}
"""What wraps an estimator."""


def preset(name: str, /, **settings: Any) -> Estimator:
    """The preset of that name, with settings of its innermost estimator replaced.

    `name` is in `PRESETS` or `KINDS`, or `package.module:Name` or `file.py:Name` (see `resolved`).

    Raises:
        InputError: there is no such preset or no such setting; the message lists what there is.
    """
    if isinstance(name, str) and ":" in name:
        return ImportPath(name, settings)
    makers = PRESETS | KINDS
    make = makers[_known("estimator", makers, name)]
    fields = dataclasses.fields(innermost(make()))  # type: ignore[arg-type]
    names = [field.name for field in fields]
    return make(**{_known(f"setting of {name}", names, key): settings[key] for key in settings})


def _known(what: str, names: Collection[str], name: Any) -> str:
    if not isinstance(name, str) or name not in names:
        raise InputError(f"no {what} {name!r}; {expected_one_of(names, name)}")
    return name


def as_estimator(described: Any, what: str = "estimator") -> Estimator:
    """An estimator by what stands for one: itself, a preset's name, a mapping, or a function."""
    if isinstance(described, Estimator):
        return described
    if isinstance(described, str | Mapping):
        return from_section(described)
    if callable(described):
        return Function(described)
    raise InputError(
        f"{what} is {described!r}; expected an estimator of ktae.estimators, the name of one "
        f"({', '.join(PRESETS | KINDS)}), or a function {SIGNATURE}"
    )


def from_section(section: str | Mapping[str, Any]) -> Estimator:
    """The estimator of a recipe's section `credit`.

    Raises:
        InputError: an unknown name or setting (the nearest is named), or a value out of range.
    """
    if isinstance(section, str):
        return preset(section)
    if not isinstance(section, Mapping) or "estimator" not in section:
        expected = "the name of an estimator, or a mapping such as {estimator: ktae, h3: 0}"
        raise InputError(f"credit is {section!r}; expected {expected}")
    settings = {str(key): value for key, value in section.items()}
    name, entries = settings.pop("estimator"), settings.pop("transforms", None) or ()
    estimator = preset(name, **settings)
    for entry in entries if isinstance(entries, list | tuple) else [entries]:
        is_mapping = isinstance(entry, Mapping) and len(entry) == 1
        [(name, value)] = entry.items() if is_mapping else [(entry, None)]
        make: Any = TRANSFORMS[_known("transform", TRANSFORMS, name)]
        by_name = value is None or isinstance(value, Mapping)
        with passed_on(f"transform {name}", TypeError):  # another setting, one that is missing
            estimator = make(estimator, **(value or {})) if by_name else make(estimator, value)
    return estimator


def to_section(estimator: Estimator) -> str | dict[str, Any]:
    """The section that `from_section` reads as this estimator; InputError: it has no name."""
    for known, make in PRESETS.items():
        if make() == estimator:
            return known
    names: dict[type, str] = {kind: name for name, kind in (TRANSFORMS | KINDS).items()}
    *wrappers, inner = layers(estimator)
    name: str | None
    if isinstance(inner, ImportPath):
        name, settings = inner.name, inner.settings
    elif isinstance(inner, Function):
        name, settings = name_of(inner.function), {}
    else:
        name, settings = names.get(type(inner)) or name_of(type(inner)), _plain(inner)
    is_named = all(type(wrapper) in names for wrapper in wrappers)
    if name is None or not is_named or any(map(callable, settings.values())):
        raise InputError(f"{estimator!r} has no name that a recipe could hold")
    entries = [(names[type(wrapper)], _plain(wrapper)) for wrapper in reversed(wrappers)]
    if entries:
        settings = settings | {"transforms": [{k: plain} if plain else k for k, plain in entries]}
    return {"estimator": name} | settings if settings else name


def _plain(estimator: Estimator) -> dict[str, Any]:
    settings = {key: value for key, value in estimator.changed().items() if key != "inner"}
    return {key: list(x) if isinstance(x, tuple) else x for key, x in settings.items()}


def to_text(estimator: Estimator) -> str:
    """The estimator as `--estimator` takes it: a name, or JSON; without a name its `repr`."""
    try:
        section = to_section(estimator)
    except InputError:
        return repr(estimator)
    return section if isinstance(section, str) else json.dumps(section)
