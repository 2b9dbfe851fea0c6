"""`ktae train --engine verl` on the CPU: stock verl's settings, and what tests read of a run."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import oracle
import torch
import yaml
from training import ktae, metrics

from ktae.padding import pad

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
        "rollout": {"free_cache_engine": False, "load_format": "auto", "agent": {"num_workers": 1}},
    },
    "+actor_rollout_ref.model.override_config.attn_implementation": "eager",
    "reward.num_workers": 1,
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
}

OWN_CLUSTER = {
    "ray_kwargs.ray_init.num_cpus": 8,
    "+ray_kwargs": {
        "ray_init": {"address": "local", "num_gpus": 1, "include_dashboard": False},
        "ray_init.object_store_memory": 200_000_000,
    },
}
"""A node that the run starts for itself."""


def recipe(model, name, *, algorithm=None, overrides=None, prompts=4, nodes=1):
    """Two steps of eight rollouts a prompt; several nodes are those of a cluster that is up."""
    cluster = {} if nodes > 1 else OWN_CLUSTER
    return {
        "name": name,
        "steps": 2,
        "model": {"path": str(model)},
        "rollout": {
            "prompts_per_step": prompts,
            "group_size": 8,
            "max_response_length": 64,
            "max_prompt_length": 64,
        },
        "algorithm": {"minibatches": 1} | (algorithm or {}),
        "credit": "paper",
        "optimizer": {"learning_rate": 4e-4},
        "logging": {"save_every": 1, "eval_problems": 8},
        "verl": {
            "rollout_engine": "generate",
            "nodes": nodes,
            "gpus_per_node": 1,
            "validate_every": 2,
            "tokens_per_gpu": 2048,
            "overrides": ON_THE_CPU | cluster | (overrides or {}),
        },
    }


def environment(record):
    """What verl and Ray need on the CPU, and where updates are recorded, if they are."""
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "VERL_USE_EXTERNAL_MODULES": "verl_on_cpu",
        "VERL_PLATFORM": "cpu",
        "KTAE_TEST_RECORD": str(record or ""),
        # Ray would start a process for each of its CPUs, before anyone asks for one.
        "RAY_prestart_worker_first_driver": "0",
        # On a machine that has much else to do, Ray takes longer to start than it waits.
        "RAY_raylet_start_wait_time_s": "180",
    }


@contextlib.contextmanager
def two_nodes(record):
    """A Ray cluster of two nodes: its process, and the variable by which a run joins it."""
    process = subprocess.Popen(
        [sys.executable, HERE / "two_nodes.py"],
        env=environment(record),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        said = next((line for line in process.stdout if line.startswith("address ")), None)
        assert said, f"Ray ended with {process.wait()}"
        yield process, {"RAY_ADDRESS": said.split()[1]}
        process.stdin.close()
        process.wait(TIME_LIMIT)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


class Run:
    """A run in a process group of its own, started where nothing is."""

    def __init__(self, content, folder, *options, variables=None):
        self.output, self.log = folder / "run", folder / "log.txt"
        self.record, self.started_in = folder / "record", folder / "started-in"
        for path in (self.record, self.started_in):
            path.mkdir(parents=True, exist_ok=True)
        path = folder / "recipe.yaml"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        with self.log.open("w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                ktae("train", path, "--engine", "verl", "--output", self.output, *options),
                env=environment(self.record) | (variables or {}),
                cwd=self.started_in,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

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
        left = [path.name for path in self.started_in.iterdir()]
        assert not left, "the run left something where it was started"
        return self

    def updates(self, first=None):
        """The rows that each update's loss was given, those of all ranks together."""
        by_rank = {}
        for path in sorted(self.record.glob("*.pt")):
            by_rank.setdefault(path.stem.rpartition("-")[2], []).append(path)
        by_rank = {
            rank: [torch.load(path, weights_only=False) for path in paths[:first]]
            for rank, paths in by_rank.items()
        }
        return [merged(parts) for parts in zip(*by_rank.values(), strict=True)]

    def metrics(self):
        return metrics(self.output)

    def dumped(self):
        """verl's own dump of the rollouts of all steps."""
        files = sorted((self.output / "rollouts").glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def checkpoints(self):
        return sorted(path.name for path in (self.output / "checkpoints").glob("global_step_*"))


def merged(parts):
    return {name: [row for part in parts for row in part[name]] for name in parts[0]}


def check_updates(updates):
    """Of whole steps: the advantages are the core's, and some tokens differ within a rollout."""
    within = 0.0
    for update in updates:
        ids_bt, _ = pad(update["responses"])
        mask_bt, _ = pad(update["response_mask"])
        rewards = np.array([sum(row) for row in update["rm_scores"]])
        correct = np.array(
            [np.nan if info["undecided"] else info["acc"] for info in update["infos"]]
        )
        expected = oracle.token_advantages(
            rewards, ids_bt, mask_bt, update["uid"], correct=correct, credit="paper"
        )
        for row, used in enumerate(update["advantages"]):
            np.testing.assert_allclose(used, expected[row, : len(used)], atol=2e-5)
        within = max(within, max(np.ptp(row) for row in update["advantages"] if row))
    assert within > 0.01, "every rollout had one advantage: the credit never arrived"


def padding(update):
    return [i for i, uid in enumerate(update["uid"]) if uid.startswith("pad")]
