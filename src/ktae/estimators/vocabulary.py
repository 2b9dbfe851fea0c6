"""What tokens look like as text, as tables that a compiled loop reads by token id."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

import numpy as np

from ktae.backends.units import (
    BLANK,
    FIRST_IS_WORD,
    LAST_IS_WORD,
    LEAD_SHIFT,
    MANY,
    TAIL_SHIFT,
)
from ktae.batch import Vocabulary

BASE = 0x2545F4914F6CDD1D
"""Of the polynomial over a text's bytes; odd, and so large that short texts do not collide."""

_BLANKS = re.compile(r"\s+")
_ALL = 2**64 - 1


def vocabulary_of_texts(texts: Iterable[bytes | None]) -> Vocabulary:
    """The tables of a vocabulary: the bytes of each token from id 0 on, None where there are none.

    A second or two for 150,000 tokens.
    """
    looks, hashes, spelt = [], [], tuple(texts)
    for token_id, raw in enumerate(spelt):
        # An id without a token has no text: it is told from others by its number.
        text = f"\0{token_id}\0".encode() if raw is None else raw
        looks.append(looks_of(text))
        hashes.append(_hash(without_blanks(text)))
    return Vocabulary(
        np.array([*looks, 0], dtype=np.uint8), np.array([*hashes, (0, 1)], dtype=np.uint64), spelt
    )


def looks_of(text: bytes) -> int:
    """A token's byte of looks."""
    characters = _characters(text)
    if not characters.strip():
        breaks = min(characters.count("\n"), MANY)
        return BLANK | breaks << LEAD_SHIFT
    first, last = characters[0], characters[-1]
    runs = [run.group().count("\n") for run in _BLANKS.finditer(characters)]
    lead = runs.pop(0) if first.isspace() else 0
    return (
        FIRST_IS_WORD * is_word_character(first)
        | LAST_IS_WORD * is_word_character(last)
        | min(lead, MANY) << LEAD_SHIFT
        | min(max(runs, default=0), MANY) << TAIL_SHIFT
    )


def is_word_character(character: str) -> bool:
    """Letters, their marks, numbers and the underscore."""
    return character == "_" or unicodedata.category(character)[0] in "LMN"


def without_blanks(text: bytes) -> bytes:
    """The text by which units are compared."""
    try:
        return "".join(text.decode().split()).encode()
    except UnicodeDecodeError:
        return b"".join(text.split())


def _characters(text: bytes) -> str:
    """The text, with a letter for each byte that is part of a character only."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return "".join(chr(byte) if byte < 128 else "x" for byte in text)


def _hash(text: bytes) -> tuple[int, int]:
    state, power = 0, 1
    for byte in text:
        # From 1, so that no text is a prefix's hash.
        state = (state * BASE + byte + 1) & _ALL
        power = power * BASE & _ALL
    return state, power
