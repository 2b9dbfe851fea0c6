"""What only the CPU backend has: group numbers in its hash table, and a bound on its memory."""

import subprocess
import sys

import numpy as np
import pytest

from ktae import key_token_values
from ktae.backends import _cpu_kernels as kernels


def test_group_numbers_are_used_again_only_in_a_cleared_table() -> None:
    """With 30 bits for indices, 3 are left for the group: 7 groups, then the table is cleared."""
    space = kernels.Workspace(30, np.zeros(8, dtype=np.uint64), *[np.zeros(1)] * 4)
    stamps = []
    for g in range(20):
        space.table[0] = 1 + g
        stamp = kernels._stamp.py_func(g, space)
        stamps.append(int(stamp))
        assert space.table[0] == (0 if g in (7, 14) else 1 + g)
    assert stamps == [1 + g % 7 for g in range(20)]


def test_groups_share_no_token_of_another_group() -> None:
    """Twice the same tokens, more groups than a table of the smallest size takes at first."""
    ids = np.tile(np.arange(1, 700), (4, 1))
    ids[0, :10] = 5000 + np.arange(10)
    batch = (np.ones_like(ids), [1, 0, 1, 0], [0] * 4)
    once = key_token_values(ids, *batch)
    ids, mask = np.tile(ids, (300, 1)), np.ones((1200, 699), dtype=bool)
    groups = np.repeat(np.arange(300), 4)
    many = key_token_values(ids, mask, np.tile([1, 0, 1, 0], 300), groups)
    np.testing.assert_array_equal(many, np.tile(once, (300, 1)))


MEMORY = """
import resource, sys
import numpy as np
import ktae

rng = np.random.default_rng(0)
rows, backend, memory_bytes = int(sys.argv[1]), sys.argv[5], int(sys.argv[6])
group_size = int(sys.argv[7])
ids = rng.integers(0, 50_000, (rows, 3072), dtype=sys.argv[2])
mask = np.ones(ids.shape, dtype=sys.argv[3])
if sys.argv[4] == "strided":
    ids, mask = np.asfortranarray(ids), np.asfortranarray(mask)
if sys.argv[4] == "read-only":
    ids.flags.writeable = mask.flags.writeable = False
correct, groups = rng.integers(0, 2, rows), np.arange(rows) // group_size
bound = {"backend": backend, "memory_bytes": memory_bytes}
ktae.key_token_values(ids[:64], mask[:64], correct[:64], groups[:64], **bound)


def peak():
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file)
    return int(status["VmHWM"].split()[0]) * 1024


with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak from here on
before = peak()
out = ktae.key_token_values(ids, mask, correct, groups, **bound)
print(peak() - before - out.nbytes)
"""


def extra_bytes(
    rows: int, *form: str, backend: str = "cpu", memory_bytes: int = 0, group_size: int = 16
) -> int:
    """Peak memory of a call beyond what was there before it and the output."""
    arguments = [rows, *form, backend, memory_bytes, group_size]
    command = [sys.executable, "-c", MEMORY, *map(str, arguments)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_extra_memory_is_bounded_whatever_the_batch() -> None:
    """Beyond the output: tables for each thread, and one chunk of what has to be converted."""
    for form in (("int32", "bool", "contiguous"), ("int64", "float32", "strided")):
        assert extra_bytes(4096, *form) < 64e6, form
