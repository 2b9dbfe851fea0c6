"""The GPU backend: Triton kernels around one hash table a program, for CUDA devices.

The host never waits for the device: it knows shapes and the memory allowed, and everything else,
the number of groups included, stays there. `_triton_kernels` says how it is computed.
"""

from __future__ import annotations

import contextlib

import torch
import triton

from ktae.backends import _triton_kernels as kernels
from ktae.backends import _triton_survey as survey
from ktae.backends._torch_statistics import group_totals
from ktae.backends._triton_statistics import Settings
from ktae.backends.tensors import Tensors
from ktae.errors import InputError
from ktae.statistics import Formula

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

SCORE_SLOT_BYTES = 2 * 8
"""The same for graded scores, in addition."""


def credit(batch: Tensors, formula: Formula, *, memory_bytes: int) -> torch.Tensor:
    """(B, T) float32: each unmasked token's credit plus its rollout's base.

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
            settings = Settings(formula, batch.scores is not None, batch.ignored)
            _launch(batch, settings, out, memory_bytes)
    return out


def _launch(batch: Tensors, settings: Settings, out: torch.Tensor, memory_bytes: int) -> None:
    """Enqueue the three kernels, which fill `out`."""
    n_rows, n_columns = out.shape
    # [:] is the tensor itself, or the copy of a `HostRows`, which only the interpreter can meet.
    ids_bt, mask_bt = _matrix(batch.token_ids[:]), _matrix(batch.mask[:])
    base_b = batch.base.contiguous()
    groups = _groups(batch, settings.has_scores)
    group_of = batch.group_of.contiguous()
    survey.survey_rows[(n_rows,)](
        ids_bt, mask_bt, group_of, batch.correct.contiguous(), base_b, out,
        groups, n_columns, settings=settings, BLOCK=SURVEY_BLOCK, num_warps=4,
    )  # fmt: skip
    scores = batch.correct.double() if batch.scores is None else batch.scores
    own = scores.gather(0, groups.rows)
    totals = group_totals(group_of, own, groups.tokens, n_groups=n_rows)
    groups = groups._replace(totals=torch.stack(totals, dim=1))
    if not settings.has_scores:
        survey.tabulate_groups[(n_rows,)](
            groups, settings=settings, BLOCK=TABULATE_BLOCK, num_warps=TABULATE_BLOCK // 32
        )
    taken = sum(tensor.nbytes for tensor in groups)
    n_programs, tables = _tables(
        n_rows, n_columns, out.device, max(0, memory_bytes - taken), settings.has_scores
    )
    queue = torch.zeros(1, dtype=torch.int32, device=out.device)
    kernels.score_groups[(n_programs,)](
        ids_bt, mask_bt, groups, base_b, out, out.view(torch.int32), queue, tables,
        n_rows, n_columns, settings=settings, BLOCK=BLOCK,
        num_warps=BLOCK // 32, num_stages=1, maxnreg=MAX_REGISTERS,
    )  # fmt: skip


def _matrix(tensor_bt: torch.Tensor) -> survey.Matrix:
    if tensor_bt.dtype == torch.bool:
        tensor_bt = tensor_bt.view(torch.uint8)
    return survey.Matrix(tensor_bt, *tensor_bt.stride())


def _groups(batch: Tensors, has_scores: bool) -> survey.Groups:
    """Room for the survey and the memo."""
    rows = batch.rows.contiguous()
    n_rows, device = len(rows), rows.device
    n_pairs = 0 if has_scores else n_rows * survey.MEMO_PER_ROLLOUT.value
    nothing = torch.empty(1, dtype=torch.float64, device=device)
    return survey.Groups(
        rows=rows,
        reach=torch.empty(n_rows, dtype=torch.int32, device=device),
        starts=torch.full((n_rows + 1,), n_rows, dtype=torch.int32, device=device),
        tokens=torch.empty(n_rows, dtype=torch.int32, device=device),
        totals=nothing,  # once the survey is done
        scores=nothing if batch.scores is None else batch.scores.contiguous(),
        memo=torch.empty(2 * max(1, n_pairs), dtype=torch.float64, device=device),
    )


def _tables(
    n_rows: int, n_columns: int, device: torch.device, memory_bytes: int, has_scores: bool
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
    slot_bytes = SLOT_BYTES + (SCORE_SLOT_BYTES if has_scores else 0)
    n_programs = max(1, min(n_programs, n_rows, memory_bytes // (smallest * slot_bytes)))
    affordable = memory_bytes // n_programs // slot_bytes
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
        scores=empty(2 if has_scores else 0, torch.float64),
        credit=empty(1, torch.float32),
        capacity=capacity,
    )
    return n_programs, table
