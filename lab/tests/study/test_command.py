"""`ktae-lab study` as a command: results it does not lose, the time left."""

import io
import json
import shutil
import signal
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console
from small import invoke

from ktae.errors import InputError
from ktae.runs import write_json
from ktae_lab.cli import study as command
from ktae_lab.study import runner
from ktae_lab.study.folder import State


def finish(study):
    """Its runs as they are when they have finished."""
    for i, cell in enumerate(study.cells):
        folder = study.folder.run_folder(cell)
        folder.path.mkdir(parents=True)
        write_json(folder.summary, {"after": {"sampled_accuracy": i / 10}})
        folder.append_metrics({"step": 1, "rewards/correct/mean": i / 10})


@pytest.fixture
def clone(make_study):
    """A study of six runs with results of all of them and without `runs/`, which git ignores."""
    study = make_study()
    study.folder.open(study.matrix, study.cells, resume=False).close()
    write_json(study.folder.results, {"runs": {"planned": 6, "finished": 6}})
    study.folder.runs_csv.write_text("state\n" + "finished\n" * 6)
    study.folder.figures.mkdir()
    (study.folder.figures / "curves-small.svg").write_bytes(b"a figure")
    shutil.rmtree(study.folder.runs)
    return study


def files(study):
    return {
        path.relative_to(study.output): path.read_bytes()
        for path in study.output.rglob("*")
        if path.is_file() and "runs" not in path.parts
    }


def test_results_of_more_runs_are_left_alone(clone):
    before = files(clone)
    refused = invoke(clone, "--results-only")
    assert isinstance(refused.exception, InputError)
    said = str(refused.exception)
    results, runs = clone.output / "runs.csv", clone.output / "runs"
    assert f"{results} is of 6 finished runs, and {runs} holds 0" in said
    for way_out in ("--resume", "--output", "--overwrite-results"):
        assert way_out in said
    assert files(clone) == before


def test_an_interrupt_leaves_results_of_more_runs_alone(clone, monkeypatch):
    before = files(clone)
    monkeypatch.setattr(runner, "run", lambda *_, **__: signal.SIGTERM)
    stopped = invoke(clone, "--resume")
    assert stopped.exit_code == 143, stopped.output
    assert "is of 6 finished runs" in stopped.output
    assert "interrupted; --resume continues" in stopped.output
    assert files(clone) == before


def test_results_of_more_runs_are_overwritten_on_demand(clone):
    done = invoke(clone, "--results-only", "--overwrite-results")
    assert done.exit_code == 0, done.output
    assert "6 runs planned: 6 not started" in done.output
    assert json.loads(clone.folder.results.read_text())["runs"]["finished"] == 0
    assert list(clone.folder.figures.iterdir()) == []
    printed = invoke(clone, "--results-only", "--json")
    assert json.loads(printed.stdout) == json.loads(clone.folder.results.read_text())


def test_results_of_as_many_runs_are_written(make_study):
    study = make_study(seeds=[1])
    study.folder.open(study.matrix, study.cells, resume=False).close()
    finish(study)
    for _ in range(2):
        done = invoke(study, "--results-only")
        assert done.exit_code == 0, done.output
    shutil.rmtree(study.folder.run_folder(study.cells[0]).path)
    refused = invoke(study, "--results-only")
    assert "runs.csv is of 2 finished runs, and" in str(refused.exception)
    assert "holds 1 of the matrix" in str(refused.exception)


@pytest.mark.parametrize("content", ["task,method\n", "state\na,b\n", ""])
def test_results_that_cannot_be_read_are_left_alone(clone, content):
    clone.folder.runs_csv.write_text(content)
    refused = invoke(clone, "--results-only")
    assert "cannot tell how many runs" in str(refused.exception)
    assert clone.folder.runs_csv.read_text() == content


def test_figures_that_are_drawn_no_more_are_removed(make_study):
    study = make_study(seeds=[1], groups={"both": ["grpo", "grpo-ktae"], "v1.5": ["grpo"]})
    study.folder.open(study.matrix, study.cells, resume=False).close()
    finish(study)
    assert invoke(study, "--results-only").exit_code == 0
    figures = study.folder.figures
    assert len(list(figures.iterdir())) == 5
    (figures / "mine.svg").write_bytes(b"a picture of the user's")
    study = make_study(seeds=[1], groups={"v1.5": ["grpo"]})
    assert invoke(study, "--results-only").exit_code == 0
    assert sorted(path.stem for path in figures.iterdir()) == [
        "bars-v1.5",
        "curves-v1.5",
        "differences",
        "mine",
    ]


