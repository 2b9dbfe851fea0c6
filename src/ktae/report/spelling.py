"""A rollout's text as the bytes of its tokens, and which token a place in it belongs to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktae.report.columns import Columns


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


def spell(columns: Columns, texts: list[bytes | None], which_n: np.ndarray, row: int) -> Spelling:
    """The spelling of one rollout; a token without text has none.

    Args:
        columns: the rollouts.
        texts: the bytes of each distinct token.
        which_n: (N,) each token's place in `texts`.
        row: the rollout.
    """
    span = slice(columns.offsets_b[row], columns.offsets_b[row + 1])
    pieces = [texts[i] or b"" for i in which_n[span].tolist()]
    return Spelling(b"".join(pieces), np.cumsum([len(piece) for piece in pieces]))
