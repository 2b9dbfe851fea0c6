"""`ktae train --engine verl` on the CPU, and what the tests read of it afterwards."""

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
from verl_one_step import environment

from ktae.rollouts import record

HERE = Path(__file__).parent
TIME_LIMIT = 600


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
        ids_bt, _ = record.pad(update["responses"])
        mask_bt, _ = record.pad(update["response_mask"])
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
