"""Sessions with several outputs: verl's agent loops may return more than one, each a row.

A session is one rollout of its prompt, and its reward is that of its last output. verl's own GRPO
takes the last outputs alone for the group, but gives every row to any other estimator.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ktae.errors import InputError


def last_outputs(keys: Sequence[str]) -> np.ndarray | None:
    """The row of the last output of each row's session.

    Args:
        keys: of B rows, as verl names them: `prompt_session_output`, the last a number.

    Returns:
        (B,) int64; None where every row is the last output of its session.

    Raises:
        InputError: a key of another form.
    """
    sessions: dict[str, tuple[int, int]] = {}
    names = []
    for row, key in enumerate(keys):
        name, _, output = key.rpartition("_")
        if "_" not in name or not output.isdecimal():
            raise InputError(f"the key of a rollout is {key!r}; expected prompt_session_output")
        names.append(name)
        sessions[name] = max(sessions.get(name, (-1, -1)), (int(output), row))
    last = np.array([sessions[name][1] for name in names], dtype=np.int64)
    return None if np.array_equal(last, np.arange(len(last))) else last


def over_outputs(
    advantages: torch.Tensor, last_mask: torch.Tensor, session: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """The rollout advantage of each session at all of its outputs' tokens.

    Args:
        advantages: (S, T) of the last outputs, the same at each token that counts.
        last_mask: (S, T) the response mask of the last outputs. Where none of its tokens counts,
            the whole session gets 0, as with verl's GRPO.
        session: (B,) int64, which of the S sessions each output belongs to.
        mask: (B, T) the response mask of all outputs.

    Returns:
        (B, T), 0 where masked.
    """
    first = last_mask.argmax(dim=1, keepdim=True)
    return advantages.gather(1, first)[session] * mask
