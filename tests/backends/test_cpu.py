"""What only the CPU backend has: group numbers in its hash table, a bound on its memory, and the
compiled kernels on disk."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_agreement import rollouts

from ktae import InputError, token_credit
from ktae.backends import _kernel_cache, cpu
from ktae.backends._cpu_statistics import _pairs_of, empty_memo
from ktae.backends._cpu_workspace import next_filling, workspace
from ktae.estimators import KTAE, PresenceZ


def test_fillings_are_numbered_anew_in_a_cleared_table() -> None:
    """With 30 bits for indices, 3 are left for the number: 7 fillings, then it is cleared."""
    space = workspace(n_groups=9, largest=2, width=1, bits=3, graded=False, with_cells=False)
    space = space._replace(bits=30)
    stamps = []
    for g in range(20):
        space.table[0] = 1 + g
        stamps.append(int(next_filling.py_func(space)))
        assert space.table[0] == (0 if g in (7, 14) else 1 + g)
    assert stamps == [1 + g % 7 for g in range(20)]


@pytest.mark.parametrize("estimator", ["paper", pytest.param("calibrated", marks=pytest.mark.slow)])
def test_pairs_that_other_groups_computed(estimator: str) -> None:
    """Small groups, whose pairs are kept, and large ones, whose pairs are not, in turns. Each gets
    what it gets alone, also where short rollouts hold too few tokens to remember a pair."""
    sizes = [140, 16, 8, 140, 3, 16, 8, 140, 16, 3] * 2
    groups = np.repeat(np.arange(len(sizes)), sizes)
    correct = np.concatenate([np.arange(n) % 2 for n in sizes])
    ids = np.random.default_rng(0).integers(0, 5000, (len(groups), 24))
    mask = np.arange(24) < np.where(groups % 5 == 4, 2, 24)[:, None]
    together = token_credit(ids, mask, correct, groups, estimator, backend="cpu")
    for group in range(len(sizes)):
        own = groups == group
        batch = ids[own], mask[own], correct[own], groups[own], estimator
        np.testing.assert_array_equal(together[own], token_credit(*batch, backend="cpu"))
        expected = token_credit(*batch, backend="naive")
        np.testing.assert_allclose(together[own], expected, rtol=0, atol=1e-6)


def test_what_the_memo_keeps() -> None:
    """In 36 entries: pairs of a group whose place is known, or free, or made by forgetting all."""
    memo = empty_memo(n_groups=3, largest=5)
    assert len(memo.values) == 36
    paper, z = KTAE().formula(1.0), PresenceZ().formula(1.0)
    calls = (
        (2, 3, paper, 0, False),
        (3, 2, paper, 12, False),
        (2, 3, paper, 0, True),
        (2, 2, z, 24, False),
        (2, 2, z, 24, False),
        (1, 6, paper, 0, False),  # larger than any whose pairs are kept, and there is no more room
        (2, 3, paper, 0, False),
    )
    for n_true, n_false, formula, begin, is_known in calls:
        n_pairs = (n_true + 1) * (n_false + 1)
        assert _pairs_of.py_func(n_true, n_false, n_pairs, formula, memo) == begin
        assert np.isnan(memo.values[begin, 0]) != is_known
        memo.values[begin] = 1.0
    assert np.argwhere(memo.begins).tolist() == [[2, 3]]


def test_groups_share_no_token_of_another_group() -> None:
    """Twice the same tokens, more groups than a table of the smallest size takes at first."""
    ids = np.tile(np.arange(1, 700), (4, 1))
    ids[0, :10] = 5000 + np.arange(10)
    batch = (np.ones_like(ids), [1, 0, 1, 0], [0] * 4)
    once = token_credit(ids, *batch)
    ids, mask = np.tile(ids, (300, 1)), np.ones((1200, 699), dtype=bool)
    groups = np.repeat(np.arange(300), 4)
    many = token_credit(ids, mask, np.tile([1, 0, 1, 0], 300), groups)
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
ktae.token_credit(ids[:64], mask[:64], correct[:64], groups[:64], **bound)


def peak():
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file)
    return int(status["VmHWM"].split()[0]) * 1024


with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak from here on
before = peak()
out = ktae.token_credit(ids, mask, correct, groups, **bound)
print(peak() - before - out.nbytes)
"""


