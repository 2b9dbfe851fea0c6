"""The estimator on verl's driver, measured inside verl's own `compute_advantage`: time and memory.

    python benchmarks/verl_advantages.py --csv benchmarks/results/verl_advantages.csv

The batch is the paper's training step (1,024 prompts x 16 rollouts, padded to 3,072 tokens), or
`--times` as many prompts, in one call or in `--shards` calls of whole groups, one after another. It
lies in memory as it does there: int32 responses, an int64 response mask, float32 rewards.
"""

import argparse
import gc
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import verl.trainer.ppo.ray_trainer as ray_trainer
from estimator import append_rows, machine, random_batch
from omegaconf import OmegaConf
from verl import DataProto

import ktae.trainers.verl  # noqa: F401  # the plug-in

GIB = 2**30
Shard = dict[str, Any]
"""What is measured of one call, and how large its batch is."""
ESTIMATORS = ("grpo", "ktae")
PAPER_PROMPTS = 1024
PUBLISHED_STEP = {"7b": 559.36, "1.5b": 277.69}
"""Seconds of a GRPO step at that size on 8 H100 (the paper's table of training times)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=1, help="of the paper's 1,024 prompts")
    parser.add_argument("--prompts", type=int, default=PAPER_PROMPTS, help="instead of 1,024")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    groups, left = divmod(arguments.prompts * arguments.times, arguments.shards)
    assert not left, "shards of whole groups and equal size"
    shards = [measure(groups, seed, arguments.repeats) for seed in range(arguments.shards)]
    for name in ESTIMATORS:
        row = summarise(name, arguments, shards)
        print(row, flush=True)
        if arguments.csv:
            append_rows(arguments.csv, [row | machine()])


def measure(groups: int, seed: int, repeats: int) -> Shard:
    """Seconds of each round and GiB beyond the batch, of each estimator; they take turns."""
    data, about = batch(groups, seed)
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
    # The first round compiles.
    return about | {"seconds": {n: np.array(s[1:]) for n, s in seconds.items()}, "extra": extra}


def once(data: DataProto, name: str) -> tuple[float, float]:
    """Seconds, and the processor's, which a busy neighbour changes less."""
    config = OmegaConf.create({"norm_adv_by_std_in_grpo": True})
    started, worked = time.perf_counter(), time.process_time()
    ray_trainer.compute_advantage(data, adv_estimator=name, config=config)
    return time.perf_counter() - started, time.process_time() - worked


def batch(groups: int, seed: int) -> tuple[DataProto, Shard]:
    made = random_batch(groups=groups, seed=seed)
    lengths = made.mask.sum(axis=1)
    rewards = torch.zeros(made.mask.shape)
    rewards[torch.arange(len(lengths)), torch.from_numpy(lengths - 1)] = torch.from_numpy(
        made.correct.astype(np.float32)
    )
    tensors = {
        "responses": torch.from_numpy(made.token_ids),
        "response_mask": torch.from_numpy(made.mask).long(),
        "token_level_rewards": rewards,
    }
    uid = np.array([f"prompt-{group}" for group in made.groups], dtype=object)
    data = DataProto.from_dict(
        tensors=tensors, non_tensors={"uid": uid, "acc": made.correct.astype(np.float64)}
    )
    size = sum(tensor.nbytes for tensor in tensors.values()) / GIB
    return data, {"rollouts": len(lengths), "tokens": int(lengths.sum()), "inputs": size}


def memory(field: str) -> float:
    """GiB, from the kernel."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024 / GIB
    raise RuntimeError(f"no {field}")


def summarise(name: str, arguments: argparse.Namespace, shards: list[Shard]) -> dict[str, str]:
    total = np.sum([shard["seconds"][name] for shard in shards], axis=0)
    (low, median, high), worked = np.percentile(total[:, 0], (20, 50, 80)), np.median(total[:, 1])
    prompts = arguments.prompts * arguments.times
    shares = {
        f"share_of_{size}_step": f"{median / seconds:.6f}" if prompts == PAPER_PROMPTS else ""
        for size, seconds in PUBLISHED_STEP.items()
    }
    return {
        "adv_estimator": name,
        "prompts": str(prompts),
        "shards": str(arguments.shards),
        "rollouts": str(sum(shard["rollouts"] for shard in shards)),
        "tokens": str(sum(shard["tokens"] for shard in shards)),
        "p20_s": f"{low:.4f}",
        "median_s": f"{median:.4f}",
        "p80_s": f"{high:.4f}",
        "cpu_s": f"{worked:.4f}",
        "load": f"{os.getloadavg()[0]:.1f}",
        "repeats": str(arguments.repeats),
        "inputs_gib": f"{max(shard['inputs'] for shard in shards):.2f}",
        "extra_gib": f"{max(shard['extra'][name] for shard in shards):.2f}",
    } | shares


if __name__ == "__main__":
    main()
