"""Runs as processes: none twice, none lost, failures counted. Training is faked."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ktae.errors import InputError
from ktae.study.folder import State, try_lock


def drive(study, *more):
    """The study as a process of its own."""
    return subprocess.Popen(
        [
            sys.executable,
            str(Path(__file__).with_name("drive.py")),
            study.path,
            study.output,
            *more,
        ],
        stderr=subprocess.PIPE,
    )


def wait_for(condition, process=None):
    deadline = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None, process.stderr.read()
        time.sleep(0.02)


def has_steps(study, *names):
    files = [study.output / "runs" / name / "metrics.jsonl" for name in names]
    return all(file.exists() and file.read_text() for file in files)


def test_every_cell_is_run_once_and_never_again(make_study, starts):
    study = make_study()
    assert study.run()
    names = [f"{method} {seed} start" for method in ("grpo", "grpo-ktae") for seed in (1, 2, 3)]
    assert starts() == names
    assert set(study.states().values()) == {State.FINISHED}
    assert study.run(resume=True)
    assert starts() == names


def test_a_matrix_may_grow(make_study, starts):
    make_study(seeds=[1]).run()
    study = make_study(seeds=[1, 2])
    assert study.run(resume=True)
    assert len(starts()) == 4
    assert len(study.progress.ends) == 2


def test_a_run_with_other_settings_is_refused(make_study, starts):
    make_study(seeds=[1]).run()
    study = make_study(seeds=[1], overrides={"steps": 4})
    with pytest.raises(InputError, match=r"another recipe: steps \(3 there, 4 here\)"):
        study.run(resume=True)
    assert len(starts()) == 2


def test_taken_and_missing_folders(make_study):
    study = make_study(seeds=[1])
    with pytest.raises(InputError, match="holds no study yet"):
        study.run(resume=True)
    study.output.mkdir()
    (study.output / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="is no empty folder"):
        study.run()
    (study.output / "letter.txt").unlink()
    with study.folder.open(study.matrix, study.cells, resume=False):
        with pytest.raises(InputError, match="holds a study already; add --resume"):
            study.run()
        with pytest.raises(InputError, match="another `ktae study` runs in"):
            study.run(resume=True)


def test_a_failed_run_is_counted_and_run_again_only_on_demand(make_study, starts, monkeypatch):
    study = make_study()
    monkeypatch.setenv("FAKE_FAIL", "grpo/seed2")
    assert study.run()
    assert study.states()["grpo/seed2"] is State.FAILED
    assert list(study.states().values()).count(State.FINISHED) == 5
    failed = next(cell for cell in study.cells if cell.name == "grpo/seed2")
    lines = study.folder.record(failed)["error"].splitlines()
    assert lines[0] == "exit status 1"
    assert lines[-1] == "ValueError: the disk is made of cheese"

    monkeypatch.delenv("FAKE_FAIL")
    assert study.run(resume=True)
    assert starts().count("grpo 2 start") == 1
    assert study.run(resume=True, retry_failed=True)
    assert starts().count("grpo 2 start") == 2
    assert study.states()["grpo/seed2"] is State.FINISHED
    assert study.folder.record(failed)["attempts"] == 2
    assert len(starts()) == 7


def test_ctrl_c_stops_after_the_step_and_resume_goes_on(make_study, starts, monkeypatch, tmp_path):
    study = make_study(seeds=[1, 2], overrides={"steps": 8})
    monkeypatch.setenv("FAKE_GATE", str(tmp_path / "gate"))
    process = drive(study)
    wait_for(lambda: has_steps(study, "grpo/seed1", "grpo-ktae/seed1"), process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 130, err
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


def killed_half_way(make_study, monkeypatch, gate):
    """A study whose `ktae study` got kill -9 with the first two runs waiting at the gate."""
    study = make_study(seeds=[1, 2], overrides={"steps": 8})
    monkeypatch.setenv("FAKE_GATE", str(gate))
    process = drive(study)
    wait_for(lambda: has_steps(study, "grpo/seed1", "grpo-ktae/seed1"), process)
    process.kill()
    process.communicate(timeout=100)
    return study


def test_after_kill_9_the_runs_left_behind_are_waited_for(
    make_study, starts, monkeypatch, tmp_path
):
    study = killed_half_way(make_study, monkeypatch, tmp_path / "gate")
    opening = threading.Timer(0.5, (tmp_path / "gate").touch)
    opening.start()
    assert study.run(resume=True)
    opening.join()
    assert set(study.states().values()) == {State.FINISHED}
    assert starts() == [
        f"{method} {seed} start" for method in ("grpo", "grpo-ktae") for seed in (1, 2)
    ]


def test_after_kill_9_of_everything_only_the_runs_in_flight_go_on(
    make_study, starts, monkeypatch, tmp_path
):
    study = killed_half_way(make_study, monkeypatch, tmp_path / "gate")
    for pid in (tmp_path / "starts.pids").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    monkeypatch.delenv("FAKE_GATE")
    assert study.run(resume=True)
    assert set(study.states().values()) == {State.FINISHED}
    assert starts()[:2] == ["grpo 1 resume", "grpo 1 start"]
    assert len(starts()) == 6


def test_a_run_left_behind_that_dies_before_it_has_a_folder_is_run(make_study, starts):
    study = make_study(seeds=[1])
    study.folder.open(study.matrix, study.cells, resume=False).close()
    lock = try_lock(study.folder.beside(study.cells[0], ".lock"))
    release = threading.Timer(1.0, lock.close)
    release.start()
    assert study.run(resume=True)
    release.join()
    assert starts() == ["grpo 1 start", "grpo-ktae 1 start"]
    assert set(study.states().values()) == {State.FINISHED}


def test_what_an_earlier_attempt_left_before_its_recipe_is_removed(make_study, starts):
    study = make_study(seeds=[1])
    with study.folder.open(study.matrix, study.cells, resume=False):
        left = study.output / "runs/grpo/seed1/rollouts"
        left.mkdir(parents=True)
    assert study.run(resume=True)
    assert starts() == ["grpo 1 start", "grpo-ktae 1 start"]


def test_a_model_is_loaded_by_one_run_first(make_study, tmp_path):
    """The second run of a base model starts when the first has its recipe in its folder."""
    study = make_study(base_models={"demo_seeds": [0], "pairing": "crossed"})
    seen = []

    def started(cell):
        first = study.folder.run_folder(study.cells[0]).recipe.exists()
        seen.append((cell.name, first))

    study.progress.started = started
    assert study.run(jobs=3)
    assert seen[0] == ("grpo/seed1-base0", False)
    assert all(first for _, first in seen[1:])


def test_the_record_says_where_and_with_what(make_study):
    study = make_study(seeds=[1])
    study.run()
    record = json.loads((study.output / "runs/grpo/seed1.json").read_text())
    assert record["machine"]["cpu"]
    assert record["attempts"] == 1
    assert record["error"] is None
