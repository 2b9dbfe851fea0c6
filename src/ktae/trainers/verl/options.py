"""The options under `algorithm.ktae` of verl's configuration."""

from __future__ import annotations

import dataclasses
import difflib
import functools
from typing import Any

from ktae.backends import BACKENDS
from ktae.config import PRESETS, KTAEConfig
from ktae.errors import InputError
from ktae.estimator import check_threshold
from ktae.rollouts.tokens import load_tokenizer
from ktae.units import UNITS

BASES = ("grpo", "grpo_vectorized", "rloo", "rloo_vectorized")
"""Rollout advantages of verl that the terms can be added to."""

_OWN = ("base", "threshold", "backend", "tokenizer")
_ESTIMATOR = {field.name for field in dataclasses.fields(KTAEConfig)}


@dataclasses.dataclass(frozen=True)
class Options:
    """All of `algorithm.ktae.*`."""

    config: KTAEConfig
    """From `preset` and any field of `KTAEConfig`."""
    base: str = "grpo"
    """The rollout advantage underneath, by verl's name for it."""
    threshold: float = 0.0
    """A rollout is correct where `acc` (or, without one, its reward) is above this."""
    backend: str = "auto"
    """What computes the terms; see `ktae.backends`."""
    tokenizer: str | None = None
    """The model's folder or hub name, for units that are made of text."""


def from_algorithm(algorithm: Any) -> Options:
    """The options of a run, from the node `algorithm` of its configuration.

    Raises:
        InputError: an unknown option (the nearest known one is named) or a value out of range.
    """
    node = (algorithm or {}).get("ktae")
    if node is None:
        return Options(KTAEConfig.paper())
    if not hasattr(node, "items"):
        raise InputError(f"algorithm.ktae is {node!r}; expected options, such as algorithm.ktae.h2")
    given = dict(node.items())
    _refuse_unknown(given)
    preset = given.get("preset", "paper")
    if not isinstance(preset, str):
        raise InputError(f"algorithm.ktae.preset is {preset!r}; expected {', '.join(PRESETS)}")
    fields = {name: _plain(given[name]) for name in given if name in _ESTIMATOR}
    own = {name: given[name] for name in _OWN if name in given}
    options = Options(KTAEConfig.preset(preset, **fields), **own)
    _check(options)
    return options


def check_here(options: Options) -> None:
    """Refuse what the process that computes the advantages cannot do; another one cannot tell.

    Raises:
        InputError: the backend cannot be used, or the tokenizer cannot be loaded.
    """
    reason = None if options.backend == "auto" else BACKENDS[options.backend].missing()
    if reason:
        raise InputError(
            f"algorithm.ktae.backend is {options.backend!r}, and where verl computes advantages "
            f"{reason}; expected auto, or one that can be used there"
        )
    if options.tokenizer:
        tokenizer_named(options.tokenizer)


@functools.cache
def tokenizer_named(name: str) -> Any:
    """The tokenizer of `algorithm.ktae.tokenizer`, loaded once.

    Raises:
        InputError: it cannot be loaded.
    """
    try:
        return load_tokenizer(name)
    except InputError as error:
        raise InputError(f"algorithm.ktae.tokenizer: {error}") from None


def _refuse_unknown(given: dict[str, Any]) -> None:
    known = sorted(_ESTIMATOR | {"preset", *_OWN})
    for name in given:
        if name not in known:
            nearest = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"expected {', '.join(known)}"
            raise InputError(f"unknown option algorithm.ktae.{name}; {hint}")


def _check(options: Options) -> None:
    _check_tokenizer(options)
    if options.base not in BASES:
        raise InputError(f"algorithm.ktae.base is {options.base!r}; expected {', '.join(BASES)}")
    check_threshold(options.threshold, "algorithm.ktae.threshold")
    known = ("auto", *BACKENDS)
    if options.backend not in known:
        raise InputError(
            f"algorithm.ktae.backend is {options.backend!r}; expected {', '.join(known)}"
        )


def _check_tokenizer(options: Options) -> None:
    if not isinstance(options.tokenizer, str | None):
        raise InputError(
            f"algorithm.ktae.tokenizer is {options.tokenizer!r}; expected the model's folder or "
            "hub name"
        )
    of_text = [name for name in options.config.units if UNITS[name].needs_tokenizer]
    if of_text and not options.tokenizer:
        raise InputError(
            f"algorithm.ktae.units has {', '.join(of_text)}, which is made of text; expected "
            "algorithm.ktae.tokenizer, the model's folder or hub name, too"
        )


def _plain(value: Any) -> Any:
    """A list node of the configuration as a tuple."""
    is_list = not isinstance(value, str) and hasattr(value, "__iter__")
    return tuple(value) if is_list else value
