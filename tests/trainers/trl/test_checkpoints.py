"""Whole and damaged checkpoints, and a disk that is full."""

import json
import signal
import subprocess

import pytest

pytest.importorskip("trl", reason="needs the extra 'trl'")

import torch
from safetensors.torch import save_file

from ktae.errors import InputError
from ktae.recipe import Recipe
from ktae.runs import RunFolder
from ktae.trainers.trl.callbacks import StepLogger, stop_on_interrupt
from ktae.trainers.trl.checkpoints import full_disk_is_said, newest_whole, what_is_wrong

WEIGHTS = {"weight": torch.arange(1000.0)}


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    for step in (2, 10):
        checkpoint = folder.checkpoints / f"checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        save_file(WEIGHTS, checkpoint / "model.safetensors")
        torch.save(WEIGHTS, checkpoint / "optimizer.pt")
        (checkpoint / "trainer_state.json").write_text(json.dumps({"step": step}))
    return folder


@pytest.fixture
def small_disk(tmp_path):
    """A folder with room for 100 kB."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def test_the_newest_is_taken(folder):
    assert newest_whole(folder) == (folder.checkpoints / "checkpoint-10", [])


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "trainer_state.json"])
@pytest.mark.parametrize("left", [0, 0.5])
def test_a_damaged_one_is_said_and_the_one_before_is_taken(folder, name, left):
    file = folder.checkpoints / "checkpoint-10" / name
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * left)])
    checkpoint, (problem,) = newest_whole(folder)
    assert checkpoint == folder.checkpoints / "checkpoint-2"
    assert "checkpoint-10 is damaged" in problem and name in problem


def test_a_changed_byte_of_the_optimizer_is_seen(folder):
    file = folder.checkpoints / "checkpoint-10/optimizer.pt"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert "checksum" in (what_is_wrong(file.parent) or "")


def test_without_any_whole_one(tmp_path):
    assert newest_whole(RunFolder(tmp_path)) == (None, [])


@pytest.mark.parametrize(
    "write",
    [
        lambda disk: torch.save({"weight": torch.zeros(100_000)}, disk / "optimizer.pt"),
        lambda disk: save_file({"weight": torch.zeros(100_000)}, disk / "model.safetensors"),
        lambda disk: (disk / "metrics.jsonl").write_text("x" * 200_000),
    ],
    ids=["torch", "safetensors", "text"],
)
def test_a_full_disk_is_one_error(small_disk, write):
    folder = RunFolder(small_disk)
    with (
        pytest.raises(InputError, match=r"is full .*; nothing is saved. Make room, then start"),
        full_disk_is_said(folder),
    ):
        write(small_disk)


def test_a_full_disk_names_the_checkpoint(folder):
    full = OSError(28, "No space left on device")
    with (
        pytest.raises(InputError, match=r"whole checkpoint is .*checkpoint-10\. .*add --resume"),
        full_disk_is_said(folder),
    ):
        raise InputError("cannot write it") from full


def test_other_errors_stay_what_they_are(folder):
    with pytest.raises(RuntimeError, match="something else"), full_disk_is_said(folder):
        raise RuntimeError("something else")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_either_signal_is_remembered_once(folder, number, capsys):
    steps = StepLogger(Recipe(name="x", steps=1), folder, lambda _: None)
    usual = signal.getsignal(number)
    with stop_on_interrupt(steps):
        assert signal.getsignal(number) != usual
        signal.raise_signal(number)
        assert steps.asked_to_stop == number
        assert signal.getsignal(number) == usual, "a second one does what it always does"
    assert "finishing this step" in capsys.readouterr().err
