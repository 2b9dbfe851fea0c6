"""Estimators by name, and as a section of a recipe: `calibrated`, or a mapping.

    credit: calibrated
    credit: {estimator: ktae, h3: 0, transforms: [centred, {scaled: 0.5}]}

`estimator` is a preset, a kind of estimator, or the name of one's own, such as
`package.module:Name`; the settings beside it replace those of the
innermost estimator; `transforms` wrap it, the first one first.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

from ktae.errors import InputError, expected_one_of
from ktae.estimators import (
    anchor_states,
    conflict_tokens,
    controls,
    ktae,
    policy,
    presence,
    tempo,
    transforms,
)
from ktae.estimators.base import Estimator
from ktae.estimators.function import SIGNATURE, Function
from ktae.estimators.imported import Named, name_of
from ktae.estimators.transforms import Transform, innermost

KINDS: dict[str, type[Estimator]] = {
    "ktae": ktae.KTAE,
    "presence-z": presence.PresenceZ,
    "tempo": tempo.Tempo,
    "conflict-tokens": conflict_tokens.ConflictTokens,
    "anchor-states": anchor_states.AnchorStates,
    "advantage-reweighting": policy.AdvantageReweighting,
    "entropy-weights": policy.EntropyWeights,
}
"""The estimators with settings of their own. Those that are no presets need rollouts of several
turns, or what no dump holds."""

PRESETS: dict[str, Callable[..., Estimator]] = {
    "paper": ktae.paper,
    "released": ktae.released,
    "no-fisher": ktae.no_fisher,
    "no-ig": ktae.no_ig,
    "no-tf": ktae.no_tf,
    "calibrated": presence.calibrated,
    "trigrams": presence.trigrams,
    "sharp-trigrams": presence.sharp_trigrams,
    "tempo": tempo.Tempo,
    "conflict-tokens": conflict_tokens.ConflictTokens,
}
"""Ready settings; their arguments replace settings of the innermost estimator."""

TRANSFORMS: dict[str, Callable[..., Transform]] = {
    "over-units": transforms.OverUnits,
    "scaled": transforms.Scaled,
    "centred": transforms.Centred,
    "decayed": transforms.Decayed,
    "ignoring": transforms.Ignoring,
    "permuted-labels": controls.PermutedLabels,
    "shuffled-values": controls.ShuffledValues,
    "random-places": controls.RandomPlaces,
    "group-mean": controls.GroupMean,
    "rollout-mean": controls.RolloutMean,
    "within-rollout": controls.WithinRollout,
}
"""What wraps an estimator."""

OWN_KEYS = ("estimator", "transforms")


def preset(name: str, /, **settings: Any) -> Estimator:
    """The preset of that name, with settings of its innermost estimator replaced.

    Args:
        name: a key of `PRESETS` or of `KINDS`; or `package.module:Name` or `file.py:Name`, of which
            nothing is imported before `resolved`.
        **settings: fields of the innermost estimator.

    Raises:
        InputError: there is no such preset or no such setting; the message lists what there is.
    """
    makers = PRESETS | KINDS
    if isinstance(name, str) and ":" in name:
        return Named(name, settings)
    if not isinstance(name, str) or name not in makers:
        raise InputError(f"no estimator {name!r}; {expected_one_of(makers, name)}")
    known = _settings(makers[name]())
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
    if isinstance(described, str):
        return preset(described)
    if isinstance(described, Mapping):
        return from_section(described)
    if callable(described):
        return Function(described)
    raise InputError(
        f"{what} is {described!r}; expected an estimator of ktae.estimators, the name of one "
        f"({', '.join(PRESETS)}), or a function {SIGNATURE}"
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
    for key in section:
        if not isinstance(key, str):
            raise InputError(f"credit has the key {key!r}; expected names of settings")
    settings = {key: x for key, x in section.items() if key not in OWN_KEYS}
    estimator = preset(section["estimator"], **settings)
    entries = section.get("transforms") or ()
    if isinstance(entries, str | Mapping):
        entries = (entries,)
    if not isinstance(entries, list | tuple):
        raise InputError(f"transforms is {entries!r}; expected a list, such as [centred]")
    for entry in entries:
        estimator = _wrapped(estimator, entry)
    return estimator


def to_section(estimator: Estimator) -> str | dict[str, Any]:
    """The section that `from_section` reads as this estimator, of plain values.

    Raises:
        InputError: it is or holds an estimator that has no name, such as a function.
    """
    for name, make in PRESETS.items():
        if make() == estimator:
            return name
    wrappers: list[Any] = []
    kinds = {kind: name for name, kind in KINDS.items()}
    names = {transform: name for name, transform in TRANSFORMS.items()}
    inner = estimator
    while isinstance(inner, Transform):
        if type(inner) not in names:
            raise InputError(f"{type(inner).__name__} has no name that a recipe could hold")
        settings = {key: _plain(value) for key, value in changed(inner).items() if key != "inner"}
        name = names[type(inner)]
        wrappers.insert(0, {name: settings} if settings else name)
        inner = inner.inner
    settings = {}
    of_class: str | None
    if isinstance(inner, Named):
        of_class, settings = inner.name, inner.settings
    elif isinstance(inner, Function):
        of_class = name_of(inner.function)
    else:
        of_class = kinds.get(type(inner)) or name_of(type(inner))
        settings = {key: _plain(value) for key, value in changed(inner).items()}
    if of_class is None:
        raise InputError(f"{inner!r} has no name that a recipe could hold")
    if not settings and not wrappers:
        return of_class
    section: dict[str, Any] = {"estimator": of_class} | settings
    return section | ({"transforms": wrappers} if wrappers else {})


def to_text(estimator: Estimator) -> str:
    """The estimator as `--estimator` takes it: its name, or a section as JSON.

    One that has no name is as it prints itself.
    """
    try:
        section = to_section(estimator)
    except InputError:
        return repr(estimator)
    return section if isinstance(section, str) else json.dumps(section)


def changed(estimator: Any) -> dict[str, Any]:
    """The settings that are not at their defaults, by name."""
    return {
        field.name: getattr(estimator, field.name)
        for field in dataclasses.fields(estimator)
        if getattr(estimator, field.name) != field.default
    }


def _settings(estimator: Estimator) -> list[str]:
    """The names of the innermost estimator's settings."""
    return [field.name for field in dataclasses.fields(innermost(estimator))]  # type: ignore[arg-type]


