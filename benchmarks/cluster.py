"""What KTAE would cost verl's driver on a large cluster: bytes, memory and seconds, simulated.

    python benchmarks/cluster.py --csv benchmarks/results/cluster.csv

Three things are real: the bytes, counted on tensors of the dtypes that verl moves; the estimator's
time a token, measured here on the paper's step; and the check that shards of whole groups give, bit
for bit, what the whole batch gives. The rest is arithmetic: `weak` gives every eight GPUs the
paper's 1,024 prompts and its published step time, `strong` divides one such step among all GPUs.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from estimator import Rollouts, append_rows, machine, random_batch

from ktae.credit import token_credit

PAPER_GPUS, PAPER_PROMPTS, GROUP_SIZE, WIDTH = 8, 1024, 16, 3072
PUBLISHED_STEP = 559.36
"""Seconds of a GRPO step of the 7B model on 8 H100, from the paper's table of training times."""
GB = 1e9

MOVED_BY_VERL = {
    "response_mask": 8,
    "rm_scores": 4,
    "rollout_log_probs": 4,
    "old_log_probs": 4,
    "advantages": 4,
    "returns": 4,
}
"""Bytes a response token between TransferQueue and the driver for the advantages of plain GRPO."""
MOVED_BY_KTAE = {"responses": 8}
HELD_BY_VERL = {**MOVED_BY_VERL, "token_level_rewards": 0}  # the same tensor as rm_scores
HELD_BY_KTAE = {"responses": 4, "credit": 4}
"""Bytes a padded position in the driver's memory."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, nargs="+", default=[8, 64, 256, 1024])
    parser.add_argument("--network", type=float, default=10.0, help="GB/s into the driver")
    parser.add_argument("--cores", type=int, default=64, help="of the driver's machine")
    parser.add_argument("--groups", type=int, default=PAPER_PROMPTS, help="measured here")
    parser.add_argument("--shards", type=int, nargs="+", default=[2, 8, 32])
    parser.add_argument("--csv", type=Path)
    arguments = parser.parse_args()
    batch = random_batch(groups=arguments.groups, dtype=np.int64)
    check_shards(batch, arguments.shards)
    core_seconds = seconds_per_token(batch)
    tokens_per_rollout = batch.mask.sum() / len(batch.mask)
    print(
        f"{1e9 * core_seconds:.1f} ns a token and core, {tokens_per_rollout:.0f} tokens a rollout"
    )
    for scaling in ("weak", "strong"):
        for gpus in arguments.gpus:
            row = simulate(scaling, gpus, core_seconds, tokens_per_rollout, arguments)
            print(row, flush=True)
            if arguments.csv:
                append_rows(arguments.csv, [row | machine()])


def check_shards(batch: Rollouts, counts: list[int]) -> None:
    """A group's credit depends on its own rollouts and nothing else, to the last bit."""
    whole = token_credit(*batch)
    for count in counts:
        for rows in np.array_split(np.arange(len(whole)).reshape(-1, GROUP_SIZE), count):
            own = rows.ravel()
            shard = token_credit(*Rollouts(*(array[own] for array in batch)))
            assert np.array_equal(shard.view(np.int32), whole[own].view(np.int32)), count
        print(f"{count} shards of whole groups: bit for bit the same", flush=True)


def seconds_per_token(batch: Rollouts, repeats: int = 7) -> float:
    """Processor seconds, all threads together; the median of some rounds."""
    rounds = []
    for _ in range(repeats):
        started = time.process_time()
        token_credit(*batch)
        rounds.append(time.process_time() - started)
    return float(np.median(rounds)) / float(batch.mask.sum())


def simulate(
    scaling: str,
    gpus: int,
    core_seconds: float,
    tokens_per_rollout: float,
    arguments: argparse.Namespace,
) -> dict[str, str]:
    prompts = PAPER_PROMPTS * (gpus // PAPER_GPUS if scaling == "weak" else 1)
    step = PUBLISHED_STEP * (1 if scaling == "weak" else PAPER_GPUS / gpus)
    rollouts = prompts * GROUP_SIZE
    tokens, positions = rollouts * tokens_per_rollout, rollouts * WIDTH
    moved = tokens * sum(MOVED_BY_KTAE.values())
    compute = tokens * core_seconds
    wire = moved / (arguments.network * GB)
    on_driver = wire + compute / arguments.cores
    nodes = max(gpus // PAPER_GPUS, 1)
    sharded = (wire + compute / arguments.cores) / nodes
    return {
        "scaling": scaling,
        "gpus": str(gpus),
        "prompts": str(prompts),
        "tokens": f"{tokens:.3g}",
        "step_s": f"{step:.1f}",
        "moved_gb_verl": f"{tokens * sum(MOVED_BY_VERL.values()) / GB:.2f}",
        "moved_gb_ktae": f"{moved / GB:.2f}",
        "driver_gb_verl": f"{positions * sum(HELD_BY_VERL.values()) / GB:.1f}",
        "driver_gb_ktae": f"{positions * sum(HELD_BY_KTAE.values()) / GB:.1f}",
        "core_seconds": f"{compute:.2f}",
        "driver_s": f"{on_driver:.3f}",
        "driver_share": f"{on_driver / step:.5f}",
        "sharded_s": f"{sharded:.4f}",
        "sharded_share": f"{sharded / step:.6f}",
        "network_gb_s": f"{arguments.network:g}",
        "driver_cores": str(arguments.cores),  # `cores` are those of the machine measured on
        "ns_per_token_and_core": f"{1e9 * core_seconds:.2f}",
    }


if __name__ == "__main__":
    main()
