"""Every backend against `naive`, the oracle, on awkward batches."""

import functools
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from by_backend import computed_by, credit_table, token_credit

import ktae
from ktae import backends
from ktae.backends import cpu
from ktae.estimators import KTAE, Estimator, Ignoring, PresenceZ, Scaled, preset

ESTIMATORS: dict[str, Estimator] = {
    "paper": preset("paper"),
    "released": Ignoring(preset("released"), (2, 5)),
    "point": Ignoring(KTAE(fisher="point"), (1,)),
    "mean lengths": Ignoring(KTAE(lengths="mean"), (1,), counted=True),
    "no_fisher": preset("no-fisher"),
    "no_information_gain": preset("no-ig"),
    "no_term_frequency": preset("no-tf"),
    "odd_numbers": KTAE(h1=0.3, h2=1.7, h3=0.01, k1=1.2, b_len=0.75, eps=1e-3),
    "z": Scaled(Ignoring(PresenceZ(), (1,)), 0.3),
    "graded": Ignoring(KTAE(graded_rewards=True, lengths="mean", fisher="float32"), (2,)),
    "graded point": preset("released", graded_rewards=True, fisher="point", h3=0.1),
    "sharp z": PresenceZ(sharp=True),
    "graded z": PresenceZ(graded_rewards=True),
}


class Rollouts(NamedTuple):
    """Arguments of `token_credit`."""

    token_ids: np.ndarray
    mask: np.ndarray
    correct: np.ndarray
    groups: np.ndarray


def rollouts(
    sizes: Sequence[int],
    n_columns: int,
    vocabulary: int = 60,
    *,
    largest_id: int | None = None,
    holes: float = 0.1,
    empty: float = 0.05,
    unknown: float = 0.1,
    shuffled: bool = True,
    seed: int = 0,
) -> Rollouts:
    """Groups of the given sizes; tokens fall off like Zipf's, correct and incorrect ones differ."""
    rng = np.random.default_rng(seed)
    n_rows = sum(sizes)
    correct = rng.integers(0, 2, n_rows)
    exponent = np.where(correct, 1.3, 1.1)[:, None]
    rank = (vocabulary * rng.random((n_rows, n_columns)) ** (3 * exponent)).astype(np.int64)
    ids = rank if largest_id is None else np.round(rank * (largest_id / (vocabulary - 1)))
    lengths = rng.integers(0, n_columns + 1, n_rows) * (rng.random(n_rows) >= empty)
    mask = (np.arange(n_columns) < lengths[:, None]) & (rng.random(ids.shape) >= holes)
    ids = np.where(mask, ids, rng.integers(-100, 2**40, ids.shape)).astype(np.int64)
    verdict = np.where(rng.random(n_rows) < unknown, np.nan, correct)
    groups = np.repeat(rng.permutation(1000)[: len(sizes)], sizes)
    order = rng.permutation(n_rows) if shuffled else np.arange(n_rows)
    return Rollouts(ids[order], mask[order], verdict[order], groups[order])


def graded(batch: Rollouts, estimator: Estimator) -> Rollouts:
    """The batch with scores where the estimator takes them: some rewards of a group alike, some 0
    and 1, and some groups of one reward alone."""
    if estimator.score_range is None:
        return batch
    known = np.nan_to_num(batch.correct)
    score = np.round(0.3 * known + 0.7 * np.random.default_rng(7).random(len(known)), 1)
    score = np.where(batch.groups % 5 == 0, 0.1, np.where(batch.groups % 3 == 0, known, score))
    if estimator.score_range != (0, 1):
        score = 20 * score - 7
    return batch._replace(correct=np.where(np.isnan(batch.correct), np.nan, score))


