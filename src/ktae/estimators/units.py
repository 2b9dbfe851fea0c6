"""Units larger than one token, as keys that the estimator takes in place of token ids."""

from __future__ import annotations

import functools
import itertools
import re
import sys
import unicodedata
import zlib
from typing import NamedTuple

import numpy as np

from ktae.arrays import CHUNK_POSITIONS, Array, ArrayLike, as_array, is_tensor, on_host
from ktae.batch import Vocabulary, check_token_range, check_tokens
from ktae.counting.units import NGRAMS, ngram_keys
from ktae.errors import InputError
from ktae.turns import turn_keys

BREAKS = {"word": 0, "line": 1, "step": 2}
"""How many line breaks units of text lie between; 0: words lie between other characters."""

OF_TURNS = ("turn", "state", "state-turn")
"""What follows from where the policy's turns begin and end (`ktae.turns`)."""

UNITS = (*NGRAMS, *BREAKS, *OF_TURNS)
"""What there is, by name."""


def unit_keys(
    unit: str,
    token_ids: ArrayLike,
    mask: ArrayLike,
    *,
    vocabulary: Vocabulary | None = None,
    written: ArrayLike | None = None,
) -> Array:
    """A key for the unit that each token belongs to; equal units have equal keys.

    Keys are given to `ktae.token_credit` in place of token ids. Masked positions are passed over.

    - `token`: the token itself.
    - `bigram`, `trigram`: before the rollout's first token there is a mark of its own.
    - `word`: letters with their marks, digits and underscores; every other token alone. A token is
      never cut: it continues the word before it if it begins with such a character.
    - `line`: what a break is attached to, and blank lines, belong to the line before.
    - `step`: as step-wise verifiers cut a solution (ProcessBench, arXiv:2412.06559).
    - `turn`: a run of the policy's own tokens (mask 1) that is as long as possible.
    - `state`: the run of masked tokens before the turn; first turns all have the same one.
    - `state-turn`: the turn, and the state before it.

    Words, lines and steps are compared by their text without blanks, however it was tokenised.
    Keys are hashes of 31 bits: in 1.5 % of groups two of 8,000 distinct units get the same.

    Args:
        unit: a name in `UNITS`.
        token_ids: (B, T) integers, 0 to 2^31 - 1 where unmasked, anything elsewhere.
        mask: (B, T) bool, integers or floats; a position counts where it is not 0.
        vocabulary: the tokens' texts, for `word`, `line` and `step`.
        written: (B, T) where the policy wrote, if that is more than `mask`. None: the mask.

    Returns:
        (B, T) int32 from 0 to 2^31 - 1, 0 where masked (`token`: `token_ids` itself). Arrays give
        an array, torch tensors a tensor on the same device; they are computed on the host.

    Raises:
        InputError: there is no such unit, or no vocabulary for it; shapes or dtypes do not fit; an
            id is out of range at an unmasked position.
    """
    if unit not in UNITS:
        raise InputError(f"no unit {unit!r}; expected one of {', '.join(UNITS)}")
    if unit in BREAKS and vocabulary is None:
        expected = "vocabulary= (ktae.rollouts.tokens.vocabulary makes one of a tokenizer)"
        raise InputError(f"the unit {unit!r} needs the tokens' texts; expected {expected}")
    ids_bt, mask_bt = as_array("token_ids", on_host(token_ids)), as_array("mask", on_host(mask))
    check_tokens(ids_bt, mask_bt)
    if unit == "token":
        return token_ids
    check_token_range(ids_bt, mask_bt)
    if unit in OF_TURNS:
        written_bt = mask_bt if written is None else as_array("written", on_host(written))
        keys_bt = turn_keys(unit, ids_bt, mask_bt, written_bt)
    else:
        keys_bt = np.zeros(ids_bt.shape, dtype=np.int32)
        rows_at_once = max(1, CHUNK_POSITIONS // max(1, ids_bt.shape[1]))
        for start in range(0, len(ids_bt), rows_at_once):
            rows = slice(start, start + rows_at_once)
            inside_bt = np.not_equal(mask_bt[rows], 0)
            ids_n, lengths = ids_bt[rows][inside_bt].astype(np.int64), inside_bt.sum(axis=1)
            if vocabulary is not None and unit in BREAKS:
                keys_n = text_keys(unit, ids_n, lengths, vocabulary)
            else:
                place = np.arange(len(ids_n)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
                keys_n = ngram_keys(unit, ids_n, place)
            keys_bt[rows][inside_bt] = keys_n
    if is_tensor(token_ids):
        keys_bt = sys.modules["torch"].from_numpy(keys_bt).to(token_ids.device)
    return keys_bt


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
