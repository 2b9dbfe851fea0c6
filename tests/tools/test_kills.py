"""The check that kills commands: what it takes for the same, for left over and for lost."""

import gzip
import json
import sys

import kills
import pytest
from kills_commands import At, Seen, Study, Train
from kills_compare import differing, leftovers


@pytest.fixture
def folders(tmp_path):
    for name, seconds in (("a", 1.5), ("b", 2.5)):
        folder = tmp_path / name
        (folder / "model").mkdir(parents=True)
        (folder / "model/weights").write_bytes(b"\0\1")
        line = {"step": 1, "loss": 0.5, "credit/seconds": seconds}
        (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")
        (folder / "results.json").write_text(json.dumps({"runs": [{"attempts": seconds}]}))
        rows = f"run,value,process_seconds\ngrpo,1,{seconds}\n"
        (folder / "runs.csv.gz").write_bytes(gzip.compress(rows.encode(), mtime=int(seconds)))
        (folder / "run.log").write_text(str(seconds))
    return tmp_path / "a", tmp_path / "b"


def test_times_and_attempts_are_left_out(folders):
    assert differing(*folders) == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model/weights", b"\0\2"),
        ("model/more", b""),
        ("metrics.jsonl", b'{"step": 1, "loss": 0.25}\n'),
        ("results.json", b'{"runs": []}'),
        ("runs.csv.gz", gzip.compress(b"run,value\ngrpo,2\n", mtime=0)),
    ],
)
def test_all_else_is_compared(folders, name, content):
    (folders[1] / name).write_bytes(content)
    assert differing(*folders) == [name]
    (folders[1] / name).unlink()
    assert differing(*folders) == ([] if name == "model/more" else [name])


def test_leftovers_are_hidden_and_no_locks(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/.lock").write_text("")
    (tmp_path / "runs/.seed0.json.x").write_text("")
    assert leftovers(tmp_path) == ["runs/.seed0.json.x"]


def test_steps_that_a_resumed_run_makes_again_are_lost(tmp_path):
    train, log = Train("train", "recipe.yaml", "summary.json", "steps"), tmp_path / "log"
    log.write_text("ktae: going on after step 2, from run/checkpoints/checkpoint-4\n")
    assert train.resumed(tmp_path, Seen("step 4", 3, over=False), log) == ("step 2", 1)
    log.write_text("ktae: beginning at step 1\n")
    assert train.resumed(tmp_path, Seen("step 2", 1, over=False), log) == ("step 0", 1)


def test_of_a_study_the_run_counts_that_was_under_way(tmp_path):
    study, run = (
        Study("study", "announced.json", "results.json", "steps", goes_on=True),
        tmp_path / "seed0",
    )
    (tmp_path / "seed0.log").write_text("going on after step 8\ngoing on after step 2\n")
    (tmp_path / "seed0.json").write_text('{"attempts": 2}')
    before = Seen("step 4", 7, over=False, under_way={run: At(1, 22, 3)})
    assert study.resumed(tmp_path, before, tmp_path / "log") == ("step 2", 1)
    went_on = Seen("step 4", 7, over=False, under_way={run: At(2, 22, 3)})
    assert study.resumed(tmp_path, went_on, tmp_path / "log").lost == 0


PARENT = """
import pathlib, subprocess, sys, time
child = [sys.executable, "-c", "import time; time.sleep(100)"]
subprocess.Popen(child, start_new_session=sys.argv[1] == "own")
pathlib.Path("first").touch()
time.sleep(100)
"""


@pytest.mark.parametrize(("session", "left"), [("own", 1), ("same", 0)])
def test_a_process_that_outlives_its_group_is_found(tmp_path, monkeypatch, session, left):
    monkeypatch.setattr(kills, "PATIENCE", 0.2)
    command = [sys.executable, "-c", PARENT, session]
    started = kills.Started(command, first=tmp_path / "first", log=tmp_path / "log")
    started.wait_for_first_file()
    started.kill(everything=False)
    assert len(started.left_behind()) == left
    assert started.left_behind() == []


def test_everything_is_killed(tmp_path):
    command = [sys.executable, "-c", PARENT, "own"]
    started = kills.Started(command, first=tmp_path / "first", log=tmp_path / "log")
    started.wait_for_first_file()
    started.kill(everything=True)
    assert started.left_behind() == []
