"""Seconds of a training step through TRL, with the estimator and without, as in the paper's table.

    python -m ktae_lab.step_time                 # the demo, on a CPU
    python -m ktae_lab.step_time --shape 1.5b    # on a GPU; --prompts 2 --length 3072 by default

`demo` is lab/recipes/hard as it stands: base model 0, its problems and its checker, eight
optimizer steps on a step's rollouts. `1.5b` has Qwen2.5-Math-1.5B's shape and random weights, and
may not end a response before its full length. What it says is next to uniform over its vocabulary:
nearly all tokens differ, the most work that the estimator can have. Its rewards are random, half of
each group is correct, so there is nothing to resample.

In a round every method takes one step, in a random order, from the same weights and with the same
seed: all sample the same rollouts (dynamic sampling: the same again) and differ in what they make
of them. So what a method adds to its baseline is taken round by round; the 95 % interval of its
mean is that of studies, over rounds instead of seeds. A first round warms up and is left out.
Rows of the same shape in lab/results/step_time.csv are replaced, those of others kept.
"""

import argparse
import copy
import csv
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import (
    PreTrainedTokenizerFast,
    PrinterCallback,
    Qwen2Config,
    Qwen2ForCausalLM,
    TrainerCallback,
)

from ktae import InputError
from ktae.inference import mean_interval
from ktae.recipe import Recipe, load
from ktae.trainers.trl import KTAETrainer
from ktae.trainers.trl.run import load_policy
from ktae.trainers.trl.settings import grpo_config, optimizer_steps
from ktae.trainers.trl.tasks import DemoTask
from ktae_lab.csv_files import write_csv
from ktae_lab.study.provenance import machine
from ktae_lab.tables.page import LAB, RESULTS

RECIPES = LAB / "recipes/hard"

METHODS = {
    "grpo": ("grpo", ()),
    "grpo-ktae": ("grpo-ktae", ()),
    "grpo-calibrated": ("grpo-calibrated", ()),
    "dapo": ("dapo", ()),
    "dapo-ktae": ("dapo-ktae", ()),
    "dapo-calibrated": ("dapo-ktae", ("credit=calibrated",)),
}
"""A recipe and its overrides, by the names of lab/matrices/main.yaml."""

BASELINES = {name: name.split("-")[0] for name in METHODS if "-" in name}

QWEN_1_5B = {
    "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
    "num_attention_heads": 12, "num_key_value_heads": 2, "vocab_size": 151936,
    "tie_word_embeddings": True,
}  # fmt: skip

COLUMNS = (
    *("shape", "method", "device", "rollouts", "length", "mean_length", "rounds"),
    *("seconds", "seconds_20", "seconds_80", "credit_seconds"),
    *("baseline", "added", "added_low", "added_high"),
)
"""Seconds are medians, with quantiles; what a method adds to its baseline is a mean over rounds,
with its interval."""


class Shape(NamedTuple):
    """What the recipes train."""

    overrides: tuple[str, ...]
    """Of the recipes."""
    policy: Callable[[Recipe], tuple[Any, Any]]
    """Model and tokenizer."""
    train_set: Callable[[Recipe], Dataset]
    reward: Callable[[Any, Recipe], Any]
    """From the tokenizer to a reward function."""
    full_length: bool
    """No response may end before the limit."""


class Step(NamedTuple):
    """What a step took."""

    seconds: float
    credit_seconds: float
    """Of the estimator in it, 0 without one."""
    mean_length: float
    """Tokens of a rollout."""


