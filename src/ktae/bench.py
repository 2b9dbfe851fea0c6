"""How fast the estimator is: the paper's batch, and what its time is compared with."""

from __future__ import annotations

import csv
import datetime
import importlib.util
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ktae._version import __version__
from ktae.backends import BACKENDS, installed_version
from ktae.credit import token_credit
from ktae.errors import InputError
from ktae.estimators import KINDS, PRESETS, preset

ESTIMATORS = (*PRESETS, *(name for name in KINDS if name not in PRESETS))
"""Names that stand for an estimator on the CPU backend."""

VERSIONS_OF = ("numpy", "numba", "torch", "triton", "verl")


class Rollouts(NamedTuple):
    """Random rollouts of a training step."""

    token_ids: np.ndarray
    """(B, T) int32 or int64."""
    mask: np.ndarray
    """(B, T) bool, right-padded."""
    correct: np.ndarray
    """(B,) bool; every group has its own share of correct rollouts, and mixed ones both kinds."""
    groups: np.ndarray
    """(B,) int64."""


class Timing(NamedTuple):
    """One row of the comparison."""

    name: str
    seconds: list[float]
    """One for each repeat, sorted; empty: not measured."""
    note: str = ""
    device: str = "cpu"
    """Where it computed, whatever the others did."""
    threads: int = 1
    """Of the host, that it may use."""

    @property
    def quantiles(self) -> tuple[float, float, float]:
        """20 %, median and 80 %, in seconds."""
        low, median, high = np.percentile(self.seconds, (20, 50, 80))
        return float(low), float(median), float(high)


def random_batch(
    *,
    groups: int = 1024,
    group_size: int = 16,
    width: int = 3072,
    mean_length: float = 700.0,
    vocabulary: int = 151_643,
    mixed: float = 1.0,
    dtype: Any = np.int32,
    seed: int = 0,
) -> Rollouts:
    """The paper's step by default: 1024 prompts x 16 rollouts of at most 3072 tokens.

    Lengths are gamma distributed (shape 4), token ids Zipf distributed over the vocabulary. The
    share of correct rollouts is uniform over groups, but every group has one of each kind: where
    there is nothing to compare, ktae would save itself most of the work. Only the share `mixed` of
    the groups, spread evenly, is so; in the others all rollouts are alike.

    Raises:
        InputError: groups of fewer than two rollouts, which cannot be mixed.
    """
    if group_size < 2:
        raise InputError(f"group_size is {group_size}; expected at least 2, one of each class")
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
    alike = np.diff(np.floor(np.arange(groups + 1) * (1 - mixed) + 1e-9)) > 0
    correct[alike] = correct[alike, :1]
    return Rollouts(ids, mask, correct.ravel(), np.repeat(np.arange(groups), group_size))


def compare(
    batch: Rollouts, names: list[str], *, repeats: int, device: str = "cpu"
) -> list[Timing]:
    """Time each named contender on the batch, in turn in every round, so that all see the same
    machine. Names: the backends (with the paper's estimator), any other estimator's (on the CPU
    backend), `copy`, `torch sort`, `verl grpo`, `verl grpo_vectorized`.
    `device` is where the torch backend and the sort compute; triton always does on the GPU, the
    others know the CPU alone."""
    prepared = [(name, *_contender(name, batch, device)) for name in names]
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(repeats + 1):
        for name, call, _ in prepared:
            if call is None:
                continue
            started = time.perf_counter()
            result = call()
            elapsed = time.perf_counter() - started
            del result
            if round_number > 0:  # the first warms caches up and compiles
                seconds[name].append(elapsed)
    return [
        Timing(name, sorted(seconds[name]), note, _device(name, device), _threads(name))
        for name, _, note in prepared
    ]


def _device(name: str, device: str) -> str:
    if name == "triton":  # off a GPU it would run in the interpreter, or not at all
        return "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"
    return device if name in ("torch", "torch sort") else "cpu"


def _threads(name: str) -> int:
    if name == "cpu" or name in ESTIMATORS:
        import numba

        return int(numba.config.NUMBA_NUM_THREADS)
    uses_torch = name.startswith(("torch", "verl"))
    if uses_torch and importlib.util.find_spec("torch") is not None:
        import torch

        return int(torch.get_num_threads())
    return 1


