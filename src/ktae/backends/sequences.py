"""Credit that follows the order of tokens, which no contingency table knows.

It is computed in the host's memory: compiled as the CPU backend is, in the same chunks and threads,
or by the loops of `naive_sequences` where the backend is `naive` or
`numpy`. A tensor on a GPU is
brought here and its credit back (`Estimator.on_host`), whichever backend is named.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ktae.backends import naive_sequences
from ktae.batch import EQUAL, Batch


def tempo(batch: Batch, weight: float, *, scale_by_std: bool) -> np.ndarray:
    """(B, T) float32: see `ktae.estimators.Tempo`, times `weight`, plus each rollout's base.

    Raises:
        InputError: a token id is out of range.
    """
    if not batch.context.compiled:
        return naive_sequences.tempo(batch, weight, scale_by_std)
    from ktae.backends._sequence_kernels import tempo_groups

    return _compiled(batch, tempo_groups, (weight, scale_by_std))


def conflict_tokens(
    batch: Batch, weight: float, *, scale_by_std: bool, amplify: float, runs: bool
) -> np.ndarray:
    """(B, T) float32: see `ktae.estimators.ConflictTokens`, times `weight`, plus the base.

    Raises:
        InputError: a token id is out of range.
    """
    if not batch.context.compiled:
        return naive_sequences.conflict_tokens(batch, weight, scale_by_std, amplify, runs)
    from ktae.backends._sequence_kernels import conflict_groups

    return _compiled(batch, conflict_groups, (weight, scale_by_std, amplify, runs))


def _compiled(batch: Batch, kernel: Any, settings: tuple[float | bool, ...]) -> np.ndarray:
    from ktae.backends import cpu

    out = np.zeros(batch.token_ids.shape, dtype=np.float32)
    rewards_b, ignored = batch.evidence(), cpu.ignored_ids(batch)

    def score(groups: slice) -> tuple[int, int]:
        chunk = cpu.chunk_of(batch, groups)
        return kernel(  # type: ignore[no-any-return]
            *chunk[:6], rewards_b[chunk.rows], ignored, batch.look_up_unknown, *settings, EQUAL,
            batch.base, out,
        )  # fmt: skip

    cpu.in_threads(batch, score)
    return out