def main(argv: list[str] | None = None) -> None:
    """Measure, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="demo")
    parser.add_argument(
        "--rounds", type=int, default=30, help="of a step a method; 6 for an interval"
    )
    parser.add_argument("--prompts", type=int, help="of 16 rollouts each, in a step")
    parser.add_argument("--length", type=int, help="most tokens of a response")
    parser.add_argument("--micro-batch", type=int, help="rollouts in a forward pass")
    parser.add_argument("--csv", type=Path, default=RESULTS / "step_time.csv")
    arguments = parser.parse_args(argv)
    if arguments.rounds < 2:
        parser.error(f"--rounds is {arguments.rounds}; expected 2 or more, for an interval")
    kept = rows_of_other_shapes(arguments.csv, arguments.shape)  # an error now, not at the end
    shape, recipes = SHAPES[arguments.shape], recipes_of(arguments)
    measured = measure(shape, recipes, arguments.rounds)
    rows = [
        {"shape": arguments.shape, "method": name} | setting(recipe) | summary(name, measured)
        for name, recipe in recipes.items()
    ]
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    arguments.csv.parent.mkdir(parents=True, exist_ok=True)
    write_csv(arguments.csv, [*kept, *(row | machine() for row in rows)])


def recipes_of(arguments: argparse.Namespace) -> dict[str, Recipe]:
    """Each method's, one training step long."""
    changed = {
        "rollout.prompts_per_step": arguments.prompts,
        "rollout.max_response_length": arguments.length,
        "trl.forward_rollouts": arguments.micro_batch,
    }
    usual = ("steps=1", *SHAPES[arguments.shape].overrides)
    asked = [f"{key}={value}" for key, value in changed.items() if value is not None]
    return {
        name: load(RECIPES / f"{file}.yaml", [*own, *usual, *asked])
        for name, (file, own) in METHODS.items()
    }


def measure(shape: Shape, recipes: dict[str, Recipe], rounds: int) -> dict[str, list[Step]]:
    """Each method's steps, one a round."""
    model, tokenizer = shape.policy(recipes["grpo"])
    order = np.random.default_rng(0)
    steps: dict[str, list[Step]] = {name: [] for name in METHODS}
    for number in range(rounds + 1):
        began = time.perf_counter()
        for name in map(str, order.permutation(list(METHODS))):
            recipe = recipes[name].model_copy(update={"seed": number})
            step = train(shape, recipe, model, tokenizer)
            if number > 0:
                steps[name].append(step)
        what = f"round {number} of {rounds}" if number else "warm-up"
        print(f"{what}: {time.perf_counter() - began:.1f} s", flush=True)
    return steps


def train(shape: Shape, recipe: Recipe, model: Any, tokenizer: Any) -> Step:
    """One step of a copy of the model: the recipe's seed and the model decide on the rollouts."""
    clock = Clock(optimizer_steps(recipe))
    with tempfile.TemporaryDirectory() as folder:
        config = grpo_config(recipe, Path(folder))
        config.save_strategy = "no"
        if shape.full_length:
            config.generation_kwargs = {"min_new_tokens": recipe.rollout.max_response_length}
        trainer = KTAETrainer(
            model=copy.deepcopy(model),
            processing_class=tokenizer,
            reward_funcs=shape.reward(tokenizer, recipe),
            credit=recipe.credit,
            resampling_rounds=recipe.algorithm.resampling_rounds,
            train_dataset=shape.train_set(recipe),
            callbacks=[clock],
            args=config,
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    del trainer
    gc.collect()  # trainers refer to themselves: two policies would be in memory
    (step,) = clock.steps
    return step


class Clock(TrainerCallback):
    """Seconds of a training step, from its first optimizer step to its log."""

    def __init__(self, optimizer_steps: int) -> None:
        self.optimizer_steps = optimizer_steps
        self.steps: list[Step] = []
        self.began = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the clock at the first optimizer step of a training step."""
        if state.global_step % self.optimizer_steps == 0:
            self.began = time.perf_counter()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Stop it where the step's metrics are logged."""
        if logs is not None and "loss" in logs:
            seconds = time.perf_counter() - self.began
            own, length = logs.get("credit/seconds", 0.0), logs["completions/mean_length"]
            self.steps.append(Step(seconds, own, length))


def setting(recipe: Recipe) -> dict[str, str]:
    """What a row says of the rollouts."""
    return {
        "device": "cuda" if torch.cuda.is_available() else "cpu",
        "rollouts": str(recipe.rollout.prompts_per_step * recipe.rollout.group_size),
        "length": str(recipe.rollout.max_response_length),
    }


def summary(method: str, measured: dict[str, list[Step]]) -> dict[str, str]:
    """A method's steps, and what they add to its baseline's."""
    steps = measured[method]
    seconds = np.array([step.seconds for step in steps])
    row = {
        "mean_length": f"{statistics.mean(step.mean_length for step in steps):.1f}",
        "rounds": str(len(steps)),
        "seconds": f"{np.median(seconds):.4f}",
        "seconds_20": f"{np.quantile(seconds, 0.2):.4f}",
        "seconds_80": f"{np.quantile(seconds, 0.8):.4f}",
        "credit_seconds": f"{statistics.median(step.credit_seconds for step in steps):.5f}",
        "baseline": BASELINES.get(method, ""),
    }
    added = dict.fromkeys(("added", "added_low", "added_high"), "")
    if method in BASELINES:
        of_baseline = np.array([step.seconds for step in measured[BASELINES[method]]])
        interval = mean_interval(seconds - of_baseline)
        added = {key: f"{x:.5f}" for key, x in zip(added, interval, strict=True)}
    return row | added


def rows_of_other_shapes(path: Path, shape: str) -> list[dict[str, str]]:
    """What stays in the file.

    Raises:
        InputError: there are such rows, and they have other columns.
    """
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row.get("shape") != shape]
    expected = [*COLUMNS, *machine()]
    if rows and list(rows[0]) != expected:
        found, wanted = ", ".join(map(str, rows[0])), ", ".join(expected)
        raise InputError(
            f"{path} has rows of another shape with the columns {found}; expected {wanted}: "
            "give another file with --csv"
        )
    return rows