def write_csv(
    path: Path, batch: Rollouts, timings: list[Timing], *, vocabulary: int, **more: Any
) -> None:
    """Append one row a contender: median and spread, with machine, versions and date.

    `more` is what else tells this batch or process from others, as columns.
    """
    setting = more | {
        "rollouts": batch.token_ids.shape[0],
        "width": batch.token_ids.shape[1],
        "tokens": int(batch.mask.sum()),
        "vocabulary": vocabulary,
        "dtype": str(batch.token_ids.dtype),
    }
    rows = []
    for timing in timings:
        measured = dict.fromkeys(("p20_s", "median_s", "p80_s"), "not measured")
        if timing.seconds:
            measured = dict(zip(measured, (f"{x:.5f}" for x in timing.quantiles), strict=True))
        place = {"device": timing.device, "threads": timing.threads}
        repeats = {"repeats": len(timing.seconds), "note": timing.note}
        rows.append({"name": timing.name} | setting | place | measured | repeats | machine())
    append_rows(path, rows)


def append_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Append dicts of equal keys to a CSV file, which gets a header if it is new.

    Raises:
        InputError: the file has other columns.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    if not new:
        with path.open(newline="", encoding="utf-8") as file:
            header = next(csv.reader(file), [])
        if header != list(rows[0]):
            raise InputError(f"{path} has other columns: {', '.join(header)}; give another file")
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def machine() -> dict[str, str]:
    """Where and with what: processor, cores, GPU, versions, date."""
    versions = {"python": platform.python_version(), "ktae": __version__}
    for name in VERSIONS_OF:
        if importlib.util.find_spec(name) is not None:
            versions[name] = installed_version(name)
    return {
        "cpu": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "gpu": _gpu(),
        "versions": " ".join(f"{name}={version}" for name, version in versions.items()),
        "date": datetime.date.today().isoformat(),
    }


def _contender(name: str, batch: Rollouts, device: str) -> tuple[Callable[[], Any] | None, str]:
    """Something to time, or None and why not."""
    if name == "copy":
        return _copy(batch), "np.copyto of ids, mask and output into memory touched before"
    if name == "torch sort":
        return _sort(batch, device)
    if name.startswith("verl "):
        return _verl(name.removeprefix("verl "), batch)
    if name in ESTIMATORS:
        return _estimator(name, batch)
    reason = BACKENDS[name].missing()
    if reason:
        return None, reason
    place = _device(name, device)
    arrays = _on(place, batch) if BACKENDS[name].arrays == "torch" else batch

    def call() -> Any:
        out = token_credit(*arrays, backend=name)
        if place != "cpu":
            import torch

            torch.cuda.synchronize()
        return out

    return call, BACKENDS[name].description


def _estimator(name: str, batch: Rollouts) -> tuple[Callable[[], Any], str]:
    """An estimator on the CPU backend; what it needs of the policy is 0 throughout."""
    estimator = preset(name)
    policy: Any = {need: np.zeros(batch.mask.shape) for need in estimator.needs_policy}
    return lambda: token_credit(*batch, estimator, backend="cpu", **policy), str(estimator)


def _on(device: str, batch: Rollouts) -> Any:
    import torch

    return tuple(torch.from_numpy(array).to(device) for array in batch)


def _copy(batch: Rollouts) -> Callable[[], None]:
    sources = (batch.token_ids, batch.mask, np.zeros(batch.token_ids.shape, dtype=np.float32))
    for source in sources:
        source.ravel()[:: 4096 // source.itemsize] = source.ravel()[:: 4096 // source.itemsize]
    targets = [source.copy() for source in sources]

    def call() -> None:
        for source, target in zip(sources, targets, strict=True):
            np.copyto(target, source)

    return call


def _sort(batch: Rollouts, device: str) -> tuple[Callable[[], Any] | None, str]:
    """The one step that the torch backend cannot do without."""
    if importlib.util.find_spec("torch") is None:
        return None, "torch is not installed"
    import torch

    keys = (batch.groups[:, None] << 32 | batch.token_ids)[batch.mask]
    tensor = torch.from_numpy(keys).to(device)

    def call() -> None:
        tensor.sort(stable=True)
        if device != "cpu":
            torch.cuda.synchronize()

    return call, "sorting all unmasked tokens by group and id, and nothing else"


def _verl(name: str, batch: Rollouts) -> tuple[Callable[[], Any] | None, str]:
    """verl's own rollout advantages, which KTAE's credit is added to."""
    if importlib.util.find_spec("verl") is None:
        return None, "verl is not installed"
    import torch
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    function = get_adv_estimator_fn(name)
    mask = torch.from_numpy(batch.mask).float()
    rewards = torch.zeros_like(mask)
    rewards[:, 0] = torch.from_numpy(batch.correct).float()
    index = batch.groups.astype(str).astype(object)
    return lambda: function(token_level_rewards=rewards, response_mask=mask, index=index), (
        "verl's rollout advantages alone"
    )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def has_gpu() -> bool:
    """Whether torch is installed and sees a CUDA device."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def _gpu() -> str:
    if not has_gpu():
        return "none"
    import torch

    return str(torch.cuda.get_device_name())
