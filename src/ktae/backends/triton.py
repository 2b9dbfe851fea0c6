"""The GPU backend: Triton kernels around one hash table a program, for CUDA devices.

The host never waits for the device: it knows shapes and the memory allowed, and everything else,
the number of groups included, stays there. `_triton_kernels` says how it is computed.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import torch
import triton

from ktae.backends import _triton_kernels as kernels
from ktae.backends._triton_statistics import Settings
from ktae.backends.tensors import Tensors
from ktae.config import KTAEConfig
from ktae.errors import InputError

BLOCK = 1024
"""Tokens of a rollout that a program takes at a time. A quarter of a table must hold a block."""

MEMO_BLOCK = 256
"""Pairs (a, b) judged at a time: the formulas in float64 need many registers."""

N_WARPS = 8
PROGRAMS_PER_MULTIPROCESSOR = 3
"""One program's barriers are hidden by the others; more of them would press its table out of L2."""

SLOT_BYTES = 8 + 4 + 2 * 8 + 4
"""A table's slot with its token's last entry, two counts and term."""
MEMO_BYTES = 2 * 8 * kernels.PAIRS


class Scratch(NamedTuple):
    """The programs' memory, in the order of the kernel's parameters."""

    tables: torch.Tensor
    last_entries: torch.Tensor
    counts: torch.Tensor
    terms: torch.Tensor
    memos: torch.Tensor


def terms(
    batch: Tensors, config: KTAEConfig, base_b: torch.Tensor, *, memory_bytes: int
) -> torch.Tensor:
    """(B, T) float32: each unmasked token's term plus its rollout's `base_b`.

    Token ids out of range are not looked for; they count as some token.

    Raises:
        InputError: the batch is not on a GPU, and Triton does not interpret.
    """
    device = batch.token_ids.device
    if device.type != "cuda" and not triton.knobs.runtime.interpret:
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
    """Enqueue both kernels, which fill `out`."""
    n_rows, n_columns = out.shape
    mask = batch.mask.view(torch.uint8) if batch.mask.dtype == torch.bool else batch.mask
    inputs = (batch.token_ids, *batch.token_ids.stride(), mask, *mask.stride())
    rows, group_of = batch.rows.contiguous(), batch.group_of.contiguous()
    correct_b, base_b = batch.correct.contiguous(), base_b.contiguous()
    widths = torch.empty(n_rows, dtype=torch.int32, device=out.device)
    starts = torch.full((n_rows + 1,), n_rows, dtype=torch.int32, device=out.device)
    tallies_and_queue = torch.zeros(4 * n_rows + 1, dtype=torch.int64, device=out.device)
    tallies, queue = tallies_and_queue[:-1], tallies_and_queue[-1:].view(torch.int32)
    kernels.survey_rows[(n_rows,)](
        *inputs, rows, group_of, correct_b, base_b, out, widths, starts, tallies, n_columns,
        settings=settings, BLOCK=BLOCK, num_warps=4,
    )  # fmt: skip
    n_programs, n_slots = _sizes(n_rows, n_columns, out.device, memory_bytes)
    kernels.score_groups[(n_programs,)](
        *inputs, rows, correct_b, base_b, out, out.view(torch.int32), widths, starts, tallies,
        queue, *_scratch(n_programs, n_slots, out.device), n_slots, n_rows, n_columns,
        settings=settings, BLOCK=BLOCK, MEMO_BLOCK=MEMO_BLOCK, PAIRS=kernels.PAIRS,
        num_warps=N_WARPS, num_stages=1,
    )  # fmt: skip


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


def _sizes(n_rows: int, n_columns: int, device: torch.device, memory_bytes: int) -> tuple[int, int]:
    """Number of programs, and slots of each one's table.

    The slots are a power of two, enough for all positions of the batch if `memory_bytes` allows
    it. Where it does not allow the smallest table for each program there are fewer programs; one
    is the minimum, a quarter of a megabyte.
    """
    n_programs = 4  # in the interpreter
    if device.type == "cuda":
        multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
        n_programs = multiprocessors * PROGRAMS_PER_MULTIPROCESSOR
    smallest = 4 * BLOCK
    affordable = memory_bytes // (smallest * SLOT_BYTES + MEMO_BYTES)
    n_programs = max(1, min(n_programs, n_rows, affordable))
    affordable = (memory_bytes // n_programs - MEMO_BYTES) // SLOT_BYTES
    useful = n_rows * n_columns * 4 // 3 + 2 * BLOCK
    n_slots = smallest
    while 2 * n_slots <= affordable and n_slots < useful and n_slots < 2**30:
        n_slots *= 2
    return n_programs, n_slots


def _scratch(n_programs: int, n_slots: int, device: torch.device) -> Scratch:
    def empty(size: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(n_programs * size, dtype=dtype, device=device)

    return Scratch(
        tables=empty(n_slots, torch.int64),
        last_entries=empty(n_slots, torch.int32),
        counts=empty(2 * n_slots, torch.int64),
        terms=empty(n_slots, torch.float32),
        memos=empty(2 * kernels.PAIRS, torch.float64),
    )
