"""The estimator on verl's driver, measured inside verl's own `compute_advantage`: time and memory.

    python benchmarks/verl_advantages.py --csv benchmarks/results/verl_advantages.csv

The batch is the paper's training step (1,024 prompts x 16 rollouts, padded to 3,072 tokens), as it
lies in memory there: int32 responses, an int64 response mask, float32 rewards.
"""

import argparse
import gc
import os
import time
from pathlib import Path

import numpy as np
import torch
import verl.trainer.ppo.ray_trainer as ray_trainer
from estimator import append_rows, machine, random_batch
from omegaconf import OmegaConf
from verl import DataProto

import ktae.trainers.verl  # noqa: F401  # the plug-in
from ktae.trainers.verl.handover import handed_over, rollouts_of_infos

GIB = 2**30
ESTIMATORS = ("grpo", "ktae")
PAPER_PROMPTS = 1024
PUBLISHED_STEP = {"7b": 559.36, "1.5b": 277.69}
"""Seconds of a GRPO step at that size on 8 H100 (the paper's table of training times)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=PAPER_PROMPTS, help="instead of 1,024")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    for row in measure(arguments.prompts, arguments.repeats):
        print(row, flush=True)
        if arguments.csv:
            append_rows(arguments.csv, [row | machine()])


def measure(prompts: int, repeats: int) -> list[dict[str, str]]:
    """A row an estimator: seconds, and GiB beyond the batch; the estimators take turns."""
    data, about = batch(prompts)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ESTIMATORS}
    extra = dict.fromkeys(ESTIMATORS, 0.0)
    for _ in range(repeats + 1):
        for name in ESTIMATORS:
            before = memory("VmRSS")
            Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again
            seconds[name].append(once(data, name))
            extra[name] = memory("VmHWM") - before
            del data.batch["advantages"], data.batch["returns"]
            gc.collect()
    rows = []
    for name in ESTIMATORS:
        elapsed, worked = np.array(seconds[name][1:]).T  # the first round compiles
        low, median, high = np.percentile(elapsed, (20, 50, 80))
        shares = {
            f"share_of_{size}_step": f"{median / step:.6f}" if prompts == PAPER_PROMPTS else ""
            for size, step in PUBLISHED_STEP.items()
        }
        timed = {"p20_s": low, "median_s": median, "p80_s": high, "cpu_s": np.median(worked)}
        rows.append(
            {"adv_estimator": name, "prompts": str(prompts), "shards": "1", **about}
            | {column: f"{value:.4f}" for column, value in timed.items()}
            | {"load": f"{os.getloadavg()[0]:.1f}", "repeats": str(repeats)}
            | {"inputs_gib": f"{size_of(data):.2f}", "extra_gib": f"{extra[name]:.2f}"}
            | shares
        )
    return rows


def once(data: DataProto, name: str) -> tuple[float, float]:
    """Seconds, and the processor's, which a busy neighbour changes less."""
    config = OmegaConf.create({"norm_adv_by_std_in_grpo": True})
    infos = [{"acc": verdict} for verdict in data.non_tensor_batch["acc"]]
    started, worked = time.perf_counter(), time.process_time()
    with handed_over(rollouts_of_infos(data.batch["responses"], infos)):
        ray_trainer.compute_advantage(data, adv_estimator=name, config=config)
    return time.perf_counter() - started, time.process_time() - worked


def batch(prompts: int) -> tuple[DataProto, dict[str, str]]:
    """It, and how large it is."""
    made = random_batch(groups=prompts)
    lengths = made.mask.sum(axis=1)
    rewards = torch.zeros(made.mask.shape)
    rewards[range(len(lengths)), lengths - 1] = torch.from_numpy(made.correct).float()
    data = DataProto.from_dict(
        tensors={
            "responses": torch.from_numpy(made.token_ids),
            "response_mask": torch.from_numpy(made.mask).long(),
            "token_level_rewards": rewards,
        },
        non_tensors={
            "uid": np.array([f"prompt-{group}" for group in made.groups], dtype=object),
            "acc": made.correct.astype(np.float64),
        },
    )
    return data, {"rollouts": str(len(lengths)), "tokens": str(lengths.sum())}


def size_of(data: DataProto) -> float:
    return float(sum(tensor.nbytes for tensor in data.batch.values()) / GIB)


def memory(field: str) -> float:
    """GiB, from the kernel."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024 / GIB
    raise RuntimeError(f"no {field}")


if __name__ == "__main__":
    main()
