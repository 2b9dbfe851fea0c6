"""What TRL does for accelerators, and a CPU pays for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import trl
from transformers import PreTrainedModel
from trl.trainer import utils as trl_utils

READ = "1.16."
"""How the version of TRL begins whose source was read for this."""
_TILE = "_CHUNKED_LOGPROB_CHUNK_SIZE"
"""Columns of a tile."""
_COMPACT = "_use_triton"
"""Asked there for nothing but whether to leave out what has no label."""


@contextlib.contextmanager
def logits_of_responses_alone(model: PreTrainedModel) -> Iterator[None]:
    """Within the block TRL's loss makes logits of responses alone, where the model is on a CPU.

    Without Triton TRL makes them of prompts as well. It makes them in tiles of 32,768 columns: with
    a small vocabulary each row of a tile is on pages of its own. Only rounding differs. Other
    versions of TRL than `READ` are left as they are.
    """
    if model.device.type != "cpu" or not trl.__version__.startswith(READ):
        yield
        return
    before = {name: getattr(trl_utils, name) for name in (_TILE, _COMPACT)}
    setattr(trl_utils, _TILE, min(before[_TILE], model.config.get_text_config().vocab_size))
    setattr(trl_utils, _COMPACT, lambda _: True)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(trl_utils, name, value)
