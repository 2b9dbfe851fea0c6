"""How long credit takes on the paper's batch, beside verl's advantages and a memory copy.

    python benchmarks/estimator.py [CONTENDER ...] [--groups 256] [--csv results/estimators.csv]
    python benchmarks/estimator.py --check    # which ratio to `paper` has left its band?

A contender is an estimator's name; `NAME@cuda`, the same with token ids on the GPU; `copy`, which
copies inputs and output; or verl's `verl grpo` and `verl grpo_vectorized`. They take turns in every
round, so that all see the same machine: what holds on any machine is their ratio to `paper`.
"""

import argparse
import csv
import datetime
import importlib.metadata
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np

from ktae import preset, token_credit
from ktae._version import __version__
from ktae.files.atomic import atomic_write

DEFAULT = (
    *("paper", "backoff", "calibrated", "trigrams", "sharp-trigrams", "tempo", "conflict-tokens"),
    *("advantage-reweighting", "entropy-weights", "stride"),
    *("copy", "verl grpo", "verl grpo_vectorized"),
)
BAND = 1.3
"""How many times the ratio of `RESULTS` a ratio may be, or the other way round."""
RESULTS = Path(__file__).parent / "results/estimators.csv"
VOCABULARY = 151_643


class Rollouts(NamedTuple):
    """Random rollouts of a training step, right-padded."""

    token_ids: np.ndarray
    mask: np.ndarray
    correct: np.ndarray
    groups: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("contenders", nargs="*", default=DEFAULT)
    parser.add_argument("--groups", type=int, nargs="*", default=[256])
    parser.add_argument("--dtype", choices=("int32", "int64"), default="int32")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        known = ratios(RESULTS)
        rows = compare(random_batch(groups=arguments.groups[0]), list(known), arguments.repeats)
        sys.exit("\n".join(out_of_band(rows, known)) or 0)
    for groups in arguments.groups:
        batch = random_batch(groups=groups, dtype=np.dtype(arguments.dtype))
        print(f"{len(batch.groups):,} rollouts, {batch.mask.sum():,} tokens, {arguments.dtype}")
        for row in compare(batch, list(arguments.contenders), arguments.repeats):
            print("{name}: {median_s} s ({p20_s} to {p80_s})".format(**row), flush=True)
            if arguments.csv:
                append_rows(arguments.csv, [row | machine()])


def random_batch(
    *,
    groups: int = 1024,
    group_size: int = 16,
    width: int = 3072,
    mean_length: float = 700.0,
    vocabulary: int = VOCABULARY,
    dtype: Any = np.int32,
    seed: int = 0,
) -> Rollouts:
    """The paper's step by default: 1024 prompts x 16 rollouts of at most 3072 tokens.

    Lengths are gamma distributed (shape 4), token ids Zipf distributed over the vocabulary. The
    share of correct rollouts is uniform over groups, but every group has one of each kind: where
    there is nothing to compare, ktae would save itself most of the work.
    """
    rng = np.random.default_rng(seed)
    n_rows = groups * group_size
    lengths = np.clip(rng.gamma(4, mean_length / 4, n_rows), 1, width).astype(np.int64)
    mask = np.arange(width) < lengths[:, None]
    share = 1 / np.arange(1, vocabulary + 1)
    ids = np.zeros((n_rows, width), dtype=dtype)
    draws = rng.random(int(mask.sum()))
    ids[mask] = np.searchsorted(np.cumsum(share / share.sum()), draws)
    np.clip(ids, 0, vocabulary - 1, out=ids)
    correct = rng.random((groups, group_size)) < rng.random((groups, 1))
    pure = correct.all(axis=1) | ~correct.any(axis=1)
    correct[pure, 0] ^= True
    return Rollouts(ids, mask, correct.ravel(), np.repeat(np.arange(groups), group_size))


