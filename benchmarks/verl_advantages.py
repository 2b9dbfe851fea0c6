"""Token credit inside verl's own `compute_advantage`, beside its GRPO: seconds on the driver.

    python benchmarks/verl_advantages.py --csv benchmarks/results/verl_advantages.csv

The batch is the paper's training step (1,024 prompts x 16 responses, padded to 3,072 tokens), as it
lies in memory there: int32 responses, an int64 response mask, float32 rewards. A GRPO step of that
size took the paper 559 s with a 7B model on 8 H100, and 278 s with a 1.5B one.
"""

import argparse
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

ESTIMATORS = ("grpo", "ktae")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    data = batch(arguments.prompts)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in ESTIMATORS}
    for _ in range(arguments.repeats + 1):  # they take turns; the first round compiles
        for name in ESTIMATORS:
            seconds[name].append(once(data, name))
    for name in ESTIMATORS:
        elapsed, worked = np.array(seconds[name][1:]).T
        low, median, high = np.percentile(elapsed, (20, 50, 80))
        row = {"adv_estimator": name, "prompts": arguments.prompts, "rollouts": len(data)}
        row |= {"tokens": int(data.batch["response_mask"].sum()), "repeats": arguments.repeats}
        row |= {"p20_s": f"{low:.4f}", "median_s": f"{median:.4f}", "p80_s": f"{high:.4f}"}
        row |= {"cpu_s": f"{np.median(worked):.4f}", "load": f"{os.getloadavg()[0]:.1f}"}
        print(row, flush=True)
        if arguments.csv:
            append_rows(arguments.csv, [row | machine()])


def once(data: DataProto, name: str) -> tuple[float, float]:
    """Seconds, and the processor's, which a busy neighbour changes less."""
    config = OmegaConf.create({"norm_adv_by_std_in_grpo": True})
    infos = [{"acc": correct} for correct in data.non_tensor_batch["acc"]]
    started, worked = time.perf_counter(), time.process_time()
    with handed_over(rollouts_of_infos(data.batch["responses"], infos)):
        ray_trainer.compute_advantage(data, adv_estimator=name, config=config)
    del data.batch["advantages"], data.batch["returns"]
    return time.perf_counter() - started, time.process_time() - worked


def batch(prompts: int) -> DataProto:
    made = random_batch(groups=prompts)
    rewards = torch.zeros(made.mask.shape)
    rewards[range(len(made.mask)), made.mask.sum(axis=1) - 1] = torch.tensor(made.correct).float()
    return DataProto.from_dict(
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


if __name__ == "__main__":
    main()
