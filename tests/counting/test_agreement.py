"""Every backend against `naive`, the oracle, on awkward batches."""

import functools
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from awkward_batches import BATCHES, ESTIMATORS, Rollouts, distinct, graded, rollouts
from by_backend import computed_by, credit_table, token_credit

import ktae
from ktae.batch import make_batch
from ktae.counting import compiled
from ktae.tables import in_tables


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


@pytest.mark.parametrize("estimator_name", ["released", "graded z", "sharp z", "trigrams"])
@pytest.mark.parametrize("name", ["sizes that differ", "ids to 2^31 - 1", "mostly empty"])
def test_chunks_change_nothing(
    fast_backend: str, name: str, estimator_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "CHUNK_POSITIONS", 64)
    monkeypatch.setattr("ktae.counting.tensors.MEMORY_BYTES", 200_000)
    batch = graded(BATCHES[name], ESTIMATORS[estimator_name])
    got = token_credit(*batch, ESTIMATORS[estimator_name], backend=fast_backend)
    assert_same_credit(got, oracle(name, estimator_name))


@pytest.mark.parametrize("name", ["paper", "released", "z", "n-grams", "backoff"])
def test_unknown_rollouts_that_are_looked_up(name: str) -> None:
    """They get what the reference gives them, and known ones what they always get."""
    batch, looked_up = make_batch(*BATCHES["mostly unknown"]), {}
    for backend in ("cpu", "naive"):
        with computed_by(backend):
            looked_up[backend] = ESTIMATORS[name].credit(batch._replace(look_up_unknown=True))
    got, known = looked_up["cpu"], batch.known()
    assert_same_credit(got, looked_up["naive"])
    plain = token_credit(*BATCHES["mostly unknown"], ESTIMATORS[name])
    np.testing.assert_array_equal(got[known], plain[known])
    assert np.any(got[~known]) and not plain[~known].any()


@pytest.mark.parametrize("name", BATCHES)
def test_table(name: str) -> None:
    for estimator in filter(in_tables, ESTIMATORS.values()):
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
        got = list(pool.map(lambda i: ktae.token_credit(*batches[i % 4], "paper"), range(24)))
    for i, credit in enumerate(got):
        np.testing.assert_array_equal(credit, expected[i % 4])


ALONE = """
import sys, torch
from ktae import token_credit
from awkward_batches import rollouts
before = torch.get_num_threads()
credit = token_credit(*rollouts([16] * 200, 750, vocabulary=5000, seed=8), "paper")
assert torch.get_num_threads() == before == 1
sys.stdout.buffer.write(credit.tobytes())
"""


def test_in_a_process_of_its_own(large: Rollouts) -> None:
    """The number of threads changes nothing, and torch keeps its own number: numba's thread pool,
    once started, would set OpenMP's threads for the process, which then cannot fork any more."""
    helpers = Path(__file__).parents[1] / "helpers"
    paths = [str(helpers), os.environ.get("PYTHONPATH", "")]
    environment = {"NUMBA_NUM_THREADS": "2", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        env=os.environ | environment | {"PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE, timeout=120, check=True,
    )  # fmt: skip
    expected = token_credit(*large)
    np.testing.assert_array_equal(np.frombuffer(done.stdout, expected.dtype), expected.ravel())


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
