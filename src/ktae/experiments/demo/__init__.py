"""The embedded default: a tiny language, and a base model that solves some of its problems.

The library has two: `sums` (numbers, one at a time), and `rooms` (an agent, a key and a door, in
several turns). Others are found by their entry points in the group `ktae.languages`, and loaded
when they are asked for. This package costs nothing to import; its modules `model`, `pretrain` and
`evaluate` need torch.
"""

from __future__ import annotations

import functools
from importlib.metadata import EntryPoint, entry_points

from ktae.errors import InputError
from ktae.experiments.demo.language import Language
from ktae.experiments.demo.rooms import HOUSES
from ktae.experiments.demo.sums import SUMS

OWN = {language.name: language for language in (SUMS, HOUSES)}
"""The library's languages, by name."""

GROUP = "ktae.languages"
"""The group of entry points that a distribution offers languages in, by their names."""


def language_named(name: str) -> Language:
    """The language of that name: `sums`, `rooms`, or one that an installed distribution offers.

    Raises:
        InputError: there is none.
    """
    if name in OWN:  # nobody can offer another language under this name
        return OWN[name]
    if name not in _offered():
        raise InputError(
            f"no demo language {name!r}; expected one of {', '.join({**OWN, **_offered()})}"
        )
    language: Language = _offered()[name].load()
    return language


@functools.cache
def _offered() -> dict[str, EntryPoint]:
    """What the installed distributions offer, not loaded."""
    return {point.name: point for point in entry_points(group=GROUP)}


__all__ = ["SUMS", "Language", "language_named"]
