"""Seconds of a training step through TRL, with the estimator and without, as in the paper's table.

    python benchmarks/step_time.py                                       # a tiny model, on a CPU
    python benchmarks/step_time.py --shape 1.5b --prompts 2 --length 3072  # on a GPU

The model has Qwen2.5-Math-1.5B's shape (or a tiny one) and random weights, and may not end a
response before its full length. What it says is next to uniform over its vocabulary: with 1.5B's
nearly all tokens differ, the most work that the estimator can have. Rewards are random, so groups
are mixed. Methods take turns. Appends one row a method to results/step_time.csv; the first step of
each round is left out.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, TrainerCallback
from trl import GRPOConfig

from ktae import KTAEConfig
from ktae.bench import append_rows, machine
from ktae.trl import KTAETrainer

HERE = Path(__file__).parent

SHAPES = {
    "tiny": {
        "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 2048,
    },
    "1.5b": {
        "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
        "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936,
        "tie_word_embeddings": True,
    },
}  # fmt: skip

METHODS: dict[str, tuple[str, KTAEConfig | None]] = {
    "grpo": ("grpo", None),
    "grpo-ktae": ("grpo", KTAEConfig.paper()),
    "grpo-calibrated": ("grpo", KTAEConfig.calibrated()),
    "dapo": ("dapo", None),
    "dapo-ktae": ("dapo", KTAEConfig.paper()),
}
"""Loss and estimator. Nothing is resampled: groups of random rewards are never equal."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="tiny")
    parser.add_argument("--prompts", type=int, default=8, help="of 16 rollouts each")
    parser.add_argument("--length", type=int, default=128, help="tokens of a response")
    parser.add_argument("--micro-batch", type=int, default=16, help="rollouts in a forward pass")
    parser.add_argument("--steps", type=int, default=4, help="in each round, the first left out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--csv", type=Path, default=HERE / "results/step_time.csv")
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    config = Qwen2Config(**SHAPES[arguments.shape], max_position_embeddings=8192)
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(config).to(device, dtype)
    tokenizer = make_tokenizer(config.vocab_size)
    steps: dict[str, list[tuple[float, float]]] = {name: [] for name in METHODS}
    for _ in range(arguments.rounds):
        for name in METHODS:
            steps[name] += train(name, model, tokenizer, arguments)[1:]
    for name, measured in steps.items():
        seconds = [step for step, _ in measured]
        row = {
            "shape": arguments.shape, "method": name, "device": device,
            "rollouts": str(16 * arguments.prompts), "length": str(arguments.length),
            "steps": str(len(measured)), "seconds": f"{statistics.median(seconds):.3f}",
            "seconds_20": f"{np.quantile(seconds, 0.2):.3f}",
            "seconds_80": f"{np.quantile(seconds, 0.8):.3f}",
            "ktae_seconds": f"{statistics.median(own for _, own in measured):.4f}",
        }  # fmt: skip
        print(row, flush=True)
        append_rows(arguments.csv, [row | machine()])


def train(
    name: str, model: Any, tokenizer: Any, arguments: argparse.Namespace
) -> list[tuple[float, float]]:
    """Each step's seconds, and those of the estimator in it."""
    loss, ktae = METHODS[name]
    clock = Clock()
    rng = np.random.default_rng(0)

    def random_reward(completions: list[str], **_: Any) -> list[float]:
        return rng.permutation(np.arange(len(completions)) % 2).astype(float).tolist()

    with tempfile.TemporaryDirectory() as folder:
        trainer = KTAETrainer(
            model=model,
            processing_class=tokenizer,
            reward_funcs=random_reward,
            correctness="random_reward",
            ktae=ktae,
            train_dataset=Dataset.from_list([{"prompt": f"t{n} t7 t8"} for n in range(64)]),
            callbacks=[clock],
            args=GRPOConfig(
                output_dir=folder,
                loss_type=loss,
                epsilon_high=0.28 if loss == "dapo" else None,
                beta=0.0,
                learning_rate=1e-7,
                max_steps=arguments.steps,
                num_generations=16,
                per_device_train_batch_size=arguments.micro_batch,
                gradient_accumulation_steps=16 * arguments.prompts // arguments.micro_batch,
                max_completion_length=arguments.length,
                generation_kwargs={"min_new_tokens": arguments.length},
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                bf16=next(model.parameters()).dtype == torch.bfloat16,
                use_cpu=model.device.type == "cpu",
            ),
        )
        trainer.train()
    return clock.steps


class Clock(TrainerCallback):
    """Seconds from log to log, and the trainer's own count of the estimator's."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, float]] = []
        self.began = time.perf_counter()

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.began = time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if logs is not None and "loss" in logs:
            now = time.perf_counter()
            self.steps.append((now - self.began, logs.get("ktae/seconds", 0.0)))
            self.began = now


def make_tokenizer(size: int) -> PreTrainedTokenizerFast:
    """A word for each id; the last one ends a response."""
    words = {f"t{n}": n for n in range(size - 1)} | {"<eos>": size - 1}
    tokenizer = Tokenizer(WordLevel(words, unk_token="t0"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<eos>", padding_side="left"
    )


if __name__ == "__main__":
    main()
