"""Files of all formats, whole and broken."""

import contextlib
import gzip
import json
import os
import re
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from saved_outputs import write_lines

from ktae import InputError
from ktae.rollouts import readers, record
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions

ROLLOUT = {"group": "g", "response": "it is 2", "reward": 1}


def read_rows(path, **options):
    """What was read, without the fields that are null."""
    rows = readers.read([path], ReadOptions(**options)).to_pylist()
    return [{k: v for k, v in row.items() if v is not None} for row in rows]


def test_every_format_reads_the_same(tmp_path):
    rows = [ROLLOUT | {"step": i, "note": f"n{i}"} for i in range(record.ROWS_PER_BATCH + 2)]
    plain = write_lines(tmp_path / "r.jsonl", rows)
    zipped = tmp_path / "r.jsonl.gz"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    parquet = tmp_path / "r.parquet"
    pq.write_table(pa.Table.from_pylist(rows), parquet)
    zipped_parquet = tmp_path / "r.parquet.gz"
    zipped_parquet.write_bytes(gzip.compress(parquet.read_bytes()))
    record_path = tmp_path / "own.parquet"
    record.write(readers.read([plain]), record_path)
    expected = read_rows(plain)
    assert len(expected) == len(rows)
    assert expected[-1]["extra"] == f'{{"note": "n{len(rows) - 1}"}}'
    for path in (zipped, parquet, zipped_parquet, record_path):
        assert read_rows(path) == expected, path


def test_parquet_of_pandas_has_nan_for_null(tmp_path):
    nan = float("nan")
    columns = {"group": [1, 1], "response": ["a", "b"], "reward": [1.0, 0.0]}
    columns |= {"correct": [1.0, nan], "step": [2.0, nan], "level": [Decimal("0.25"), Decimal("7")]}
    pq.write_table(pa.table(columns), tmp_path / "r.parquet")
    by_level = read_rows(tmp_path / "r.parquet", fields={"reward": "level"})
    assert [row["reward"] for row in by_level] == [0.25, 7]
    first, second = read_rows(tmp_path / "r.parquet")
    assert (first["group"], first["correct"], first["step"]) == ("1", 1.0, 2)
    assert second.keys().isdisjoint(["correct", "step"])


def test_columns_of_one_name(tmp_path):
    """Which of them is meant? A record is no exception."""
    path = tmp_path / "r.parquet"
    arrays = [pa.array(["a"]), pa.array(["b"]), pa.array([1.0])]
    table = pa.Table.from_arrays(arrays, names=["response", "response", "reward"])
    for metadata in (None, {record.VERSION_KEY: record.VERSION}):
        pq.write_table(table.replace_schema_metadata(metadata), path)
        with pytest.raises(InputError, match=r"r.parquet: .*'response'"):
            readers.read([path])


PARQUET = pa.BufferOutputStream()
pq.write_table(pa.Table.from_pylist([ROLLOUT] * 100), PARQUET)
PARQUET_BYTES = PARQUET.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("absent.jsonl", None, "absent.jsonl"),
        ("r.jsonl", b"\n \n", "r.jsonl"),
        ("r.txt", b"x", "r.txt"),
        ("r.jsonl", b'{"group": "\xff"}', "r.jsonl, line 1"),
        ("r.jsonl.gz", gzip.compress(b'{"group": 1}' * 99, mtime=0)[:-9], "r.jsonl.gz"),
        ("r.parquet", PARQUET_BYTES[:4] + b"\0" * 99 + PARQUET_BYTES[103:], "r.parquet"),
    ],
)
def test_a_bad_file_is_named(name, content, place, tmp_path):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=re.escape(str(tmp_path / place))) as caught:
        readers.read([tmp_path / name])
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_refused_and_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "r.jsonl")
    with pytest.raises(InputError, match=r"r.jsonl"):
        readers.read(tmp_path / "r.jsonl")


def test_a_column_of_csv_is_what_its_whole_says(tmp_path):
    """Also where a text is longer than a megabyte, which is how far Arrow's stream looks."""
    path = tmp_path / "r.csv"
    long = "x" * 2_000_000
    rows = [f"007,{long},1,1", "07,007,0,2", "07,c,0.5,later"]
    path.write_text("\ufefftask_id,said,correct,level\n" + "\n".join(rows))
    names = {"reward": "correct", "response": "said", "group": "task_id"}
    table = readers.read(path, ReadOptions(fields=names))
    assert table["group"].to_pylist() == ["007", "07", "07"]
    assert table["reward"].to_pylist() == [1, 0, 0.5]
    assert table["response"].to_pylist() == [long, "007", "c"]
    assert json.loads(table["extra"][1].as_py()) == {"level": "2"}
    path.write_text("group,response,reward\n1,a\n")
    with pytest.raises(InputError, match=r"r.csv"):
        readers.read(path)


def test_calls_of_parquet_have_no_arguments_of_others(tmp_path):
    called = [{"name": "run", "arguments": {"a": 1}}, {"name": "look", "arguments": {"b": 2}}]
    messages = [{"role": "assistant", "content": "", "tool_calls": called}]
    table = pa.Table.from_pylist([{"group": "g", "response": messages, "reward": 1.0}])
    pq.write_table(table, tmp_path / "r.parquet")
    said = readers.read(tmp_path / "r.parquet")["response"].to_pylist()
    assert said == ['run({"a": 1})\nlook({"b": 2})']


def test_of_files_of_one_name_the_first_with_rollouts_is_read(tmp_path):
    pq.write_table(pa.table({"metric": ["accuracy"]}), tmp_path / "results.parquet")
    for name in ("results.json", "results.jsonl", "results.jsonl.gz"):
        notes = Notes(strict=True)
        write_lines(tmp_path / name, [ROLLOUT])
        assert len(readers.read(tmp_path, notes=notes)) == 1
    assert notes.counts["files"] == 3


@pytest.mark.parametrize("name", ["r.jsonl", "r.json"])
@pytest.mark.parametrize(("depth", "is_read"), [(90, True), (110, False)])
def test_lists_within_lists_have_a_limit(tmp_path, name, depth, is_read):
    text = f'{{"group": "g", "response": "r", "reward": 1, "more": {"[" * depth}{"]" * depth}}}'
    (tmp_path / name).write_text(f"[{text}]" if name == "r.json" else text)
    with contextlib.nullcontext() if is_read else pytest.raises(InputError):
        assert len(readers.read([tmp_path / name])) == 1


@pytest.mark.parametrize("writer", [pa.ipc.new_stream, pa.ipc.new_file])
def test_arrow_as_a_stream_and_as_a_file(tmp_path, writer):
    table = pa.table({"prompt": ["a", "a"], "response": ["x", "y"], "reward": [1.0, 0.0]})
    with pa.OSFile(str(tmp_path / "r.arrow"), "wb") as sink, writer(sink, table.schema) as file:
        file.write_table(table)
    assert readers.read([tmp_path / "r.arrow"])["response"].to_pylist() == ["x", "y"]