def _wrapped(estimator: Estimator, entry: Any) -> Transform:
    """The estimator in one entry of `transforms`: a name, or a mapping of it to its settings."""
    name, value = entry, None
    if isinstance(entry, Mapping) and len(entry) == 1:
        name, value = next(iter(entry.items()))
    if not isinstance(name, str) or name not in TRANSFORMS:
        raise InputError(f"no transform {name!r}; {expected_one_of(TRANSFORMS, name)}")
    make = TRANSFORMS[name]
    fields = [field for field in dataclasses.fields(make) if field.name != "inner"]  # type: ignore[arg-type]
    names = [field.name for field in fields]
    if value is None:
        settings: dict[str, Any] = {}
    elif isinstance(value, Mapping):
        settings = dict(value)
    elif len(needed := [f.name for f in fields if f.default is dataclasses.MISSING] or names) == 1:
        settings = {needed[0]: value}
    else:
        raise InputError(f"transform {name} is given {value!r}; it has no settings")
    for key in settings:
        if key not in names:
            raise InputError(
                f"transform {name} has no setting {key!r}; {expected_one_of(names, key)}"
            )
    for field in fields:
        if field.default is dataclasses.MISSING and field.name not in settings:
            raise InputError(f"transform {name} needs {field.name}: {{{name}: ...}}")
    return make(estimator, **settings)


def _plain(value: Any) -> Any:
    if callable(value):
        raise InputError(f"{value!r} is a function, which no recipe could hold")
    return list(value) if isinstance(value, tuple) else value
