"""Dumps that do not fit in memory: the same record from a file that is mapped."""

import errno
import json

import numpy as np
import pyarrow as pa
import pytest

from ktae.errors import InputError
from ktae.rollouts import groups, readers, record, spool


def rows_of(n, label="g"):
    rng = np.random.default_rng(n)
    return [
        {
            "group": f"{label}{i % 7}",
            "step": i % 3,
            "response": "x" * 100,
            "reward": i % 2,
            "token_ids": rng.integers(0, 9, i % 11).tolist(),
            "mask": [True] * (i % 11),
        }
        for i in range(n)
    ]


@pytest.fixture
def folder(tmp_path):
    """Two files of JSON Lines, and a record that ktae has written."""
    for name, n in (("a", 2500), ("b", 30)):
        lines = "".join(json.dumps(row) + "\n" for row in rows_of(n))
        (tmp_path / f"{name}.jsonl").write_text(lines)
    record.write(readers.read([tmp_path / "a.jsonl"]), tmp_path / "own.parquet")
    return tmp_path


def test_what_lies_in_the_temporary_folder_is_the_same_record(folder, monkeypatch):
    inputs = [folder / "b.jsonl", folder / "own.parquet", folder / "a.jsonl"]
    in_memory = readers.read(inputs)
    written = []
    monkeypatch.setattr(spool, "IN_MEMORY", 100_000)
    monkeypatch.setattr(spool.Spool, "_written", recorded(spool.Spool._written, written))
    assert readers.read(inputs).equals(in_memory, check_metadata=True)
    assert len(written) > 3, "nothing was written"
    assert len(in_memory) == 5030


def recorded(method, calls):
    def record_call(self):
        calls.append(self)
        return method(self)

    return record_call


def test_a_full_temporary_folder_is_told(folder, monkeypatch):
    def full(**_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spool, "IN_MEMORY", 100_000)
    monkeypatch.setattr(spool.tempfile, "TemporaryFile", full)
    with pytest.raises(InputError, match=r"temporary folder .*: No space left .*TMPDIR"):
        readers.read([folder / "a.jsonl"])


def test_rows_of_a_chunked_table_in_any_order():
    values = [list(range(i % 4)) for i in range(20)]
    chunks = [
        pa.table({"x": values[i : i + 6], "n": range(i, min(20, i + 6))}) for i in range(0, 20, 6)
    ]
    table = pa.concat_tables(chunks)
    lists = groups.Lists(table.slice(3)["x"])
    assert len(lists) == 17
    assert [x.tolist() for x in lists] == values[3:] == [lists[i].tolist() for i in range(17)]
    for rows in ([], [4], [5, 6, 7], [19, 0, 6, 5], [3, 3, 12]):
        assert groups.take_rows(table, np.array(rows, dtype=int))["n"].to_pylist() == rows
    large = [np.array([7, 1 << 30, 7]), np.array([], dtype=int), np.array([0])]
    assert groups.distinct_ids(large).tolist() == [0, 7, 1 << 30]
