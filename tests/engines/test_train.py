"""`ktae train` as a user runs it: a process, a recipe, a run folder."""

import json
import shutil
import signal

import numpy as np
import pyarrow.parquet as pq
import pytest
from training import curve, metrics, run, run_here, stopped

RECIPE = "grpo-ktae.yaml"
SMALL = [
    "steps=6",
    "rollout.prompts_per_step=2",
    "rollout.group_size=4",
    "rollout.max_response_length=32",
    "logging.save_every=2",
    "logging.eval_problems=8",
]


@pytest.fixture(scope="module")
def straight(command, tmp_path_factory):
    """A run that nothing disturbed, and what it said."""
    folder = tmp_path_factory.mktemp("straight") / "run"
    done = run(command(folder))
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_run_folder_holds_everything(command, straight):
    folder, said = straight
    assert "greedy accuracy" in said

    lines = metrics(folder)
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["before"].keys() == summary["after"].keys()
    assert (folder / "model/model.safetensors").is_file()
    assert (folder / "checkpoints/checkpoint-12").is_dir()

    files = sorted((folder / "rollouts").iterdir())
    assert [file.name for file in files] == [f"step-{step:05d}.parquet" for step in range(1, 7)]
    rollouts = pq.read_table(files[0]).to_pylist()
    assert [row["group"] for row in rollouts] == ["0"] * 4 + ["1"] * 4
    for row in rollouts:
        assert len(row["credit"]) == len(row["token_ids"]) <= 32
        assert row["prompt"].endswith("<sol>")

    for more, message in (((), "add --resume"), (("--resume",), "is finished")):
        again = run_here(command(folder, *more))
        assert again.returncode == 2
        assert message in again.stderr


def test_two_runs_of_one_seed_are_the_same(command, straight, tmp_path):
    again = tmp_path / "again"
    assert run_here(command(again)).returncode == 0
    np.testing.assert_array_equal(curve(again), curve(straight[0]))
    for name in ("model/model.safetensors", "rollouts/step-00006.parquet"):
        assert (again / name).read_bytes() == (straight[0] / name).read_bytes()
    other = tmp_path / "other"
    assert run_here([*command(other), "seed=1", "steps=1"]).returncode == 0
    assert (curve(other)[0] != curve(straight[0])[0]).any()


def test_a_signal_leaves_a_checkpoint_and_resume_continues_the_same_curve(
    command, straight, tmp_path
):
    straight, broken = straight[0], tmp_path / "broken"
    status, _, err = stopped(command(broken), broken, signal.SIGTERM, steps=1)
    assert status == 143, err
    assert b"--resume" in err
    assert b"Traceback" not in err
    assert 1 <= len(metrics(broken)) < 6
    assert list((broken / "checkpoints").glob("checkpoint-*"))

    damaged = broken / "checkpoints/checkpoint-11"  # of 12 optimizer steps
    shutil.copytree(next((broken / "checkpoints").glob("checkpoint-*")), damaged)
    (damaged / "trainer_state.json").write_bytes(b'{"half')
    (broken / "rollouts/.step-00009.parquet.x").write_bytes(b"half")
    resumed = run_here(command(broken, "--resume"))
    assert resumed.returncode == 0, resumed.stderr
    assert "going on after step" in resumed.stderr
    assert not list((broken / "rollouts").glob(".*"))
    np.testing.assert_allclose(curve(broken), curve(straight), atol=1e-6)
    assert np.abs(curve(straight)[:, 1:]).max(axis=0).min() > 0, "nothing happened in this run"
