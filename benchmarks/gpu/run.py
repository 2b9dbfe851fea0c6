"""Everything that has to be tried on a GPU, in one command, without a network.

    python benchmarks/gpu/run.py --output gpu
    python benchmarks/gpu/run.py --output gpu --small   # the same in small, on a CPU as well

It needs the extra `trl`, and for the training the folder of SmolLM2-135M-Instruct (`make smollm2`,
or `--model`): where there is no network, make it elsewhere, copy the folder that `make smollm2`
names, and give `--model FOLDER`. Three parts, a CSV each:

- gradients.csv: the gradient check of `ktae doctor` on the device, in float32 and in bf16;
- speed.csv: the backend of tensors beside the reference, and timed at the paper's batch;
- training.csv: twenty steps of TRL in bf16, with token credit and without.

A part that fails is printed, and the others run.
"""

from __future__ import annotations

import argparse
import platform
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from estimator import append_rows, random_batch

from ktae.batch import make_batch
from ktae.counting import naive
from ktae.device_batch import batch_on_device
from ktae.estimators import KTAE
from ktae.files.hub import copy_of
from ktae.trainers.trl import KTAETrainer
from ktae.trainers.trl.gradient_check import WEIGHTS, gradient_error, tiny_trainer

Rows = Iterator[dict[str, Any]]
ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
ABOUT = {
    "device": torch.cuda.get_device_name() if ON_GPU else platform.processor() or "cpu",
    "torch": torch.__version__,
}
INSTRUCTION = "You do arithmetic. Answer with the number only."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("gpu"), help="the folder to write")
    parser.add_argument("--small", action="store_true", help="a tiny model, batch and run")
    parser.add_argument("--model", default=str(copy_of("HuggingFaceTB/SmolLM2-135M-Instruct")))
    arguments = parser.parse_args()
    if not (ON_GPU or arguments.small):
        parser.error("torch sees no GPU; --small runs on a CPU")
    arguments.output.mkdir(parents=True, exist_ok=True)
    parts: dict[str, Callable[[], Rows]] = {
        "gradients": lambda: gradients(arguments.small),
        "speed": lambda: speed(16 if arguments.small else 1024),
        "training": lambda: training(None if arguments.small else arguments.model),
    }
    failed = []
    for name, part in parts.items():
        try:
            write(arguments.output / f"{name}.csv", part())
        except Exception:  # a driver, a version, a kernel: the other parts are worth having
            traceback.print_exc()
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all parts ran", flush=True)
    return int(bool(failed))


def write(path: Path, rows: Rows) -> None:
    """A CSV, each row as soon as it is there, and the row on the screen."""
    path.unlink(missing_ok=True)
    for row in rows:
        append_rows(path, [row | ABOUT])
        print(path.stem, *(f"{name}={value}" for name, value in row.items()), flush=True)


def gradients(small: bool) -> Rows:
    """The relative error of a real step's gradient. In bf16 it is mostly the arithmetic's; without
    token credit it would be at least .05, which the check asserts."""
    for loss in ("grpo", "dapo") if small else WEIGHTS:
        for bf16 in (False, True):
            error = next(filter(None, (error_of(loss, bf16, seed) for seed in range(2, 8))))
            yield {"loss": loss, "dtype": "bf16" if bf16 else "float32", "relative_error": error}


def error_of(loss: str, bf16: bool, seed: int) -> float | None:
    """None where no group of the rollouts that this seed draws on this device can be compared."""
    try:
        return gradient_error(loss, use_cpu=not ON_GPU, bf16=bf16, seed=seed)
    except RuntimeError as error:
        if "in this step" not in str(error):
            raise
        return None


