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


def spell(texts: Sequence[bytes | None], which_t: np.ndarray) -> Spelling:
    """The spelling of one rollout; a token without text has none.

    Args:
        texts: the bytes of each distinct token.
        which_t: (T,) each token's place in `texts`.
    """
    pieces = [texts[i] or b"" for i in which_t.tolist()]
    return Spelling(b"".join(pieces), np.cumsum([len(piece) for piece in pieces]))


def standing_alone(answer: str) -> bytes:
    """The pattern of an answer that is no part of a longer number or word: 5 is neither in 15 nor
    in 5.2."""
    return rb"(?<![\w.])" + re.escape(answer.encode()) + rb"(?!\w|\.\d)"
