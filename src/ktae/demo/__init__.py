"""The embedded default: a tiny language, and a base model that solves some of its problems.

The library has two: `sums` (numbers, one at a time), and `rooms` (an agent, a key and a door, in
several turns). Others are found by their entry points in the group `ktae.languages`, and loaded
when they are asked for. This package costs nothing to import. What needs torch is in the modules
`model` (tokenizer and model), `pretrain` (the base model), `episodes` (agents at work) and
`evaluate` (how well a model does).
"""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ktae.demo.language import Language
from ktae.demo.rooms import HOUSES
from ktae.demo.sums import SUMS
from ktae.errors import InputError, one_line

OWN = {language.name: language for language in (SUMS, HOUSES)}
"""The library's languages, by name."""

GROUP = "ktae.languages"
"""The group of entry points that a distribution offers languages in, by their names."""


def language_named(name: str) -> Language[Any]:
    """The language of that name: `sums`, `rooms`, or one that an installed distribution offers.

    Raises:
        InputError: there is none, or what the distribution offers under that name is none.
    """
    # First: nobody can offer another language under this name.
    if name in OWN:
        return OWN[name]
    if name not in _offered():
        raise InputError(
            f"no demo language {name!r}; expected one of {', '.join(language_names())} (lists "
            "comes with the distribution ktae-lab)"
        )
    point = _offered()[name]
    try:
        language = point.load()
    except Exception as error:  # whatever a foreign module does when it is imported
        raise InputError(
            f"the demo language {name!r} cannot be loaded from {point.value}: "
            f"{type(error).__name__}: {one_line(error)}"
        ) from error
    if not isinstance(language, Language) or language.name != name:
        raise InputError(
            f"{point.value} is offered as the demo language {name!r} and is {language!r:.80}; "
            "expected a ktae.demo.Language of that name"
        )
    return language


def language_names() -> list[str]:
    """The names of all languages that are installed, the library's own first."""
    return [*OWN, *(name for name in sorted(_offered()) if name not in OWN)]


@functools.cache
def _offered() -> dict[str, EntryPoint]:
    """What the installed distributions offer, not loaded."""
    return {point.name: point for point in entry_points(group=GROUP)}


__all__ = ["SUMS", "Language", "language_named", "language_names"]
