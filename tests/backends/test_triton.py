"""The Triton kernels against `naive`: in Triton's interpreter on the CPU, and on a GPU if there is
one. Triton reads TRITON_INTERPRET when it is imported, so the interpreter has a process of its own.
"""

import contextlib
import functools
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_agreement import ESTIMATORS, Rollouts, graded, rollouts

from ktae import token_credit
from ktae.backends import BACKENDS, naive
from ktae.batch import Batch, Context, make_batch
from ktae.errors import InputError

if BACKENDS["triton"].missing() and "not installed" in BACKENDS["triton"].missing():
    pytest.skip(BACKENDS["triton"].missing(), allow_module_level=True)

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ktae.backends import _triton_kernels as kernels
from ktae.backends import _triton_survey as survey
from ktae.backends import triton as backend
from ktae.backends._triton_statistics import Settings
from ktae.backends.tensors import Tensors
from ktae.estimators import KTAE, Estimator

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
MEMORY = 2**24

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def on_arrays(batch: Rollouts, estimator: Estimator, context: Context) -> Batch:
    return make_batch(*batch, score_range=estimator.score_range, context=context)


def tensors(
    batch: Rollouts, estimator: Estimator = ESTIMATORS["paper"], memory_bytes: int = MEMORY
) -> Tensors:
    """The batch as the kernels get it: sorted out, its token ids unchecked."""
    context = Context(functools.partial(backend.credit, memory_bytes=memory_bytes))
    arrays = on_arrays(batch, estimator, context)
    group_of = np.repeat(np.arange(len(arrays.group_ids)), np.diff(arrays.starts))
    columns = (arrays.token_ids, arrays.mask, arrays.correct, arrays.scores, arrays.rows, group_of)
    return Tensors(
        *(x if x is None else torch.from_numpy(np.ascontiguousarray(x)) for x in columns),
        base=torch.from_numpy(arrays.base),
        context=context,
    )


def assert_agrees(
    batch: Rollouts, estimator: Estimator, *, memory_bytes: int = MEMORY, **replaced: torch.Tensor
) -> None:
    """`replaced` are tensors of the batch in another form."""
    base = np.random.default_rng(len(batch.groups)).normal(size=len(batch.groups))
    arrays = on_arrays(batch, estimator, Context(naive.credit))
    expected = estimator.credit(arrays._replace(base=base))
    given = tensors(batch, estimator, memory_bytes)
    given = given._replace(**(replaced | {"base": torch.from_numpy(base)}))
    got = estimator.credit(given)
    assert got.dtype == torch.float32 and got.is_contiguous()
    np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=1e-6)  # float32
    assert torch.all(got[~given.mask.bool()] == 0)


