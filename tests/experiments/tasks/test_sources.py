"""One source of problems, and the files of both engines."""

import gzip
import json
import sys
import types

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from in_process import ktae

from ktae.errors import InputError
from ktae.experiments.tasks import sources
from ktae.experiments.templates import INSTRUCTION, as_messages


def lines(path, rows):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


@pytest.mark.parametrize("name", ["p.jsonl.gz", "p.parquet"])
def test_a_file_as_source(tmp_path, capsys, name):
    path = tmp_path / name
    rows = [{"problem": "1 + 1?", "answer": 2}, {"problem": "2 + 2?", "answer": 4}]
    if name.endswith("parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        lines(path, rows)
    test = lines(tmp_path / "test.jsonl", [{"question": "3 + 3?", "answer": "so #### 6"}])
    out = tmp_path / "out"
    assert ktae("data", "prepare", path, "--test", test, "--output", out) == 0
    assert "2 train, 1 test problems" in capsys.readouterr().out
    train = pq.read_table(out / "trl" / "train.parquet").to_pylist()
    assert [row["answer"] for row in train] == ["2", "4"]
    assert train[0]["prompt"] == as_messages("1 + 1?", INSTRUCTION)
    [row] = pq.read_table(out / "verl" / "test.parquet").to_pylist()
    assert row["reward_model"]["ground_truth"] == "6" and row["data_source"] == "p"
    assert row["extra_info"] == {"split": "test", "index": 0}
    verl = pq.read_table(out / "verl" / "train.parquet").to_pylist()
    assert [row["prompt"] for row in verl] == [row["prompt"] for row in train], "in one order"


def test_named_sources_come_from_the_hub(tmp_path, monkeypatch):
    asked = []

    def load_dataset(name, config, split):
        asked.append((name, config))
        levels = [1, 3, 5, "Level 4", "Level ?"]
        rows = [{"problem": f"p{level}", "answer": "1", "level": level} for level in levels]
        rows += [{"problem": "none", "answer": answer, "level": 5} for answer in ("", None)]
        return rows if split == "train" else rows[:3]

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    everything, hard = sources.load("math12k"), sources.load("math-l3-5")
    assert [p.text for p in everything["train"].problems] == [
        f"p{level}" for level in (1, 3, 5, "Level 4", "Level ?")
    ]
    assert everything["train"].without_answer == hard["train"].without_answer == 2
    assert [p.text for p in hard["train"].problems] == ["p3", "p5", "pLevel 4"]
    assert [p.text for p in hard["test"].problems] == ["p3", "p5"]
    assert len({name for name, _ in asked}) == 1, "both are cut from one data set"


def test_problems_without_an_answer_are_left_out_and_counted(tmp_path):
    rows = [{"problem": "x", "answer": answer} for answer in ("1", "", None, float("nan"))]
    split = sources.load_file(lines(tmp_path / "p.jsonl", rows))
    assert (len(split.problems), split.without_answer) == (1, 3)


ROW = {"problem": "x", "answer": "1"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([1], "line 1"),
        ({"answer": "1"}, "line 1"),
        (ROW | {"answer": True}, "line 1: answer"),
        (ROW | {"answer": " "}, "p.jsonl"),
        (ROW | {"answer": ["1", "2"]}, "line 1: answer"),
        (ROW | {"problem": "\ud800"}, "line 1: problem"),
    ],
)
def test_bad_rows(tmp_path, row, message):
    path = lines(tmp_path / "p.jsonl", [row])
    with pytest.raises(InputError, match=message):
        sources.load_file(path)


def test_bad_arguments(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines(tmp_path / "p.jsonl", [ROW])
    for arguments, message in ((["nothing-there"], "gsm8k"), (["p.jsonl"], "--test")):
        assert ktae("data", "prepare", *arguments) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