def random_policy(_: Recipe) -> tuple[Any, Any]:
    """Qwen2.5-Math-1.5B's shape."""
    on_gpu = torch.cuda.is_available()
    config = Qwen2Config(**QWEN_1_5B, max_position_embeddings=8192)
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(config)
    model = model.to("cuda", torch.bfloat16) if on_gpu else model
    return model, make_tokenizer(config.vocab_size)


def make_tokenizer(size: int) -> PreTrainedTokenizerFast:
    """A word for each id; the last one ends a response."""
    words = {f"t{n}": n for n in range(size - 1)} | {"<eos>": size - 1}
    tokenizer = Tokenizer(WordLevel(words, unk_token="t0"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<eos>", padding_side="left"
    )


def random_prompts(recipe: Recipe) -> Dataset:
    """As many as a step has."""
    prompts = range(recipe.rollout.prompts_per_step)
    return Dataset.from_list([{"prompt": f"t{n} t7 t8"} for n in prompts])


def random_reward(_: Any, recipe: Recipe) -> Callable[..., list[float]]:
    """Half of each group is correct, by the recipe's seed."""
    rng = np.random.default_rng(recipe.seed)
    size = recipe.rollout.group_size

    def correct(completions: list[str], **_: Any) -> list[float]:
        half = np.arange(size) % 2.0
        groups = [rng.permutation(half) for _ in range(len(completions) // size)]
        rewards: list[float] = np.concatenate(groups).tolist()
        return rewards

    return correct


SHAPES = {
    "demo": Shape(
        overrides=(),
        policy=load_policy,
        train_set=DemoTask().train_set,
        reward=DemoTask().reward,
        full_length=False,
    ),
    "1.5b": Shape(
        overrides=(
            "algorithm.minibatches=1",
            "algorithm.epochs=1",
            "algorithm.resampling_rounds=0",
            "rollout.prompts_per_step=2",
            "rollout.max_response_length=3072",
            "trl.forward_rollouts=16",
            "optimizer.learning_rate=1e-7",
        ),
        policy=random_policy,
        train_set=random_prompts,
        reward=random_reward,
        full_length=True,
    ),
}

if __name__ == "__main__":
    gc.freeze()  # the imports: accelerate collects garbage before every training
    try:
        main()
    except InputError as error:
        sys.exit(f"step_time: {error}")
