"""The GPU backend: Triton kernels around one hash table a program, for CUDA devices.

The host never waits for the device: it knows shapes and the memory allowed, and everything else,
the number of groups included, stays there. `_triton_kernels` says how it is computed.
"""

from __future__ import annotations

import contextlib

import torch
import triton

from ktae.backends import _triton_kernels as kernels
from ktae.backends._triton_statistics import Settings
from ktae.backends.tensors import Tensors
from ktae.config import KTAEConfig
from ktae.errors import InputError

BLOCK = 512
"""Tokens of a rollout that a program takes at a time, one a thread: with more, Triton would give
loads and atomics different layouts and shuffle the tokens between them."""

PROGRAMS_PER_MULTIPROCESSOR = 2
"""One program's work hides the other's waiting. More would press their tables out of the cache."""

MAX_REGISTERS = 64
"""For a thread: what lets that many programs fit."""

SURVEY_BLOCK = 1024
TABULATE_BLOCK = 128

SLOT_BYTES = 8 + 4 + 2 * 8 + 4
"""Of a table, for each slot."""


def terms(
    batch: Tensors, config: KTAEConfig, base_b: torch.Tensor, *, memory_bytes: int
) -> torch.Tensor:
    """(B, T) float32: each unmasked token's term plus its rollout's `base_b`.

    Token ids out of range are not looked for; they count as some token.

    Raises:
        InputError: the batch is not on a GPU, and Triton does not interpret.
    """
    device = batch.token_ids.device
    if device.type != "cuda" and isinstance(kernels.score_groups, triton.JITFunction):
        raise InputError(
            f"token_ids is on {device}; expected a CUDA device "
            "(TRITON_INTERPRET=1, set before Triton is imported, runs the kernels on the CPU)"
        )
    n_rows, n_columns = batch.token_ids.shape
    out = torch.empty(n_rows, n_columns, dtype=torch.float32, device=device)
    if out.numel() > 0:
        with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
            _launch(batch, _settings(config), base_b, out, memory_bytes)
    return out


def _launch(
    batch: Tensors, settings: Settings, base_b: torch.Tensor, out: torch.Tensor, memory_bytes: int
) -> None:
    """Enqueue the three kernels, which fill `out`."""
    n_rows, n_columns = out.shape
    # [:] is the tensor itself, or the copy of a `HostRows`, which only the interpreter can meet.
    ids_bt, mask_bt = _matrix(batch.token_ids[:]), _matrix(batch.mask[:])
    base_b = base_b.contiguous()
    groups, queue = _groups(batch.rows.contiguous())
    kernels.survey_rows[(n_rows,)](
        ids_bt, mask_bt, batch.group_of.contiguous(), batch.correct.contiguous(), base_b, out,
        groups, n_columns, settings=settings, BLOCK=SURVEY_BLOCK, num_warps=4,
    )  # fmt: skip
    kernels.tabulate_groups[(n_rows,)](
        groups, settings=settings, BLOCK=TABULATE_BLOCK, num_warps=TABULATE_BLOCK // 32
    )
    taken = sum(tensor.nbytes for tensor in groups)
    n_programs, tables = _tables(n_rows, n_columns, out.device, max(0, memory_bytes - taken))
    kernels.score_groups[(n_programs,)](
        ids_bt, mask_bt, groups, base_b, out, out.view(torch.int32), queue, tables,
        n_rows, n_columns, settings=settings, BLOCK=BLOCK,
        num_warps=BLOCK // 32, num_stages=1, maxnreg=MAX_REGISTERS,
    )  # fmt: skip


def _matrix(tensor_bt: torch.Tensor) -> kernels.Matrix:
    if tensor_bt.dtype == torch.bool:
        tensor_bt = tensor_bt.view(torch.uint8)
    return kernels.Matrix(tensor_bt, *tensor_bt.stride())


def _groups(rows: torch.Tensor) -> tuple[kernels.Groups, torch.Tensor]:
    """Room for the survey and the memo, and the queue, a counter of the groups taken."""
    n_rows, device = len(rows), rows.device
    n_pairs = n_rows * kernels.MEMO_PER_ROLLOUT.value
    tallies = torch.zeros(n_rows + 1, 4, dtype=torch.int64, device=device)
    groups = kernels.Groups(
        rows=rows,
        reach=torch.empty(n_rows, dtype=torch.int32, device=device),
        starts=torch.full((n_rows + 1,), n_rows, dtype=torch.int32, device=device),
        tallies=tallies,
        memo=torch.empty(2 * n_pairs, dtype=torch.float64, device=device),
    )
    return groups, tallies[n_rows].view(torch.int32)


def _tables(
    n_rows: int, n_columns: int, device: torch.device, memory_bytes: int
) -> tuple[int, kernels.Table]:
    """The number of programs, and their tables.

    A table's capacity is a power of two, enough for all positions of the batch if `memory_bytes`
    allows it. Where it does not allow the smallest table for each program there are fewer programs,
    and one at least.
    """
    n_programs = 4  # in the interpreter
    if device.type == "cuda":
        multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
        n_programs = multiprocessors * PROGRAMS_PER_MULTIPROCESSOR
    smallest = 4 * BLOCK
    n_programs = max(1, min(n_programs, n_rows, memory_bytes // (smallest * SLOT_BYTES)))
    affordable = memory_bytes // n_programs // SLOT_BYTES
    useful = n_rows * n_columns * 4 // 3 + 2 * BLOCK
    capacity = smallest
    while 2 * capacity <= affordable and capacity < useful and capacity < 2**30:
        capacity *= 2

    def empty(per_slot: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(n_programs * capacity * per_slot, dtype=dtype, device=device)

    table = kernels.Table(
        slots=empty(1, torch.int64),
        last_entry=empty(1, torch.int32),
        counts=empty(2, torch.int64),
        terms=empty(1, torch.float32),
        capacity=capacity,
    )
    return n_programs, table


def _settings(config: KTAEConfig) -> Settings:
    return Settings(
        h1=float(config.h1),
        h2=float(config.h2),
        h3=float(config.h3),
        k1=float(config.k1),
        b_len=float(config.b_len),
        eps=float(config.eps),
        value_scale=1.0 / (config.h1 + config.h2) if config.normalize else 1.0,
        term_scale=float(config.term_scale),
        point=config.fisher == "point",
        ignored=config.ignore_token_ids,
    )
