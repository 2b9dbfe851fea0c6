"""DAPO through `ktae train`: killed and resumed, on several processes, with nothing to learn."""

import signal

import numpy as np
import pyarrow.parquet as pq
from training import curve, metrics, run, run_here, stopped

RECIPE = "dapo-ktae.yaml"
SMALL = [
    "steps=5",
    "rollout.prompts_per_step=6",
    "rollout.group_size=8",
    "rollout.max_response_length=48",
    "algorithm.overlong_buffer=8",
    "logging.save_every=1",
    "logging.eval_problems=8",
]


def test_killed_run_resumes_on_the_same_curve(command, tmp_path):
    """Dynamic sampling draws its prompts on as if nothing had happened. Without the penalty for
    length, many groups have equal rewards and are sampled anew."""
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    more = ("algorithm.overlong_buffer=0", "credit={estimator: paper, transforms: [{scaled: 2}]}")
    done = run_here(command(straight, *more))
    assert done.returncode == 0, done.stderr

    stopped(command(broken, *more), broken, signal.SIGKILL, steps=2)

    resumed = run_here(command(broken, *more, "--resume"))
    assert resumed.returncode == 0, resumed.stderr
    names = ("dynamic_sampling/rounds", "credit/mean_abs")
    np.testing.assert_allclose(curve(broken, *names), curve(straight, *names), atol=1e-6)
    assert curve(straight, *names)[:, 4].max() > 0, "no group was ever sampled anew"


def test_several_processes(command, tmp_path):
    """The record has all rollouts; the credit is that of `test_several_processes.py`."""
    folder = tmp_path / "run"
    done = run(command(folder, "steps=3", processes=2))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("greedy accuracy") == 1, "one process speaks for all"
    assert [line["step"] for line in metrics(folder)] == [1, 2, 3]
    for file in sorted((folder / "rollouts").iterdir()):
        rollouts = pq.read_table(file).to_pydict()
        groups = np.array(rollouts["group"])
        assert np.unique(groups, return_counts=True)[1].tolist() == [8] * 6
        prompts = set(zip(groups.tolist(), rollouts["prompt"], strict=True))
        assert len(prompts) == 6, "a group has one prompt"
        assert any(map(any, rollouts["credit"]))


def test_passes_of_a_few_rollouts_and_an_adapter(command, tmp_path):
    """Gradients are accumulated to the same step; an adapter is what is saved of one."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder, more in ((whole, []), (parts, ["trl.forward_rollouts=6"])):
        done = run_here(command(folder, "steps=2", *more))
        assert done.returncode == 0, done.stderr
    grad_norms = [[line["grad_norm"] for line in metrics(folder)] for folder in (whole, parts)]
    np.testing.assert_allclose(*grad_norms, rtol=1e-4)

    folder = tmp_path / "lora"
    done = run_here(command(folder, "steps=1", "model.lora_rank=4"))
    assert done.returncode == 0, done.stderr
    assert (folder / "model/adapter_model.safetensors").is_file()


def test_nothing_to_learn_stops_with_what_is_saved(command, tmp_path):
    """No rollout ends within four tokens, so every reward is 0 and the penalty is the same."""
    folder = tmp_path / "run"
    hopeless = ["rollout.max_response_length=4", "algorithm.overlong_buffer=0"]
    done = run_here(command(folder, *hopeless, "algorithm.patience=2"))
    assert done.returncode == 2
    assert "algorithm.patience" in done.stderr
    assert "Traceback" not in done.stderr
    assert 2 <= len(metrics(folder)) < 5
    assert list((folder / "checkpoints").glob("checkpoint-*"))
    assert list((folder / "rollouts").iterdir())