@pytest.mark.parametrize("library", ["matplotlib", "scipy"])
def test_a_missing_library_is_told_before_the_first_run(make_study, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("a run was started"))
    study = make_study()
    refused = invoke(study)
    assert f"the figures need {library}, which is not installed" in str(refused.exception)
    assert not study.output.exists(), "the same command works once it is installed"


def test_results_without_their_library_are_left_as_they_are(make_study, monkeypatch):
    study = make_study(seeds=[1])
    study.run()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused = invoke(study, "--results-only")
    assert "the figures need matplotlib" in str(refused.exception)
    assert not study.folder.runs_csv.exists() and not study.folder.results.exists()


class Clock:
    """Of the progress, set by hand."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


@pytest.fixture
def progress(monkeypatch):
    """From a study to its progress, with the clock and what was printed."""

    def make(study):
        clock, printed = Clock(), io.StringIO()
        monkeypatch.setattr(command, "time", clock)
        console = Console(file=printed, width=200)
        made = command._Progress(console, study.cells, study.folder)
        return SimpleNamespace(it=made, clock=clock, text=printed.getvalue)

    return make


@pytest.fixture
def study(make_study):
    """Two runs of 100 steps."""
    return make_study(seeds=[1], overrides={"steps": 100})


def fail(study, cell):
    study.folder.run_folder(cell).path.mkdir(parents=True)
    study.folder.add_to_record(cell, error="exit status 1")


def test_time_left_is_from_the_pace(study, progress):
    shown, (first, second) = progress(study), study.cells
    assert shown.it._left() == "time left unknown"
    shown.it.started(first)
    shown.clock.now = 100
    shown.it.steps({first.name: 0})
    shown.it.steps({first.name: 50})
    assert shown.it._left() == "about 5 min left", "150 steps at 2 s"
    assert shown.it.bar.tasks[0].completed == 50
    assert shown.it.bar.tasks[0].total == 200
    shown.it.steps({first.name: 100})
    shown.clock.now = 200
    shown.it.ended(first, State.FINISHED, 200)
    assert shown.text().splitlines() == [
        f"started {first.name}",
        f"finished {first.name} in 3 min; 1 of 2 runs; about 3 min left",
    ]
    shown.it.started(second)
    shown.it.ended(second, State.FAILED, 1)
    assert "1 of 2 runs, 1 failed; about 0 s left" in shown.text()


def test_finished_runs_are_no_part_of_the_time_left(study, progress):
    first, second = study.cells
    folder = study.folder.run_folder(first)
    folder.path.mkdir(parents=True)
    write_json(folder.summary, {})
    shown = progress(study)
    assert "1 of 2 runs are finished already" in shown.text()
    shown.it.started(second)
    shown.it.steps({second.name: 0})
    shown.clock.now = 10
    shown.it.steps({second.name: 10})
    assert shown.it._left() == "about 2 min left", "90 steps at 1 s"
    assert shown.it.bar.tasks[0].completed == 110


def test_steps_of_a_failed_run_that_is_run_again_are_to_do(study, progress):
    fail(study, study.cells[0])
    fail(study, study.cells[1])
    shown = progress(study)
    first, second = study.cells
    shown.it.started(first)
    shown.it.started(second)
    shown.it.steps({first.name: 0, second.name: 0})
    shown.clock.now = 100
    shown.it.steps({first.name: 50, second.name: 50})
    assert shown.it._left() == "about 2 min left", "100 steps at 1 s"
    assert shown.it._runs() == "0 of 2 runs"
    assert shown.it.bar.tasks[0].completed == 100


def test_steps_after_the_checkpoint_are_done_again(study, progress):
    shown, (first, _) = progress(study), study.cells
    shown.it.started(first)
    shown.it.steps({first.name: 40})  # before it has loaded, and dropped ten of them
    shown.clock.now = 10
    shown.it.steps({first.name: 30})
    assert shown.it._left() == "time left unknown"
    shown.clock.now = 20
    shown.it.steps({first.name: 50})
    assert shown.it._left() == "about 2 min left", "150 steps at 1 s: 20 were done now"


def test_a_killed_run_counts_with_what_it_did(study, progress):
    shown, (first, _) = progress(study), study.cells
    shown.it.started(first)
    shown.it.steps({first.name: 0})
    shown.clock.now = 40
    shown.it.steps({first.name: 40})
    shown.it.ended(first, State.UNFINISHED, 40)
    assert f"unfinished {first.name} in 40 s; 0 of 2 runs; about 3 min left" in shown.text()
    shown.it.started(first)
    shown.it.steps({first.name: 40})
    assert shown.it._left() == "about 3 min left", "160 steps at 1 s"
    assert shown.it.bar.tasks[0].completed == 40
