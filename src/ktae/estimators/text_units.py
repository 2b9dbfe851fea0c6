"""Words, lines and steps: units that are told apart by the tokens' texts."""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
import zlib
from typing import NamedTuple

import numpy as np

from ktae.batch import Vocabulary

BREAKS = {"word": 0, "line": 1, "step": 2}
"""How many line breaks units of text lie between; 0: words lie between other characters."""


class Look(NamedTuple):
    """What matters of a token's text for the units around it."""

    begins_in_word: bool
    ends_in_word: bool
    is_blank: bool
    lead: int  # line breaks before its first other character; of a blank token all
    tail: int  # line breaks within a later run of blanks, at most
    content: bytes  # the text without blanks


def text_keys(
    unit: str, ids_n: np.ndarray, lengths: np.ndarray, vocabulary: Vocabulary
) -> np.ndarray:
    """(N,) int32 keys of `word`, `line` or `step` of (N,) tokens, one response after the other;
    `lengths` is (R,) how many each has."""
    if not len(ids_n):
        return np.zeros(0, dtype=np.int32)
    distinct, which = np.unique(ids_n, return_inverse=True)
    texts = vocabulary.texts
    looks = [look_of(i, texts[i] if i < len(texts) else None) for i in distinct.tolist()]
    begins_in_word, ends_in_word, is_blank, lead, tail = np.array([x[:5] for x in looks])[which].T
    row_n = np.repeat(np.arange(len(lengths)), lengths)
    begins = np.diff(row_n, prepend=-1) != 0
    if unit == "word":
        begins[1:] |= (ends_in_word[:-1] & begins_in_word[1:]) == 0
    else:
        text = np.flatnonzero(is_blank == 0)
        n_breaks = np.diff(np.cumsum(lead)[text]) + tail[text[:-1]]
        is_next = np.diff(row_n[text]) == 0
        begins[text[1:]] |= is_next & (n_breaks >= BREAKS[unit])
    contents = [looks[i].content for i in which.tolist()]
    bounds = [*np.flatnonzero(begins).tolist(), len(ids_n)]
    of_units = (b"".join(contents[a:b]) for a, b in itertools.pairwise(bounds))
    keys = np.array([zlib.crc32(text) >> 1 for text in of_units], dtype=np.int32)
    return np.repeat(keys, np.diff(bounds))


@functools.lru_cache(maxsize=1 << 18)
def look_of(token_id: int, raw: bytes | None) -> Look:
    """The look of a token by its bytes. An id without any is told from others by its number."""
    content = b"\0%d\0" % token_id if raw is None else raw
    try:
        text = content.decode()
        without_blanks = "".join(text.split()).encode()
    except UnicodeDecodeError:
        # A letter for each byte that is part of a character only.
        text = "".join(chr(byte) if byte < 128 else "x" for byte in content)
        without_blanks = b"".join(content.split())
    if not text.strip():
        return Look(False, False, True, text.count("\n"), 0, without_blanks)
    runs = [run.group().count("\n") for run in re.finditer(r"\s+", text)]
    lead = runs.pop(0) if text[0].isspace() else 0
    begins, ends = (x == "_" or unicodedata.category(x)[0] in "LMN" for x in (text[0], text[-1]))
    return Look(begins, ends, False, lead, max(runs, default=0), without_blanks)
