import shutil
import subprocess
import sys

import pytest
from saved_outputs import write_lines

from ktae import InputError
from ktae.experiments.curves import metrics_by_step
from ktae.experiments.run_folder import RunFolder, metrics_files


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create("name: r\n")
    return folder


def test_a_run_that_has_trained_is_not_overwritten(folder):
    for begun in (
        folder.rollouts / "step-00001.parquet",
        folder.checkpoints / "a/b",
        folder.metrics,
    ):
        folder.require_free()
        begun.parent.mkdir(parents=True, exist_ok=True)
        begun.touch()
        with pytest.raises(InputError):
            folder.create("name: other\n")
        begun.unlink()
    RunFolder(folder.path / "other").require_free()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError), RunFolder(tmp_path / "file/deep/run").held():
        pass


def line(step):
    return {"step": step, "seconds": 0.5}


def test_a_line_cut_short_by_a_crash_is_left_out_and_a_damaged_one_named(folder):
    folder.append_metrics(line(1))
    with folder.metrics.open("a") as file:
        file.write('{"step": 2, "lo')
    assert folder.read_metrics() == [line(1)]
    folder.metrics.write_bytes(b'{"step": 1}\n[1]\n')
    with pytest.raises(InputError, match="line 2"):
        metrics_by_step(metrics_files(folder.path))


@pytest.mark.parametrize("damaged", [{"loss": 1.0, "seconds": 1.0}, line("two"), line(2)])
def test_a_damaged_run_folder_is_not_resumed_and_nothing_is_dropped(folder, damaged):
    """A line without a step, with a step that is no number, and none of step 1."""
    folder.append_metrics(damaged)
    (folder.rollouts / "step-00003.parquet").touch()
    before = sorted(folder.path.rglob("*"))
    with pytest.raises(InputError):
        folder.forget_after(2)
    assert sorted(folder.path.rglob("*")) == before


@pytest.mark.parametrize("content", [b"[]", b'{"greedy_accuracy": "high"}', b"{}"])
def test_damaged_scores_are_named(folder, content):
    folder.before.write_bytes(content)
    with pytest.raises(InputError):
        folder.read_scores(folder.before)


def test_a_folder_is_held_by_one_process(folder):
    program = (
        "import pathlib; from ktae.experiments.run_folder import RunFolder\n"
        f"f = RunFolder(pathlib.Path({str(folder.path)!r}))\n"
        "with f.held(): print('held', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(InputError), folder.held():
            pass
        process.kill()  # a run that is killed can be resumed
    with folder.held():
        assert folder.recipe.exists()


def test_metrics_of_verl_s_starts_in_their_order(folder):
    for name, lines in (
        ("metrics-2", [(2, 2), (3, 2)]),
        ("metrics-10", [(3, 10)]),
        ("metrics", []),
    ):
        rows = [{"step": step, "data": {"actor/entropy": value}} for step, value in lines]
        write_lines(folder.path / f"{name}.jsonl", rows)
    found = metrics_by_step(metrics_files(folder.path))
    assert {step: line["actor/entropy"] for step, line in found.items()} == {2: 2, 3: 10}


def test_forget_after_drops_what_will_run_again_and_what_a_killed_run_was_writing(folder):
    for step in (1, 2, 3):
        folder.append_metrics(line(step))
        (folder.rollouts / f"step-{step:05d}.parquet").touch()
    (folder.path / ".model.abc").mkdir()
    (folder.path / ".model.abc/model.safetensors").touch()
    for half in (folder.rollouts / ".step-00003.parquet.xyz", folder.path / ".summary.json.q"):
        half.touch()
    (folder.path / ".mine").touch()
    folder.forget_after(2)
    assert [line["step"] for line in folder.read_metrics()] == [1, 2]
    kept = {"step-00001.parquet", "step-00002.parquet"}
    assert {path.name for path in folder.rollouts.iterdir()} == kept
    names = {path.name for path in folder.path.iterdir()}
    assert names == {"recipe.yaml", "rollouts", "metrics.jsonl", ".mine"}


def test_a_run_that_failed_or_was_killed_before_its_first_step_blocks_nothing(tmp_path):
    """The corrected recipe takes its place; what was measured of the model before is of another."""
    folder = RunFolder(tmp_path / "run")
    folder.rollouts.mkdir(parents=True)
    folder.lock.touch()
    folder.create("name: r\n")
    folder.before.write_text("{}")
    folder.create("name: corrected\n")
    assert folder.recipe.read_text() == "name: corrected\n" and not folder.before.exists()
    (tmp_path / "other/mine.parquet").parent.mkdir()
    (tmp_path / "other/mine.parquet").touch()
    with pytest.raises(InputError):
        RunFolder(tmp_path / "other").require_free()


def test_checkpoints_that_are_complete_the_newest_first(folder):
    assert folder.last_checkpoint() is None
    for step, complete in ((2, True), (10, True), (12, False)):
        checkpoint = folder.checkpoints / f"checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        if complete:
            (checkpoint / "trainer_state.json").write_text("{}")
    shutil.copytree(folder.checkpoints / "checkpoint-2", folder.checkpoints / "checkpoint-2-backup")
    assert folder.last_checkpoint().name == "checkpoint-10"
