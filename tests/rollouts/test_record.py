import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ktae import InputError
from ktae.padding import pad
from ktae.rollouts import groups, readers, record

ROWS = [
    {
        "group": "g",
        "step": 3,
        "prompt": "1 + 1?",
        "response": "it is 2",
        "answer": "2",
        "token_ids": [5, 0, 2**31 - 1],
        "mask": [True, False, True],
        "reward": 1.0,
        "correct": 1.0,
        "advantage": 0.5,
        "credit": [0.25, 0.0, -0.5],
        "model": "m",
        "source": "here",
        "extra": '{"note": 1}',
    },
    {"group": "g", "response": "", "reward": -1.5, "correct": None},
    {"group": "h", "token_ids": [], "credit": [], "reward": 0.0, "correct": 0.0},
]


def rows(*changes):
    return pa.Table.from_pylist([ROWS[0] | change for change in changes])


def test_what_is_written_is_read(tmp_path):
    table = pa.Table.from_pylist(ROWS, schema=record.SCHEMA)
    record.write(table.replace_schema_metadata({"ktae.credit": "{}"}), tmp_path / "r.parquet")
    read = pq.read_table(tmp_path / "r.parquet")
    assert read.to_pylist() == table.to_pylist()
    assert read.schema.types == record.SCHEMA.types
    assert read.schema.metadata[record.VERSION_KEY] == b"3"
    assert read.schema.metadata[b"ktae.credit"] == b"{}"
    assert [path.name for path in tmp_path.iterdir()] == ["r.parquet"]


def test_absent_columns_are_null_and_nan_is_unknown():
    nan = float("nan")
    bare = {"group": ["a"] * 2, "token_ids": [[1, 2]] * 2, "reward": [1, nan], "correct": [nan, 0]}
    table = record.conform(pa.table(bare))
    value = {"group": "a", "token_ids": [1, 2]}
    assert table.to_pylist() == [
        dict.fromkeys(record.SCHEMA.names) | value | {"reward": 1.0},
        dict.fromkeys(record.SCHEMA.names) | value | {"correct": 0.0},
    ]


@pytest.mark.parametrize(
    ("table", "place"),
    [
        (rows({}).drop_columns("reward"), "'reward'"),
        (rows({}).append_column("logprob", [[0.0]]), "'logprob'"),
        (rows({}, {"group": None}), "row 2: group"),
        (rows({}, {"reward": float("inf")}), "row 2: reward"),
        (rows({"token_ids": [2**31, 1, 2]}), "'token_ids'"),
        (rows({}, {"token_ids": None, "credit": None}), "row 2: mask"),
        (rows({}, {"token_ids": None, "response": None}), "row 2: .*response"),
    ],
)
def test_a_table_that_is_no_record_is_not_written(table, place, tmp_path):
    with pytest.raises(InputError, match=place):
        record.write(table, tmp_path / "r.parquet")
    assert not list(tmp_path.iterdir())


def test_another_version_is_refused(tmp_path):
    path = tmp_path / "r.parquet"
    pq.write_table(rows({}).replace_schema_metadata({record.VERSION_KEY: "9"}), path)
    with pytest.raises(InputError, match=r"r\.parquet"):
        readers.read(path)


def test_pad_awkward_lengths():
    lists = [np.arange(3, dtype=np.int32), [], list(range(47)), [2**31 - 1]]
    ids_bt, mask_bt = pad(lists)
    assert ids_bt.shape == mask_bt.shape == (4, 47)
    assert ids_bt.dtype == np.int32 and mask_bt.dtype == bool
    for ids, row, mask in zip(lists, ids_bt, mask_bt, strict=True):
        assert row[mask].tolist() == list(ids)
        assert mask[: len(ids)].all() and not row[len(ids) :].any()


def test_rows_of_a_chunked_table_in_any_order():
    values = [list(range(i % 4)) for i in range(20)]
    chunks = [
        pa.table({"x": values[i : i + 6], "n": range(i, min(20, i + 6))}) for i in range(0, 20, 6)
    ]
    table = pa.concat_tables(chunks)
    lists = groups.arrays_of(table.slice(3)["x"])
    assert len(lists) == 17
    assert [x.tolist() for x in lists] == values[3:]
    for rows in ([], [4], [5, 6, 7], [19, 0, 6, 5], [3, 3, 12]):
        assert groups.take_rows(table, np.array(rows, dtype=int))["n"].to_pylist() == rows


def test_one_label_in_two_steps_is_two_groups():
    rows = [
        {"group": group, "step": step, "response": "r", "reward": 1.0}
        for step in (7, 3)
        for group in ("a", "b", "a")
    ]
    codes, first = groups.group_codes(record.conform(pa.Table.from_pylist(rows)))
    assert codes.tolist() == [0, 1, 0, 2, 3, 2] and first.tolist() == [0, 1, 3, 4]
