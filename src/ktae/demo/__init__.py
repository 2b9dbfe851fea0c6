"""The embedded default: tiny languages, and for each a base model that solves some of its problems.

`LANGUAGES` has them by name: `sums` (numbers, one at a time), `lists` (sequences of letters) and
`stories` (word problems, for a larger model).
They cost nothing to import. What needs torch is in the modules `model` (tokenizer and model),
`pretrain` (the base model) and `evaluate` (how well a model does).
"""

from __future__ import annotations

from typing import Any

from ktae.demo.language import Language
from ktae.demo.lists import LISTS
from ktae.demo.stories import STORIES
from ktae.demo.sums import SUMS
from ktae.errors import InputError

LANGUAGES: dict[str, Language[Any]] = {
    language.name: language for language in (SUMS, LISTS, STORIES)
}
"""The languages, the default first."""


def language_named(name: str) -> Language[Any]:
    """The language of that name.

    Raises:
        InputError: there is none.
    """
    if name not in LANGUAGES:
        raise InputError(f"no demo language {name!r}; expected one of {', '.join(LANGUAGES)}")
    return LANGUAGES[name]


__all__ = ["LANGUAGES", "LISTS", "STORIES", "SUMS", "Language", "language_named"]