def extra_bytes(
    rows: int, *form: str, backend: str = "cpu", memory_bytes: int = 0, group_size: int = 16
) -> int:
    """Peak memory of a call beyond what was there before it and the output."""
    arguments = [rows, *form, backend, memory_bytes, group_size]
    command = [sys.executable, "-c", MEMORY, *map(str, arguments)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_extra_memory_is_bounded_whatever_the_batch() -> None:
    """Beyond the output: tables for each thread, and one chunk of what has to be converted."""
    for form in (("int32", "bool", "contiguous"), ("int64", "float32", "strided")):
        assert extra_bytes(4096, *form) < 64e6, form


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_extra_memory_is_bounded_whatever_the_group() -> None:
    """One group of all rollouts: converted in slices, 111 MB if at once."""
    form = ("int64", "float32", "strided")
    extra_bytes(4096, *form, group_size=4096)  # perhaps compiles the kernel for slices
    assert extra_bytes(4096, *form, group_size=4096) < 64e6


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "POSITIONS_PER_CHUNK", 40)


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("vocabulary", [60, 30_000])
def test_slices_of_groups(vocabulary: int) -> None:
    """Groups that are converted slice by slice, and more tokens than the first table takes."""
    batch = rollouts([16, 1, 47, 300, 2, 5], 31, vocabulary)
    batch = batch._replace(correct=np.where(batch.groups == batch.groups[0], 1.0, batch.correct))
    expected = token_credit(*batch, backend="naive")
    given = np.asfortranarray(batch.token_ids), batch.mask.astype(np.float32)
    got = token_credit(*given, *batch[2:], backend="cpu")
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)  # float32


@pytest.mark.usefixtures("small_slices")
@pytest.mark.parametrize("in_turns", [False, True])
def test_first_bad_token_id_of_slices(in_turns: bool) -> None:
    """Also where the chunk's first group has one, and the second one an earlier row."""
    batch = rollouts([47, 300], 31, empty=0)
    ids = np.asfortranarray(np.where(batch.mask, batch.token_ids, 0))
    rows = np.flatnonzero(batch.mask.any(axis=1))[[20, 40, 200]]
    if in_turns:
        groups = np.ones(347, dtype=int)
        groups[[0, rows[1]]] = 0
        batch = batch._replace(groups=groups)
    for row in rows:
        ids[row, np.argmax(batch.mask[row])] = -7
    message = rf"token_ids\[{rows[0]}, {np.argmax(batch.mask[rows[0]])}\] is -7;"
    with pytest.raises(InputError, match=message):
        token_credit(ids, *batch[1:], backend="cpu")


def test_masks_anywhere_in_memory() -> None:
    """Padding is skipped 8 bytes at a time, which a mask that begins anywhere else cannot have."""
    batch = rollouts([16] * 4, 32)
    expected = token_credit(*batch, backend="cpu")
    for offset in range(8):
        memory = np.zeros(batch.mask.size + 8, dtype=bool)
        mask = memory[offset : offset + batch.mask.size].reshape(batch.mask.shape)
        mask[:] = batch.mask
        got = token_credit(batch.token_ids, mask, *batch[2:], backend="cpu")
        np.testing.assert_array_equal(got, expected)


KERNEL = """
from ktae.backends._kernel import jit

@jit
def plus_one(x):
    return x + 1
"""
CALL = """
import logging
logging.basicConfig(level=logging.{level}, format="%(name)s %(message)s")
logging.getLogger("numba").setLevel(logging.WARNING)
import kernel
print(kernel.plus_one(1))
"""


