"""Runs as processes: none twice, none lost, failures counted. Training is faked."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time

import pytest
from small import DRIVE

from ktae.errors import InputError
from ktae_lab.study.folder import State


def drive(study, *more):
    """The study as a process of its own."""
    command = [sys.executable, DRIVE, study.path, study.output, *more]
    return subprocess.Popen(command, stderr=subprocess.PIPE)


def wait_for(condition, process=None):
    deadline = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None, process.stderr.read()
        time.sleep(0.02)


def has_steps(study, *names):
    files = [study.output / "runs" / name / "metrics.jsonl" for name in names]
    return all(file.exists() and file.read_text() for file in files)


def is_free(lock):
    with lock.open() as file, contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True


def record_of(study, name):
    return study.folder.record(next(cell for cell in study.cells if cell.name == name))


def test_every_cell_is_run_once_and_a_longer_matrix_adds_its_runs(make_study, starts):
    study = make_study(seeds=[1])
    assert study.run()
    assert starts() == ["grpo 1 start", "grpo-ktae 1 start"]
    assert set(study.states().values()) == {State.FINISHED}
    assert record_of(study, "grpo/seed1")["machine"]["cpu"]
    longer = make_study(seeds=[1, 2])
    assert longer.run(resume=True)
    assert len(starts()) == 4
    assert len(longer.ends) == 2
    changed = make_study(seeds=[1], overrides={"steps": 4})
    with pytest.raises(InputError, match=r"another recipe: steps \(3 there, 4 here\)"):
        changed.run(resume=True)
    assert len(starts()) == 4


def test_taken_and_missing_folders(make_study):
    study = make_study(seeds=[1])
    with pytest.raises(InputError, match="no study yet; `ktae-lab study MATRIX "):
        study.run(resume=True)
    study.output.mkdir()
    (study.output / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="is no empty folder"):
        study.run()
    (study.output / "letter.txt").unlink()
    (study.output / "runs").mkdir()  # what a start leaves that failed at once
    (study.output / "runs/.lock").touch()
    with study.folder.open(study.matrix, study.cells, resume=False):
        with pytest.raises(InputError, match="holds a study already; add --resume"):
            study.run()
        with pytest.raises(InputError, match="another `ktae-lab study` is at work in"):
            study.run(resume=True)


def test_a_failed_run_is_run_again_only_on_demand(make_study, starts, monkeypatch):
    study = make_study(seeds=[1])
    monkeypatch.setenv("FAKE_FAIL", "grpo/seed1")
    assert study.run()
    assert study.states() == {"grpo/seed1": State.FAILED, "grpo-ktae/seed1": State.FINISHED}
    lines = record_of(study, "grpo/seed1")["error"].splitlines()
    assert (lines[0], lines[-1]) == ("exit status 1", "ValueError: the disk is made of cheese")
    monkeypatch.delenv("FAKE_FAIL")
    assert study.run(resume=True)
    assert starts().count("grpo 1 start") == 1
    assert study.run(resume=True, retry_failed=True)
    assert starts().count("grpo 1 start") == 2
    assert set(study.states().values()) == {State.FINISHED}


def test_a_killed_run_has_failed_and_goes_on_from_its_checkpoint_on_demand(
    make_study, starts, monkeypatch
):
    study = make_study(seeds=[1], overrides={"steps": 8})
    monkeypatch.setenv("FAKE_STOP", "grpo/seed1 1 SIGKILL")
    assert study.run()
    assert study.states()["grpo/seed1"] is State.FAILED
    assert "stopped by signal 9" in record_of(study, "grpo/seed1")["error"]
    assert study.run(resume=True, retry_failed=True)
    assert starts() == ["grpo 1 resume", "grpo 1 start", "grpo-ktae 1 start"]
    lines = study.folder.run_folder(study.cells[0]).read_metrics()
    assert [line["step"] for line in lines] == list(range(1, 9))


def test_a_signal_stops_after_the_step_and_resume_goes_on(
    make_study, starts, monkeypatch, tmp_path
):
    study = make_study(seeds=[1, 2], overrides={"steps": 8})
    monkeypatch.setenv("FAKE_GATE", str(tmp_path / "gate"))
    process = drive(study)
    wait_for(lambda: has_steps(study, "grpo/seed1", "grpo-ktae/seed1"), process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 143, err
    assert study.states()["grpo/seed1"] is State.UNFINISHED
    assert study.states()["grpo-ktae/seed2"] is State.NEW
    monkeypatch.delenv("FAKE_GATE")
    assert study.run(resume=True)
    assert starts() == [
        f"{method} {rest}"
        for method in ("grpo", "grpo-ktae")
        for rest in ("1 resume", "1 start", "2 start")
    ]
    lines = study.folder.run_folder(study.cells[0]).read_metrics()
    assert [line["step"] for line in lines] == list(range(1, 9))


def test_a_second_ctrl_c_kills_runs_that_do_not_stop(make_study, monkeypatch, tmp_path):
    study = make_study(seeds=[1], overrides={"steps": 8})
    monkeypatch.setenv("FAKE_GATE", str(tmp_path / "gate"))
    monkeypatch.setenv("FAKE_DEAF", "1")
    process = drive(study)
    wait_for(lambda: has_steps(study, "grpo/seed1"), process)
    process.send_signal(signal.SIGINT)
    assert any(b"once more stops them at once" in line for line in process.stderr)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 130 and b"stopping the runs at once" in err


def test_after_kill_9_the_runs_left_behind_hold_the_lock(make_study, starts, monkeypatch, tmp_path):
    study = make_study(seeds=[1, 2], overrides={"steps": 8})
    monkeypatch.setenv("FAKE_GATE", str(tmp_path / "gate"))
    process = drive(study)
    wait_for(lambda: has_steps(study, "grpo/seed1", "grpo-ktae/seed1"), process)
    process.kill()
    process.communicate(timeout=100)
    with pytest.raises(InputError, match="or a run that one left behind"):
        study.run(resume=True)
    for pid in (tmp_path / "starts.pids").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    monkeypatch.delenv("FAKE_GATE")
    wait_for(lambda: is_free(study.folder.runs / ".lock"))
    assert study.run(resume=True)
    assert set(study.states().values()) == {State.FINISHED}
    assert starts()[:2] == ["grpo 1 resume", "grpo 1 start"]
    assert len(starts()) == 6


def test_a_model_is_loaded_by_one_run_first(make_study):
    """The second run of a base model starts when the first has its recipe in its folder."""
    study = make_study(seeds=[1, 2], demo_seeds=[0])
    seen = []

    def progress(cell, state, seconds):
        if not seconds:
            seen.append((cell.name, study.folder.run_folder(study.cells[0]).recipe.exists()))

    study.progress = progress
    assert study.run(jobs=4)
    assert seen[0] == ("grpo/seed1", False)
    assert [loaded for _, loaded in seen[1:]] == [True] * 3
