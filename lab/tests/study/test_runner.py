"""Runs as processes: none twice, none lost, failures counted. Training is faked."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from small import DRIVE

from ktae.errors import InputError
from ktae_lab.study import runner
from ktae_lab.study.collect import last_line
from ktae_lab.study.folder import State, try_lock


def drive(study, *more):
    """The study as a process of its own."""
    return subprocess.Popen(
        [
            sys.executable,
            str(DRIVE),
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
    with pytest.raises(InputError, match="no study yet; `ktae-lab study MATRIX ") as e:
        study.run(resume=True)
    assert "--resume" not in str(e.value), "nobody may have given it"
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
        with pytest.raises(InputError, match="another `ktae-lab study` runs in"):
            study.run(resume=True)


def test_a_folder_that_cannot_be_locked(make_study, monkeypatch):
    study = make_study(seeds=[1])

    def no_locks(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(InputError, match=r"cannot lock .*/runs/\.lock: Function not implemented"):
        study.run()


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
    record = study.folder.record(failed)
    assert (record["attempts"], record["failures"], record["error"]) == (2, 1, None)
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


def test_termination_stops_as_ctrl_c_does(make_study, monkeypatch, tmp_path):
    study = make_study(seeds=[1], overrides={"steps": 8})
    monkeypatch.setenv("FAKE_GATE", str(tmp_path / "gate"))
    process = drive(study)
    wait_for(lambda: has_steps(study, "grpo/seed1"), process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 143, err
    assert len(study.folder.run_folder(study.cells[0]).read_metrics()) == 2, "it ended its step"


def test_a_second_ctrl_c_kills_runs_that_do_not_stop(make_study, monkeypatch, tmp_path):
    study = make_study(seeds=[1], overrides={"steps": 8})
    monkeypatch.setenv("FAKE_GATE", str(tmp_path / "gate"))
    monkeypatch.setenv("FAKE_DEAF", "1")
    process = drive(study)
    wait_for(lambda: has_steps(study, "grpo/seed1"), process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 130 and b"stopping the runs at once" in err
    for pid in (tmp_path / "starts.pids").read_text().split():
        assert not is_alive(pid)


def test_a_failure_of_our_own_leaves_no_run_behind(make_study, monkeypatch, tmp_path):
    study = make_study(seeds=[1], overrides={"steps": 8})
    monkeypatch.setenv("FAKE_GATE", str(tmp_path / "gate"))

    def steps(done):
        if all(done.get(name) for name in ("grpo/seed1", "grpo-ktae/seed1")):
            raise BrokenPipeError

    monkeypatch.setattr(study.progress, "steps", steps)
    with pytest.raises(BrokenPipeError):
        study.run()
    pids = (tmp_path / "starts.pids").read_text().split()
    wait_for(lambda: not any(is_alive(pid) for pid in pids))
    assert len(study.folder.run_folder(study.cells[0]).read_metrics()) == 2, "it ended its step"


def is_alive(pid):
    """And no process that has ended and waits for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("what", ["SIGKILL", "SIGINT", "SIGTERM"])
def test_a_run_stopped_from_outside_goes_on_from_its_checkpoint(
    make_study, starts, monkeypatch, what
):
    study = make_study(seeds=[1], overrides={"steps": 8})
    monkeypatch.setenv("FAKE_STOP", f"grpo/seed1 2 {what}")
    assert study.run()
    assert set(study.states().values()) == {State.FINISHED}
    assert starts() == ["grpo 1 resume", "grpo 1 resume", "grpo 1 start", "grpo-ktae 1 start"]
    lines = study.folder.run_folder(study.cells[0]).read_metrics()
    assert [line["step"] for line in lines] == list(range(1, 9))
    record = study.folder.record(study.cells[0])
    assert (record["attempts"], record["failures"]) == (3, 0)
    ends = [state for name, state in study.progress.ends if name == "grpo/seed1"]
    assert ends == [State.UNFINISHED, State.UNFINISHED, State.FINISHED]


