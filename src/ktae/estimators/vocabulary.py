"""What tokens look like as text, as tables that a compiled loop reads by token id."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

import numpy as np

from ktae.batch import Vocabulary
from ktae.counting import units

BASE = 0x2545F4914F6CDD1D
"""Of the polynomial over a text's bytes; odd, and so large that short texts do not collide."""


def vocabulary_of_texts(texts: Iterable[bytes | None]) -> Vocabulary:
    """The tables of a vocabulary: the bytes of each token from id 0 on, None where there are none.

    A second or two for 150,000 tokens.
    """
    looks, hashes, spelt = [], [], tuple(texts)
    for token_id, raw in enumerate(spelt):
        # An id without a token has no text: it is told from others by its number.
        content = f"\0{token_id}\0".encode() if raw is None else raw
        try:
            text = content.decode()
            without_blanks = "".join(text.split()).encode()
        except UnicodeDecodeError:
            # A letter for each byte that is part of a character only.
            text = "".join(chr(byte) if byte < 128 else "x" for byte in content)
            without_blanks = b"".join(content.split())
        looks.append(_looks_of(text))
        state, power = 0, 1
        for byte in without_blanks:
            # From 1, so that no text is a prefix's hash.
            state = (state * BASE + byte + 1) % 2**64
            power = power * BASE % 2**64
        hashes.append((state, power))
    return Vocabulary(
        np.array([*looks, 0], dtype=np.uint8), np.array([*hashes, (0, 1)], dtype=np.uint64), spelt
    )


def _looks_of(text: str) -> int:
    """A token's byte of looks (`ktae.counting.units`)."""
    if not text.strip():
        return units.BLANK | min(text.count("\n"), units.MANY) << units.LEAD_SHIFT
    runs = [run.group().count("\n") for run in re.finditer(r"\s+", text)]
    lead = runs.pop(0) if text[0].isspace() else 0
    return (
        units.FIRST_IS_WORD * _is_of_word(text[0])
        | units.LAST_IS_WORD * _is_of_word(text[-1])
        | min(lead, units.MANY) << units.LEAD_SHIFT
        | min(max(runs, default=0), units.MANY) << units.TAIL_SHIFT
    )


def _is_of_word(character: str) -> bool:
    """Letters, their marks, numbers and the underscore."""
    return character == "_" or unicodedata.category(character)[0] in "LMN"
