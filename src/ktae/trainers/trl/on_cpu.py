"""What TRL does for accelerators, and a CPU pays for."""

from __future__ import annotations

from trl.trainer import utils as trl_utils

_TILE = "_CHUNKED_LOGPROB_CHUNK_SIZE"
_COMPACT = "_use_triton"
_BEFORE = {name: getattr(trl_utils, name) for name in (_TILE, _COMPACT) if hasattr(trl_utils, name)}
"""TRL's names (1.16); a version without them is left as it is."""


def score_responses_alone(vocabulary: int) -> None:
    """Let TRL's loss make logits of responses alone, in tiles as wide as the vocabulary.

    Without Triton TRL makes them of prompts as well, in tiles of 32,768 columns. A model of 135
    million parameters with prompts of 46 tokens then needs 1.4 times as long for a loss and its
    gradient; a small vocabulary has each row of a tile on a page of its own. Only rounding differs.
    """
    if set(_BEFORE) == {_TILE, _COMPACT}:
        setattr(trl_utils, _TILE, min(_BEFORE[_TILE], vocabulary))
        setattr(trl_utils, _COMPACT, lambda _: True)  # asked there for nothing else


def as_trl_does() -> None:
    """Take that back."""
    for name, value in _BEFORE.items():
        setattr(trl_utils, name, value)
