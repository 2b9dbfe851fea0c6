"""How the statistics of contingency tables are computed: where the batch's arrays are.

`cpu` computes arrays, compiled by numba; `torch` computes tensors on any device. `naive` and
`naive_sequences` are the reference, plain loops that tests and benchmarks compare the others with.
Each has `credit(batch, formula)`: (B, T) float32, the credit of each counted token of the rollouts
of known correctness, and 0 elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktae.arrays import Array, is_tensor
from ktae.statistics import Formula

if TYPE_CHECKING:
    from ktae.batch import Batch


def credit(batch: Batch, formula: Formula) -> Array:
    """(B, T) float32 credit by the formula, computed where the batch is."""
    # Each backend imports a library that takes long to import.
    if is_tensor(batch.token_ids):
        from ktae.backends import torch

        return torch.credit(batch, formula)
    from ktae.backends import cpu

    return cpu.credit(batch, formula)
