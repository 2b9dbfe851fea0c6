"""A rollout's text as the bytes of its tokens, and which token a place in it belongs to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Spelling(NamedTuple):
    """The bytes of one rollout's tokens, side by side."""

    text: bytes
    ends_t: np.ndarray
    """(T,) where each token ends in `text`."""

    def tokens(self, begin: int, end: int) -> tuple[int, int]:
        """The first token of `text[begin:end]`, and the token after its last."""
        return (
            int(np.searchsorted(self.ends_t, begin, side="right")),
            int(np.searchsorted(self.ends_t, end, side="left")) + 1,
        )


class Speller:
    """Spells rollouts with the bytes of each of V distinct tokens; one without text has none."""

    def __init__(self, texts: Sequence[bytes | None]) -> None:
        # An array of objects gives a rollout's texts in one step.
        self._texts_v = np.array([text or b"" for text in texts], dtype=object)
        self._lengths_v = np.array([len(text) for text in self._texts_v], dtype=np.int64)

    def spell(self, which_t: np.ndarray) -> Spelling:
        """The spelling of one rollout, by each token's place in the texts."""
        text = b"".join(self._texts_v[which_t].tolist())
        return Spelling(text, np.cumsum(self._lengths_v[which_t]))


def standing_alone(answer: str) -> bytes:
    """The pattern of an answer that is no part of a longer number or word: 5 is neither in 15 nor
    in 5.2."""
    return rb"(?<![\w.])" + re.escape(answer.encode()) + rb"(?!\w|\.\d)"