def distinct(n_tokens: int, n_rows: int = 4, seed: int = 0) -> Rollouts:
    """A group of so many distinct tokens, each of them twice, between two small groups."""
    rng = np.random.default_rng(seed)
    ids = np.concatenate([rng.permutation(n_tokens), rng.permutation(n_tokens)])
    n_columns = -(-len(ids) // n_rows)
    ids = np.pad(ids, (0, n_rows * n_columns - len(ids))).reshape(n_rows, n_columns) * 97
    small = rollouts([5, 5], n_columns, shuffled=False, seed=seed)
    return Rollouts(
        np.concatenate([small.token_ids[:5], ids, small.token_ids[5:]]),
        np.concatenate([small.mask[:5], np.ones_like(ids, dtype=bool), small.mask[5:]]),
        np.concatenate([small.correct[:5], np.arange(n_rows) % 2, small.correct[5:]]),
        np.repeat([0, 1, 2], [5, n_rows, 5]),
    )


BATCHES = {
    **{
        f"groups of {size}, T = {n_columns}": rollouts([size] * n, n_columns, seed=size)
        for size, n in ((1, 5), (2, 9), (3, 7), (47, 3))
        for n_columns in (1, 31, 123)
    },
    "sizes that differ": rollouts([1, 2, 3, 47, 16, 1, 8, 5], 31),
    "sorted": rollouts([16] * 4, 123, shuffled=False),
    "all known, full": rollouts([16] * 4, 40, empty=0, unknown=0, holes=0),
    "mostly unknown": rollouts([16] * 4, 40, unknown=0.8),
    "mostly empty": rollouts([16] * 4, 40, empty=0.8),
    "nothing at all": rollouts([3, 4], 17, empty=1),
    "two tokens": rollouts([16] * 6, 5, vocabulary=2),
    "ids to 2^31 - 1": rollouts([16] * 4, 123, vocabulary=500, largest_id=2**31 - 1),
    "ids that collide": rollouts([16] * 4, 123, vocabulary=500, largest_id=499 << 22),
    "largest memo": rollouts([126, 127, 128, 130], 31, unknown=0, empty=0),
    "300 rollouts": rollouts([300, 4, 301], 31),
    "1000 rollouts": rollouts([1000, 3], 9),
}


@functools.cache
def oracle(batch_name: str, estimator_name: str) -> np.ndarray:
    estimator = ESTIMATORS[estimator_name]
    return token_credit(*graded(BATCHES[batch_name], estimator), estimator, backend="naive")


def assert_same_credit(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.dtype == np.float32
    assert not np.signbit(got[got == 0]).any(), "-0.0"
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)  # float32


@pytest.mark.parametrize("name", BATCHES)
def test_credit(fast_backend: str, name: str) -> None:
    for estimator_name, estimator in ESTIMATORS.items():
        batch = graded(BATCHES[name], estimator)
        got = token_credit(*batch, estimator, backend=fast_backend)
        assert_same_credit(got, oracle(name, estimator_name))


@pytest.mark.parametrize("name", BATCHES)
def test_table(name: str) -> None:
    for estimator in ESTIMATORS.values():
        arguments = (*graded(BATCHES[name], estimator), estimator)
        expected = credit_table(*arguments, backend="naive")
        for column, got, wanted in zip(
            expected._fields, credit_table(*arguments), expected, strict=True
        ):
            assert got.dtype == wanted.dtype, column
            assert not np.signbit(got[got == 0]).any() or column == "direction", "-0.0"
            close = {"rtol": 1e-9, "atol": 1e-12} if got.dtype == np.float64 else {"rtol": 0}
            np.testing.assert_allclose(got, wanted, **close, err_msg=f"{estimator}: {column}")


def test_batches_are_not_trivial() -> None:
    """Agreement on zeros and saturated credit would say little."""
    for name, batch in BATCHES.items():
        credit = np.abs(oracle(name, "paper"))
        if not name.startswith("groups of 1,") and name != "nothing at all":
            assert np.count_nonzero(credit) >= min(10, 0.1 * batch.mask.size), name
        if max(np.unique(batch.groups, return_counts=True)[1]) >= 16 and batch.mask.size > 100:
            assert np.count_nonzero((credit > 0) & (credit < 0.45)) >= 10, name


@pytest.mark.parametrize(
    ("n_tokens", "name"),
    [(4095, "paper"), (4097, "released"), (8193, "paper"), (20001, "released"), (40000, "point")],
)
def test_many_distinct_tokens(fast_backend: str, n_tokens: int, name: str) -> None:
    """More than any table starts with; the groups before and after must not notice."""
    batch, estimator = distinct(n_tokens), ESTIMATORS[name]
    expected = token_credit(*batch, estimator, backend="naive")
    assert_same_credit(token_credit(*batch, estimator, backend=fast_backend), expected)


@pytest.fixture(scope="module")
def large() -> Rollouts:
    """2.4 million positions: enough for a backend to divide it between threads."""
    return rollouts([16] * 200, 750, vocabulary=5000, seed=8)


def test_large_batch(fast_backend: str, large: Rollouts) -> None:
    """The rows of some of its groups against the oracle, which would take long for all of it."""
    credit = token_credit(*large, backend=fast_backend)
    rows = np.isin(large.groups, np.unique(large.groups)[::20])
    expected = token_credit(*(array[rows] for array in large), backend="naive")
    np.testing.assert_allclose(credit[rows], expected, rtol=0, atol=1e-6)  # float32
    assert np.count_nonzero(credit) > 500_000


def test_threads_that_call_at_once() -> None:
    """As a trainer's loader threads may: results are those of one call after the other."""
    batches = [rollouts([16, 47, 300, 3], 123, vocabulary=9000, seed=i) for i in range(4)]
    expected = [token_credit(*batch) for batch in batches]
    with computed_by("cpu"), ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda i: ktae.token_credit(*batches[i % 4]), range(24)))
    for i, credit in enumerate(got):
        np.testing.assert_array_equal(credit, expected[i % 4])


