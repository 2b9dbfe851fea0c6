"""What only compiled counting has: its hash table, a bound on its memory, and code kept on disk."""

import subprocess
import sys

import numba
import numpy as np
import oracle
import pytest
from by_backend import token_credit
from numba.core import caching

from ktae.counting import kernels


def test_groups_share_nothing() -> None:
    """Small and large groups in turns, some with too few tokens to remember a pair: each gets what
    it gets alone."""
    sizes = [140, 16, 8, 140, 3, 16, 8, 140, 16, 3] * 2
    groups = np.repeat(np.arange(len(sizes)), sizes)
    correct = np.concatenate([np.arange(n) % 2 for n in sizes])
    ids = np.random.default_rng(0).integers(0, 5000, (len(groups), 24))
    mask = np.arange(24) < np.where(groups % 5 == 4, 2, 24)[:, None]
    together = token_credit(ids, mask, correct, groups)
    for group in range(len(sizes)):
        own = groups == group
        batch = ids[own], mask[own], correct[own], groups[own]
        np.testing.assert_array_equal(together[own], token_credit(*batch))
        np.testing.assert_allclose(
            together[own], oracle.token_credit(*batch, "paper"), rtol=0, atol=1e-6
        )


@pytest.mark.parametrize("lengths", [[64] * 16, [30_000, 36_000]], ids=str)
def test_a_table_that_becomes_full_in_the_middle_of_a_group(lengths: list[int]) -> None:
    """Exactly half of its slots hold a key when rollouts are left to count; or the next rollout has
    more tokens than slots are free."""
    n, width = len(lengths), max(lengths)
    ids, mask = np.arange(n * width).reshape(n, width), np.arange(width) < np.c_[lengths]
    batch = ids, mask, np.arange(n) % 2, np.zeros(n, dtype=int)
    expected = oracle.token_credit(*batch, "paper")
    np.testing.assert_allclose(token_credit(*batch), expected, rtol=0, atol=1e-6)


MEMORY = """
import sys
import numpy as np
import ktae
rng = np.random.default_rng(0)
rows, width, group_size, vocabulary = map(int, sys.argv[1:5])
ids = rng.integers(0, vocabulary, (rows, width), dtype=sys.argv[5])
mask = np.ones(ids.shape, dtype=sys.argv[6])
if sys.argv[7] == "strided":
    ids, mask = np.asfortranarray(ids), np.asfortranarray(mask)
correct, groups = rng.integers(0, 2, rows), np.arange(rows) // group_size
ktae.token_credit(ids[:64], mask[:64], correct[:64], groups[:64], "paper")


def peak():
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file)
    return int(status["VmHWM"].split()[0]) * 1024


with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak from here on
before = peak()
out = ktae.token_credit(ids, mask, correct, groups, "paper")
print(peak() - before - out.nbytes)
"""


@pytest.mark.nightly
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    ("batch", "form", "bound"),
    [
        ((4096, 3072, 16, 50_000), ("int32", "bool", "plain"), 64e6),
        ((4096, 3072, 16, 50_000), ("int64", "float32", "strided"), 128e6),
        ((8192, 1024, 8192, 2**31), ("int32", "bool", "plain"), 2**30),
    ],
)
def test_extra_memory_is_bounded(
    batch: tuple[int, ...], form: tuple[str, ...], bound: float
) -> None:
    """Beyond the output: a chunk of what has to be converted, and a group's tables."""
    command = [sys.executable, "-c", MEMORY, *map(str, batch), *form]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < bound


def test_where_numba_finds_no_place_for_its_cache_functions_are_compiled_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(caching.CacheImpl, "__init__", refuse)
    assert kernels.jit(lambda x: x + 1)(1) == 2
    doubled = kernels.compiled(numba.vectorize, ["f8(f8)"])(lambda x: 2 * x)
    assert doubled(1.0) == 2
