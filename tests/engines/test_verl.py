"""Stock `verl.trainer.main_ppo` on Ray, with TransferQueue and FSDP2, trains the demo on the CPU.

`verl_on_cpu` beside this file is what verl lacks for that. It also keeps the rows that each
update's loss was given; the tests hold their advantages against the core's own, row by row.
"""

import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from extras import require

import ktae
from ktae.report import summary, write_report
from ktae.report.columns import columns_of
from ktae.rollouts import record

require("verl")

HERE = Path(__file__).parent
TIME_LIMIT = 600

ON_THE_CPU = {
    "trainer": {"device": "cpu", "val_before_train": False},
    "data": {"dataloader_num_workers": 0},
    "actor_rollout_ref": {
        "model": {"use_remove_padding": False, "enable_gradient_checkpointing": False},
        "actor": {
            "fsdp_config": {"dtype": "float32", "use_torch_compile": False},
            "use_torch_compile": False,
        },
        "rollout": {
            "free_cache_engine": False,
            "load_format": "auto",
            "agent": {"num_workers": 1},
        },
    },
    "+actor_rollout_ref.model.override_config.attn_implementation": "eager",
    "reward.num_workers": 1,
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
    "ray_kwargs.ray_init.num_cpus": 8,
    "+ray_kwargs": {
        "ray_init": {"address": "local", "num_gpus": 2, "include_dashboard": False},
        "ray_init.object_store_memory": 200_000_000,
    },
}