def run_with_cache(folder: Path, cache: Path, level: str = "WARNING") -> str:
    """What a process that uses one small kernel of this cache says on stderr."""
    (folder / "kernel.py").write_text(KERNEL)
    sources = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-B", "-c", CALL.format(level=level)],
        env=os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": sources},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "2\n"
    return done.stderr


@pytest.mark.slow
def test_where_no_cache_can_be_written_kernels_are_compiled_in_memory(tmp_path: Path) -> None:
    """Below a file there can be no folder, whoever asks."""
    (tmp_path / "file").write_text("")
    said = run_with_cache(tmp_path, tmp_path / "file" / "cache", "DEBUG")
    assert "ktae.backends._kernel_cache the CPU kernels are compiled in memory" in said


@pytest.mark.slow
def test_a_damaged_cache_is_said_once_and_mended(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert run_with_cache(tmp_path, cache) == ""
    kept = sorted(cache.rglob("*.nb[ci]"))
    assert len(kept) == 2
    for number, path in enumerate(kept):
        content = path.read_bytes()
        path.write_bytes(b"" if number % 2 else content[: len(content) // 2])
    damaged = run_with_cache(tmp_path, cache)
    assert damaged.count("cannot be read") == 1
    assert str(cache) in damaged
    assert run_with_cache(tmp_path, cache) == "", "the second process mended it"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_that_can_only_be_read_is_used(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    run_with_cache(tmp_path, cache)
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb[ci]")}
    for path in [cache, *cache.rglob("*")]:
        path.chmod(0o555)
    assert run_with_cache(tmp_path, cache) == ""
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb[ci]")} == kept


def test_a_full_disk_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: list[logging.LogRecord]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_kernel_cache, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(_kernel_cache.caching.IndexDataCacheFile, "save", full)
    monkeypatch.setattr(_kernel_cache, "_warned", [])
    for number in (1, 2):
        assert _kernel_cache.compiled(lambda x: x + 1)(number) == number + 1
    (record,) = logged
    assert "No space left" in record.getMessage() and str(tmp_path) in record.getMessage()


SLOW = """
import logging
import kernel
from ktae.backends import _kernel_cache
_kernel_cache.ANNOUNCED_AFTER = {after}
print(kernel.plus_one(1), kernel.plus_one(1.0))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("after", "lines"), [(0.0, 1), (1000.0, 0)])
def test_compiling_that_takes_long_is_announced_once(
    tmp_path: Path, after: float, lines: int
) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    sources = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": sources}
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", SLOW.format(after=after)],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == "2 2.0\n"
        said.append(done.stderr.count(str(tmp_path)))
    assert said == [lines, 0], "what is loaded is not announced"


def test_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named by the text of all that is compiled; the user's where the package cannot be written."""
    folder = _kernel_cache.cache_folder.__wrapped__
    monkeypatch.setattr(_kernel_cache.numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    (tmp_path / "__pycache__").write_text("")  # no folder can be made in its place
    monkeypatch.setattr(_kernel_cache, "BACKENDS", tmp_path)
    source = tmp_path / "statistics.py"
    monkeypatch.setattr(_kernel_cache, "SOURCES", (source,))
    assert folder() is None
    source.write_text("one = 1")
    first = folder()
    assert first.parent == tmp_path / "caches" / "ktae"
    source.write_text("one = 2")
    assert folder() != first
    (tmp_path / "__pycache__").unlink()
    assert folder().parent == tmp_path / "__pycache__"
    monkeypatch.setattr(_kernel_cache.numba.config, "CACHE_DIR", str(tmp_path / "mine"))
    assert folder().parent == tmp_path / "mine"


def test_sources_are_all_that_gets_compiled() -> None:
    compiled = (path for path in _kernel_cache.BACKENDS.glob("*.py") if "@jit" in path.read_text())
    assert {path.name for path in compiled} <= {path.name for path in _kernel_cache.SOURCES}
    assert all(source.is_file() for source in _kernel_cache.SOURCES)