def compare(batch: Rollouts, names: list[str], repeats: int) -> list[dict[str, Any]]:
    """A row for each contender; they take turns. The first round is for compiling."""
    calls = {name: contender(name, batch) for name in names}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(repeats + 1):
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - started)
    sizes = {"rollouts": len(batch.groups), "width": batch.mask.shape[1]}
    sizes |= {"tokens": int(batch.mask.sum()), "vocabulary": VOCABULARY}
    rows = []
    for name in names:
        low, median, high = (f"{x:.5f}" for x in np.percentile(seconds[name][1:], (20, 50, 80)))
        ratio = np.median(np.divide(seconds[name][1:], seconds.get("paper", seconds[name])[1:]))
        row = {"name": name} | sizes | {"p20_s": low, "median_s": median, "p80_s": high}
        row |= {"ratio": f"{ratio:.2f}", "dtype": str(batch.token_ids.dtype)}
        rows.append(row | {"threads": numba.config.NUMBA_NUM_THREADS, "repeats": repeats})
    return rows


def ratios(path: Path) -> dict[str, float]:
    """The ratios to `paper` that a CSV has, by contender."""
    return {row["name"]: float(row["ratio"]) for row in read_rows(path)}


def out_of_band(rows: list[dict[str, Any]], known: dict[str, float]) -> list[str]:
    """A line for each contender whose ratio is not within `BAND` of the known one."""
    return [
        f"{name} takes {row['ratio']} times what paper takes; {RESULTS.name} says {known[name]:.2f}"
        for row in rows
        if not known[name := row["name"]] / BAND <= float(row["ratio"]) <= known[name] * BAND
    ]


def contender(name: str, batch: Rollouts) -> Callable[[], Any]:
    if name == "copy":
        return copy(batch)
    if name.startswith("verl "):
        return verl(name.removeprefix("verl "), batch)
    name, _, device = name.partition("@")
    estimator = preset(name)
    if not device:
        policy: Any = {need: np.zeros(batch.mask.shape) for need in estimator.needs_policy}
        return lambda: token_credit(*batch, estimator, policy=policy)
    import torch

    ids = torch.from_numpy(batch.token_ids).long().to(device)

    def call() -> None:
        token_credit(ids, *batch[1:], estimator)
        torch.cuda.synchronize()

    return call


def copy(batch: Rollouts) -> Callable[[], None]:
    sources = (batch.token_ids, batch.mask, np.ones(batch.token_ids.shape, dtype=np.float32))
    targets = [source.copy() for source in sources]

    def call() -> None:
        for source, target in zip(sources, targets, strict=True):
            np.copyto(target, source)

    return call


def verl(name: str, batch: Rollouts) -> Callable[[], Any]:
    """verl's own rollout advantages, which token credit is added to."""
    import torch
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    function = get_adv_estimator_fn(name)
    mask = torch.from_numpy(batch.mask).float()
    rewards = torch.zeros_like(mask)
    rewards[:, 0] = torch.from_numpy(batch.correct).float()
    index = batch.groups.astype(str).astype(object)
    return lambda: function(token_level_rewards=rewards, response_mask=mask, index=index)


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write dicts, with keys of the first, to a CSV file: whole or not at all."""
    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Append dicts of equal keys to a CSV file, which gets a header if it is new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    if not new:
        with path.open(newline="", encoding="utf-8") as file:
            header = next(csv.reader(file), [])
        if header != list(rows[0]):
            raise SystemExit(f"{path} has other columns: {', '.join(header)}; give another file")
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def machine() -> dict[str, str]:
    """Where and with what: processor, cores, GPU, versions, date."""
    versions = {"python": platform.python_version(), "ktae": __version__}
    for name in ("numpy", "numba", "torch", "verl"):
        if importlib.util.find_spec(name) is not None:
            versions[name] = importlib.metadata.version(name)
    gpu = "none"
    if "torch" in versions:
        import torch

        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else gpu
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "gpu": gpu,
        "versions": " ".join(f"{name}={version}" for name, version in versions.items()),
        "date": datetime.date.today().isoformat(),
    }


if __name__ == "__main__":
    main()