def speed(groups: int) -> Rows:
    """Medians and quantiles of ten rounds, and the largest difference from the reference."""
    few = random_batch(groups=8, width=256, mean_length=60)
    expected = KTAE().by_units().credit(make_batch(*few), naive.credit)
    error = float(np.abs(credit_of(few)().cpu().numpy() - expected).max())
    made = random_batch(groups=groups)
    call = credit_of(made)
    if ON_GPU:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    seconds = []
    for _ in range(11):
        started = time.perf_counter()
        credit = call()
        if ON_GPU:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    low, median, high = np.percentile(seconds[1:], (20, 50, 80))
    size = credit.nbytes
    extra = torch.cuda.max_memory_allocated() - before - size if ON_GPU else float("nan")
    yield {
        "rollouts": len(made.groups),
        "tokens": int(made.mask.sum()),
        "p20_s": f"{low:.5f}",
        "median_s": f"{median:.5f}",
        "p80_s": f"{high:.5f}",
        "gib_beyond_output": f"{extra / 2**30:.3f}",
        "largest_difference": f"{error:.1e}",
    }


def credit_of(made: Any) -> Callable[[], torch.Tensor]:
    """The credit of random rollouts whose ids lie on the device."""
    ids = torch.from_numpy(made.token_ids).long().to(DEVICE)
    others = (made.mask, made.correct.astype(float), made.groups)
    return lambda: KTAE().credit(batch_on_device(ids, *others))


def training(model: str | None) -> Rows:
    """A row a step, with credit and without; without a model the tiny one, three steps."""
    for credit in ("trigrams", None):
        with tempfile.TemporaryDirectory() as folder:
            settings: dict[str, Any] = {
                "bf16": True,
                "use_cpu": not ON_GPU,
                "logging_steps": 1,
                "seed": 0,
            }
            if model is None:
                arguments = tiny_trainer(folder, **settings | {"max_steps": 3})
            else:
                arguments = sums(model, GRPOConfig(folder, **SMOLLM2, **settings))
            clock = Clock()
            if ON_GPU:
                torch.cuda.reset_peak_memory_stats()
            trainer = KTAETrainer(**arguments, credit=credit, callbacks=[clock])
            trainer.train()
            memory = torch.cuda.max_memory_allocated() / 2**30 if ON_GPU else float("nan")
            steps = [line for line in trainer.state.log_history if "reward" in line]
            for line, seconds in zip(steps, clock.seconds, strict=True):
                yield {
                    "credit": credit or "none",
                    "step": line["step"],
                    "reward": line["reward"],
                    "loss": line["loss"],
                    "grad_norm": line["grad_norm"],
                    "mean_abs_credit": line.get("credit/mean_abs", 0.0),
                    "seconds": f"{seconds:.3f}",
                    "peak_gib": f"{memory:.2f}",
                }


SMOLLM2: dict[str, Any] = {
    "max_steps": 20,
    "per_device_train_batch_size": 64,
    "num_generations": 8,
    "max_completion_length": 16,
    "learning_rate": 2e-5,
    "report_to": "none",
    "save_strategy": "no",
    "disable_tqdm": True,
}


def sums(model: str, config: GRPOConfig) -> dict[str, Any]:
    """A trainer's arguments: sums of two numbers of one or two digits."""
    rng = np.random.default_rng(0)
    terms = rng.integers(1, 100, (512, 2)).tolist()
    rows = [
        {
            "prompt": [
                {"role": "system", "content": INSTRUCTION},
                {"role": "user", "content": f"What is {a} + {b}?"},
            ],
            "answer": a + b,
        }
        for a, b in terms
    ]
    return {
        "model": model,
        "args": config,
        "train_dataset": Dataset.from_list(rows),
        "reward_funcs": last_number_is_right,
    }


def last_number_is_right(completions: list[Any], answer: list[int], **_: Any) -> list[float]:
    """1 or 0, by the last number of each completion."""
    numbers = [re.findall(r"\d+", completion[0]["content"]) for completion in completions]
    return [float(bool(n) and int(n[-1]) == a) for n, a in zip(numbers, answer, strict=True)]


class Clock(TrainerCallback):  # type: ignore[misc]
    """Keeps the seconds of each step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.started = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.started = time.perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.seconds.append(time.perf_counter() - self.started)


if __name__ == "__main__":
    sys.exit(main())