def recipe(base, name, *, ranks=1, algorithm=None, overrides=None, steps=2, prompts=4):
    return {
        "name": name,
        "steps": steps,
        "model": {"path": str(base)},
        "rollout": {
            "prompts_per_step": prompts,
            "group_size": 8,
            "max_response_length": 64,
            "max_prompt_length": 64,
        },
        "algorithm": {"minibatches": 1} | (algorithm or {}),
        "ktae": {"preset": "paper"},
        "optimizer": {"learning_rate": 4e-4},
        "logging": {"save_every": 1, "eval_problems": 8},
        "verl": {
            "rollout_engine": "generate",
            "gpus_per_node": ranks,
            "validate_every": steps,
            "tokens_per_gpu": 2048,
            "overrides": ON_THE_CPU | (overrides or {}),
        },
    }


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Trained for longer than the other tests' model: most groups should have both outcomes."""
    from ktae.demo.pretrain import pretrain

    folder = tmp_path_factory.mktemp("model")
    model, tokenizer = pretrain(seed=0, steps=400)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class Run:
    """`ktae train --engine verl` in a process group of its own."""

    def __init__(self, content, folder, *options):
        folder.mkdir(exist_ok=True)
        self.folder, self.output = folder, folder / "run"
        self.record = folder / "record"
        self.record.mkdir(exist_ok=True)
        path = folder / "recipe.yaml"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        command = [sys.executable, "-m", "ktae", "train", str(path), "--engine", "verl"]
        self.log = folder / "log.txt"
        with self.log.open("a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [*command, "--output", str(self.output), *options],
                env=self.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def environment(self):
        paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
        return os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "VERL_USE_EXTERNAL_MODULES": "verl_on_cpu",
            "VERL_PLATFORM": "cpu",
            "KTAE_TEST_RECORD": str(self.record),
        }

    def wait(self):
        """The exit status and the output; nothing of the group is left after it."""
        try:
            status = self.process.wait(TIME_LIMIT)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        return status, self.log.read_text(encoding="utf-8")

    def succeed(self):
        status, log = self.wait()
        assert status == 0, log[-6000:]
        return self

    def updates(self):
        """The rows that each update's loss was given, those of all ranks together."""
        by_rank = {}
        for path in sorted(self.record.glob("*.pt")):
            rank = path.stem.rpartition("-")[2]
            by_rank.setdefault(rank, []).append(torch.load(path, weights_only=False))
        return [
            {name: [row for part in parts for row in part[name]] for name in parts[0]}
            for parts in zip(*by_rank.values(), strict=True)
        ]

    def metrics(self):
        lines = (self.output / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def checkpoints(self):
        return sorted(path.name for path in (self.output / "checkpoints").glob("global_step_*"))


def check_updates(updates):
    """Of whole steps: the advantages are the core's, and some tokens differ within a rollout."""
    within = 0.0
    for update in updates:
        ids_bt, _ = record.pad(update["responses"])
        mask_bt, _ = record.pad(update["response_mask"])
        rewards = np.array([sum(row) for row in update["rm_scores"]])
        acc = np.array([info["acc"] for info in update["infos"]])
        expected = ktae.token_advantages(
            rewards, ids_bt, mask_bt, update["uid"], correct=acc, backend="naive"
        )
        for row, used in enumerate(update["advantages"]):
            np.testing.assert_allclose(used, expected[row, : len(used)], atol=2e-5)
        within = max(within, max(np.ptp(row) for row in update["advantages"] if row))
    assert within > 0.01, "every rollout had one advantage: the terms never arrived"


def padding(update):
    return [i for i, uid in enumerate(update["uid"]) if uid.startswith("pad")]


def test_grpo_on_two_ranks_with_padding_rows(base, tmp_path):
    # 40 rollouts, in minibatches of 16: verl fills up to 48 with rows of its own
    overrides = {"actor_rollout_ref.actor.ppo_mini_batch_size": 2}
    run = Run(recipe(base, "grpo", ranks=2, prompts=5, overrides=overrides), tmp_path).succeed()
    updates = run.updates()
    steps = [merged(updates[i : i + 3]) for i in range(0, len(updates), 3)]
    assert [len(step["uid"]) for step in steps] == [48, 48]
    for step in steps:
        rows = padding(step)
        assert len(rows) == 8 and len(set(step["uid"])) == 5 + 1
        assert not any(any(step["advantages"][row]) for row in rows)
    check_updates(steps)
    assert [line["step"] for line in run.metrics()] == [1, 2]
    assert any(line["data"]["ktae/term_abs"] > 0 for line in run.metrics())
    assert run.checkpoints() == ["global_step_1", "global_step_2"]
    check_report(run.output, steps, tmp_path / "report.html")


def check_report(folder, steps, out):
    """A report of the run folder: verl's own dump and metrics, read with the run's tokenizer."""
    dump = write_report([folder], out)
    assert (dump.unit, dump.made_ids, dump.tolerance.rejected) == ("tokens", True, [])
    assert dump.tolerance.padding == sum(len(padding(step)) for step in steps) == 16
    rows = dump.rollouts.to_pylist()
    for number, step in enumerate(steps, start=1):
        own = [row for row in rows if row["step"] == number]
        kept = [i for i, uid in enumerate(step["uid"]) if not uid.startswith("pad")]
        assert len(own) == len(kept) == 40
        by_group = collections.Counter(row["group"] for row in own)
        assert sorted(by_group.values()) == [8] * 5
        assert sum(row["correct"] for row in own) == sum(step["infos"][i]["acc"] for i in kept)
    dump_columns = columns_of(dump, without_rewards=False)
    curves = summary.steps_of(
        dump_columns, summary.score(dump_columns, ktae.KTAEConfig.paper()), dump.metrics
    )
    names = {series["name"] for series in curves["series"]}
    assert names >= {"accuracy", "response length", "reward", "mean |term|", "entropy"}
    assert names >= {"clip share", "KL", "gradient norm"}


def merged(updates):
    return {name: [row for update in updates for row in update[name]] for name in updates[0]}


def test_dapo(base, tmp_path):
    algorithm = {
        "loss": "dapo",
        "clip_high": 0.28,
        "overlong_buffer": 56,  # a response of more than 8 tokens is penalised
        "resampling_rounds": 3,
    }
    run = Run(recipe(base, "dapo", algorithm=algorithm), tmp_path).succeed()
    updates = run.updates()
    check_updates(updates)
    shaped = 0
    for update in updates:
        infos = update["infos"]
        shaped += sum(info["overlong"] for info in infos)
        for uid in set(update["uid"]):
            own = [i for i, other in enumerate(update["uid"]) if other == uid]
            acc = {infos[i]["acc"] for i in own}
            assert acc == {0.0, 1.0}, "dynamic sampling let a group of equal rewards through"
    assert shaped > 0


def test_colocated_asynchronous_mode(base, tmp_path):
    content = recipe(base, "async")
    content["verl"]["mode"] = "colocate_async"
    check_updates(Run(content, tmp_path).succeed().updates())


def test_the_old_trainer(base, tmp_path):
    overrides = {"trainer.use_v1": False}
    run = Run(recipe(base, "old", overrides=overrides), tmp_path).succeed()
    check_updates(run.updates())


def test_a_killed_worker_fails_the_run_which_then_resumes(base, tmp_path):
    content = recipe(base, "killed", steps=3)
    run = Run(content, tmp_path)
    deadline = time.monotonic() + TIME_LIMIT
    while "global_step_1" not in run.checkpoints() and time.monotonic() < deadline:
        time.sleep(0.1)
    worker = next(pid for pid in descendants(run.process.pid) if "WorkerDict" in command(pid))
    os.kill(worker, signal.SIGKILL)
    status, log = run.wait()
    assert status == 1 and "ActorDiedError" in log, log[-3000:]
    done = int((run.output / "checkpoints" / "latest_checkpointed_iteration.txt").read_text())
    assert done in (1, 2)
    resumed = Run(content, tmp_path, "--resume").succeed()
    assert [line["step"] for line in resumed.metrics()] == list(range(done + 1, 4))
    check_updates(resumed.updates())


def descendants(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