class TestInInterpreter:
    __test__ = INTERPRETED

    @pytest.mark.parametrize("n_columns", [1, 31, 123])
    def test_awkward_shapes(self, n_columns: int) -> None:
        batch = rollouts([1, 2, 3, 47], n_columns, seed=n_columns)
        assert_agrees(batch, ESTIMATORS["paper"])

    @pytest.mark.parametrize("name", list(ESTIMATORS))
    def test_estimators(self, name: str) -> None:
        batch = rollouts([4, 1, 12], 31, seed=3)
        assert_agrees(graded(batch, ESTIMATORS[name]), ESTIMATORS[name])

    @pytest.mark.parametrize("options", [{"empty": 0.8}, {"unknown": 0.8}, {"empty": 1.0}])
    def test_mostly_empty_or_unknown(self, options: dict[str, float]) -> None:
        assert_agrees(rollouts([6, 9, 5], 17, **options), ESTIMATORS["released"])

    def test_more_than_256_rollouts(self) -> None:
        assert_agrees(rollouts([2, 257], 2, vocabulary=24, empty=0.4), ESTIMATORS["paper"])

    @pytest.mark.parametrize("name", ["released", "point"])
    def test_groups_too_large_for_the_memo(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(survey, "MEMO_PER_ROLLOUT", triton.language.constexpr(2))
        assert_agrees(rollouts([2, 17, 23], 9), ESTIMATORS[name])

    @pytest.mark.parametrize("largest_id", [2**31 - 1, 499 << 22])
    def test_large_and_colliding_ids(self, largest_id: int) -> None:
        batch = rollouts([16, 7], 123, vocabulary=500, largest_id=largest_id)
        assert_agrees(batch, ESTIMATORS["paper"])

    def test_nothing(self) -> None:
        for shape in ((0, 5), (5, 0)):
            n_rows = shape[0]
            batch = Rollouts(
                np.zeros(shape, np.int64),
                np.zeros(shape, bool),
                np.ones(n_rows),
                np.ones(n_rows, int),
            )
            assert_agrees(batch, ESTIMATORS["paper"])

    def test_rows_longer_than_a_block(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Tokens that recur in another block of the same rollout count one rollout."""
        monkeypatch.setattr(backend, "BLOCK", 16)
        monkeypatch.setattr(backend, "SURVEY_BLOCK", 16)
        monkeypatch.setattr(backend, "TABULATE_BLOCK", 16)
        assert_agrees(rollouts([5, 4, 2], 45, vocabulary=20), ESTIMATORS["released"])

    @pytest.mark.parametrize(
        ("memory_bytes", "name"), [(0, "released"), (64 * 32 * 2, "paper"), (2**20, "paper")]
    )
    def test_tables_that_are_too_small(
        self, memory_bytes: int, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All tokens differ: the table doubles, or the tokens are taken in parts."""
        monkeypatch.setattr(backend, "BLOCK", 16)
        ids = np.random.default_rng(0).permutation(5 * 41).reshape(5, 41) * 97
        batch = Rollouts(ids, np.ones_like(ids, bool), np.arange(5) % 2, np.array([1, 1, 0, 1, 0]))
        assert_agrees(batch, ESTIMATORS[name], memory_bytes=memory_bytes)

    def test_dtypes_and_strides(self) -> None:
        batch = rollouts([3, 5, 2], 19, vocabulary=100)
        ids, mask = np.where(batch.mask, batch.token_ids, 0), batch.mask
        for id_type, mask_type in (
            (torch.int32, torch.float32),
            (torch.int16, torch.int64),
            (torch.uint8, torch.float64),
            (torch.int64, torch.uint8),
        ):
            assert_agrees(
                batch,
                ESTIMATORS["paper"],
                token_ids=torch.from_numpy(ids).to(id_type).t().contiguous().t(),
                mask=torch.from_numpy(np.repeat(mask, 2, axis=1)).to(mask_type)[:, ::2],
            )

    def test_invalid_ids_harm_no_other_group(self) -> None:
        batch = rollouts([6, 6], 31, shuffled=False)
        ids = batch.token_ids.copy()
        ids[6:] = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, ids[6:].shape)
        ids[6:, :3] = (-1, -(2**31), 2**32 - 1)
        got = KTAE().credit(tensors(batch._replace(token_ids=ids)))
        expected = token_credit(*batch, backend="naive")
        np.testing.assert_allclose(got[:6].numpy(), expected[:6], rtol=0, atol=1e-6)  # float32
        assert torch.all(got.isfinite())

    @pytest.mark.parametrize("name", ["released", "graded", "graded z"])
    def test_host_waits_for_nothing(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """None of the calls that copy from the device is made (the interpreter itself reads the
        memory by its address)."""
        batch = tensors(graded(rollouts([8, 8], 20), ESTIMATORS[name]), ESTIMATORS[name])
        with monkeypatch.context() as patched:
            for method in (
                *("item", "tolist", "cpu", "numpy", "nonzero", "unique", "to", "masked_select"),
                *("__bool__", "__int__", "__float__", "__index__", "__iter__", "__getitem__"),
            ):
                forbidden = _forbidden(method, getattr(torch.Tensor, method))
                patched.setattr(torch.Tensor, method, forbidden)
            for function in ("tensor", "as_tensor", "from_numpy"):
                forbidden = _forbidden(function, getattr(torch, function))
                patched.setattr(torch, function, forbidden)
            got = ESTIMATORS[name].credit(batch)
        assert torch.any(got != 0)


def _forbidden(name: str, allowed: Callable[..., Any]) -> Callable[..., Any]:
    """Raises, but for a slice with fixed bounds, which only makes a view."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if name == "__getitem__" and isinstance(args[1], int | slice):
            return allowed(*args, **kwargs)
        raise AssertionError(f"{name} makes the host wait for the device")

    return call


class TestCompiled:
    __test__ = not INTERPRETED

    def test_in_the_interpreter(self) -> None:
        """All of `TestInInterpreter`, in a process of its own."""
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__],
            env=os.environ | {"TRITON_INTERPRET": "1"},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert " passed" in done.stdout

    def test_needs_a_gpu(self) -> None:
        with pytest.raises(InputError, match=r"token_ids is on cpu; expected a CUDA device"):
            KTAE().credit(tensors(rollouts([3], 5)))

    @pytest.mark.parametrize(
        ("name", "has_scores"), [("released", False), ("graded", True), ("graded z", True)]
    )
    def test_compiles_for_hopper(
        self, name: str, has_scores: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """To machine code: Triton brings the assembler, and no GPU is needed.

        The interpreter accepts some Python that the compiler does not, and it knows no threads, so
        a barrier that the compiler dropped would show nowhere else.
        """
        monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
        seen: list[Settings] = []
        context = Context(
            lambda batch, formula: seen.append(Settings(formula, has_scores, batch.ignored))
        )
        ESTIMATORS[name].credit(on_arrays(rollouts([2], 3), ESTIMATORS[name], context))
        (settings,) = seen
        matrix = survey.Matrix("*i64", "i64", "i32")
        groups = survey.Groups("*i64", "*i32", "*i32", "*i32", "*fp64", "*fp64", "*fp64")
        table = kernels.Table("*i64", "*i32", "*i64", "*fp64", "*fp32", "i32")
        mask = matrix._replace(pointer="*u8")
        _compile(
            survey.survey_rows,
            (matrix, mask, "*i64", "*i8", "*fp64", "*fp32", groups, "i32"),
            {"settings": settings, "BLOCK": backend.SURVEY_BLOCK},
            num_warps=4,
        )
        _compile(
            survey.tabulate_groups,
            (groups,),
            {"settings": settings, "BLOCK": backend.TABULATE_BLOCK},
            num_warps=4,
        )
        score = _compile(
            kernels.score_groups,
            (matrix, mask, groups, "*fp64", "*fp32", "*i32", "*i32", table, "i32", "i32"),
            {"settings": settings, "BLOCK": backend.BLOCK},
            num_warps=backend.BLOCK // 32,
            num_stages=1,
            maxnreg=backend.MAX_REGISTERS,
        )
        n_barriers = len(re.findall(r"\b(?:ttg|gpu)\.barrier\b", score.asm["ttgir"]))
        assert n_barriers == inspect.getsource(kernels).count("tl.debug_barrier()") > 0

    @on_gpu
    @pytest.mark.parametrize("memory_bytes", [2**22, 2**26, 2**30])
    def test_many_distinct_tokens_on_the_gpu(self, memory_bytes: int) -> None:
        batch = rollouts([16, 300, 16, 64, 3], 3000, vocabulary=120_000, seed=3)
        expected = token_credit(*batch, backend="cpu")
        given = [torch.from_numpy(np.ascontiguousarray(array)).cuda() for array in batch]
        for _ in range(3):  # a race would not look the same every time
            got = token_credit(*given, backend="triton", memory_bytes=memory_bytes)
            np.testing.assert_allclose(got.cpu().numpy(), expected, rtol=0, atol=1e-6)  # float32


def _compile(kernel: Any, types: tuple[Any, ...], constants: dict[str, Any], **options: int) -> Any:
    signature = dict(zip(kernel.arg_names, types, strict=False))
    signature |= dict.fromkeys(constants, "constexpr")
    source = ASTSource(kernel, signature, constants)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert compiled.asm["cubin"]
    return compiled


@contextlib.contextmanager
def _host_must_not_wait() -> Iterator[None]:
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)