def test_a_run_killed_three_times_has_failed_and_keeps_its_checkpoint(
    make_study, starts, monkeypatch
):
    study = make_study(seeds=[1], overrides={"steps": 8})
    monkeypatch.setenv("FAKE_STOP", "grpo/seed1 99 SIGKILL")
    assert study.run()
    assert study.states()["grpo/seed1"] is State.FAILED
    assert starts().count("grpo 1 resume") == 2
    cell = study.cells[0]
    reason = "stopped 3 times from outside, at last by signal 9"
    assert last_line(study.folder.record(cell)) == reason
    assert study.run(resume=True)
    assert starts().count("grpo 1 resume") == 2, "not by itself"

    monkeypatch.delenv("FAKE_STOP")
    assert study.run(resume=True, retry_failed=True)
    assert study.states()["grpo/seed1"] is State.FINISHED
    assert starts() == ["grpo 1 resume"] * 3 + ["grpo 1 start", "grpo-ktae 1 start"]
    lines = study.folder.run_folder(cell).read_metrics()
    assert [line["step"] for line in lines] == list(range(1, 9))


def test_what_fails_after_a_kill_is_run_again_from_its_beginning(make_study, starts, monkeypatch):
    """Its checkpoint may be what it fails for."""
    study = make_study(seeds=[1], overrides={"steps": 8})
    monkeypatch.setenv("FAKE_STOP", "grpo/seed1 1 SIGKILL")
    monkeypatch.setenv("FAKE_FAIL_RESUMED", "grpo/seed1")
    assert study.run()
    assert study.states()["grpo/seed1"] is State.FAILED
    assert study.run(resume=True, retry_failed=True)
    assert study.states()["grpo/seed1"] is State.FINISHED
    assert starts() == ["grpo 1 resume", "grpo 1 start", "grpo 1 start", "grpo-ktae 1 start"]


def killed_half_way(make_study, monkeypatch, gate):
    """A study whose command got kill -9 with the first two runs waiting at the gate."""
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


def test_what_a_killed_study_was_writing_is_removed(make_study):
    study = make_study(seeds=[1])
    study.output.mkdir()
    (study.output / ".announced.json.a").write_text("{")  # it had not come further
    study.folder.open(study.matrix, study.cells, resume=False).close()
    study.folder.figures.mkdir()
    of_a_run = study.output / "runs/grpo/.model.e"  # it may go on, and is not the study's
    of_a_run.mkdir(parents=True)
    left = [".results.json.a", ".runs.csv.b", "figures/.bars-a.svg.c", "runs/grpo/.seed1.json.d"]
    for name in left:
        (study.output / name).write_text("half")
    study.folder.open(study.matrix, study.cells, resume=True).close()
    hidden = [path for path in study.output.rglob(".*") if path.name != ".lock"]
    assert hidden == [of_a_run]


def test_a_model_is_loaded_by_one_run_first(make_study, tmp_path):
    """The second run of a base model starts when the first has its recipe in its folder; a task's
    base model is another one, and loads beside it."""
    study = make_study(
        seeds=[1, 2],
        base_models={"demo_seeds": [0], "pairing": "crossed"},
        tasks={name: {"overrides": {"demo.language": name}} for name in ("sums", "lists")},
    )
    seen = {"sums": [], "lists": []}

    def started(cell):
        first = next(one for one in study.cells if one.task == cell.task)
        seen[cell.task].append((cell.name, study.folder.run_folder(first).recipe.exists()))

    study.progress.started = started
    assert study.run(jobs=4)
    for task, runs in seen.items():
        assert len(runs) == 4
        assert runs[0] == (f"{task}/grpo/seed1-base0", False)
        assert all(loaded for _, loaded in runs[1:])


def test_the_commit_is_that_of_each_start(make_study, monkeypatch):
    """An editable checkout may change while the study runs."""
    commits = iter("ab")
    monkeypatch.setattr(runner, "commit", lambda: next(commits))
    study = make_study(seeds=[1])
    study.run(jobs=1)
    assert [study.folder.record(cell)["commit"] for cell in study.cells] == ["a", "b"]


def test_the_record_says_where_and_with_what(make_study):
    study = make_study(seeds=[1])
    study.run()
    record = json.loads((study.output / "runs/grpo/seed1.json").read_text())
    assert record["machine"]["cpu"]
    assert record["attempts"] == 1
    assert record["error"] is None