ALONE = """
import sys, torch
from ktae import token_credit
from test_agreement import rollouts
before = torch.get_num_threads()
credit = token_credit(*rollouts([16] * 200, 750, vocabulary=5000, seed=8))
assert torch.get_num_threads() == before == 1
sys.stdout.buffer.write(credit.tobytes())
"""


def test_in_a_process_of_its_own(large: Rollouts) -> None:
    """The number of threads changes nothing, and torch keeps its own number: numba's thread pool,
    once started, would set OpenMP's threads for the process, which then cannot fork any more."""
    pytest.importorskip("torch")
    here = Path(__file__).parent
    paths = [str(here), str(here.parent / "helpers"), os.environ.get("PYTHONPATH", "")]
    environment = {"NUMBA_NUM_THREADS": "2", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        env=os.environ | environment | {"PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout == token_credit(*large).tobytes()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_in_a_forked_process(large: Rollouts) -> None:
    """As torch's data loaders and Ray's workers are, after the parent has computed in threads."""
    expected = token_credit(*large)
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def child(sender: Any) -> None:
        sender.send(np.array_equal(token_credit(*large), expected))

    process = multiprocessing.get_context("fork").Process(target=child, args=(sender,))
    process.start()
    sender.close()  # so that a child that dies ends the waiting
    try:
        assert receiver.poll(60), "the child has not answered"
        assert receiver.recv()
    finally:
        process.kill()
        process.join()


def test_the_first_tokens_of_a_process_wait_for_no_compiler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that come later get the same credit, to the bit, from the compiled backend."""
    batch = BATCHES["sizes that differ"]
    monkeypatch.setattr(backends, "_positions", 0)
    monkeypatch.setattr(backends, "FIRST_POSITIONS", batch.mask.size)
    with mock.patch.object(cpu, "credit", wraps=cpu.credit) as compiled:
        first = ktae.token_credit(*batch)
        assert not compiled.called
        np.testing.assert_array_equal(ktae.token_credit(*batch), first)
        assert compiled.called
