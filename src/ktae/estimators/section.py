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
from collections.abc import Callable, Mapping
from typing import Any

from ktae.errors import InputError, expected_one_of
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
"""The estimators with settings of their own. Those that are no presets need rollouts of several
turns, or what no dump holds."""

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

    `name` is a key of `PRESETS` or of `KINDS`; or `package.module:Name` or `file.py:Name`, of which
    nothing is imported before `resolved`.

    Raises:
        InputError: there is no such preset or no such setting; the message lists what there is.
    """
    if isinstance(name, str) and ":" in name:
        return ImportPath(name, settings)
    makers = PRESETS | KINDS
    if not isinstance(name, str) or name not in makers:
        raise InputError(f"no estimator {name!r}; {expected_one_of(makers, name)}")
    fields = dataclasses.fields(innermost(makers[name]()))  # type: ignore[arg-type]
    known = [field.name for field in fields]
    for key in settings:
        if key not in known:
            raise InputError(
                f"estimator {name} has no setting {key!r}; {expected_one_of(known, key)}"
            )
    return makers[name](**settings)


def as_estimator(described: Any, what: str = "estimator") -> Estimator:
    """An estimator by what stands for one: itself, a preset's name, a mapping, or a function.

    Raises:
        InputError: it is none of these; `what` begins the message.
    """
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
        InputError: an unknown name or setting (the nearest known one is named), or a value out of
            range.
    """
    if isinstance(section, str):
        return preset(section)
    if not isinstance(section, Mapping) or "estimator" not in section:
        raise InputError(
            f"credit is {section!r}; expected the name of an estimator, or a mapping such as "
            "{estimator: ktae, h3: 0}"
        )
    settings = {str(key): value for key, value in section.items()}
    name, entries = settings.pop("estimator"), settings.pop("transforms", None) or ()
    estimator = preset(name, **settings)
    for entry in entries if isinstance(entries, list | tuple) else [entries]:
        estimator = _wrapped(estimator, entry)
    return estimator


def to_section(estimator: Estimator) -> str | dict[str, Any]:
    """The section that `from_section` reads as this estimator, of plain values.

    Raises:
        InputError: it is or holds an estimator that has no name, such as a function.
    """
    for known, make in PRESETS.items():
        if make() == estimator:
            return known
    name: str | None
    names: dict[type, str] = {kind: name for name, kind in (TRANSFORMS | KINDS).items()}
    *wrappers, inner = layers(estimator)
    if isinstance(inner, ImportPath):
        name, settings = inner.name, inner.settings
    elif isinstance(inner, Function):
        name, settings = name_of(inner.function), {}
    else:
        name, settings = names.get(type(inner)) or name_of(type(inner)), _plain(inner)
    entries: list[Any] = []
    for wrapper in reversed(wrappers):
        entry, plain = names.get(type(wrapper)), _plain(wrapper)
        name = name and entry and name
        entries.append({entry: plain} if plain else entry)
    if name is None:
        raise InputError(f"{estimator!r} has no name that a recipe could hold")
    if not settings and not entries:
        return name
    return {"estimator": name} | settings | ({"transforms": entries} if entries else {})


def to_text(estimator: Estimator) -> str:
    """The estimator as `--estimator` takes it: its name, or a section as JSON.

    One that has no name is as it prints itself.
    """
    try:
        section = to_section(estimator)
    except InputError:
        return repr(estimator)
    return section if isinstance(section, str) else json.dumps(section)


def _wrapped(estimator: Estimator, entry: Any) -> Transform:
    """The estimator in one entry of `transforms`: a name, or a mapping of it to its settings."""
    name, value = entry, None
    if isinstance(entry, Mapping) and len(entry) == 1:
        name, value = next(iter(entry.items()))
    if not isinstance(name, str) or name not in TRANSFORMS:
        raise InputError(f"no transform {name!r}; {expected_one_of(TRANSFORMS, name)}")
    names = [field.name for field in dataclasses.fields(TRANSFORMS[name])][1:]  # but `inner`
    if value is not None and not isinstance(value, Mapping):
        if not names:
            raise InputError(f"transform {name} is given {value!r}; it has no settings")
        value = {names[0]: value}
    try:
        return TRANSFORMS[name](estimator, **(value or {}))
    except TypeError as error:  # as Python says it: another setting, one that is missing
        raise InputError(f"transform {name}: {error}") from None


def _plain(estimator: Estimator) -> dict[str, Any]:
    """The settings that are not at their defaults, as a recipe holds them."""
    settings = {key: value for key, value in estimator.changed().items() if key != "inner"}
    for key, value in settings.items():
        if callable(value):
            raise InputError(f"{value!r} is a function, which no recipe could hold")
        settings[key] = list(value) if isinstance(value, tuple) else value
    return settings
