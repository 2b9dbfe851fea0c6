"""What a base model can do before training: accuracy at temperature 1 on tasks of reasoning-gym.

    python benchmarks/base_accuracy.py --csv benchmarks/results/base_accuracy.csv

A task that RL can climb is one where most groups are mixed: some rollouts right, some wrong. For
each task: its settings, accuracy with a 95 % interval over problems, the share of mixed groups, and
the mean length.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from ktae.data import gym
from ktae.evaluation.engines import Sampling, TransformersEngine
from ktae.files.hub import local_or_hub
from ktae.inference import bootstrap_interval, bootstrap_means
from ktae.recipe import ReasoningGym

SHORT = "Answer with the number only."
TASKS: list[tuple[str, dict[str, Any], str]] = [
    (
        "chain_sum",
        {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2},
        f"You do arithmetic. {SHORT}",
    ),
    (
        "chain_sum",
        {"min_terms": 3, "max_terms": 3, "min_digits": 1, "max_digits": 1},
        f"You do arithmetic. {SHORT}",
    ),
    (
        "products",
        {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1},
        f"You do arithmetic. {SHORT}",
    ),
    ("basic_arithmetic", {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}, SHORT),
    ("gcd", {"max_numbers": 2, "max_value": 20}, SHORT),
    ("lcm", {"max_numbers": 2, "max_value": 10}, SHORT),
    ("leg_counting", {"min_animals": 1, "max_animals": 1, "max_instances": 5}, SHORT),
    ("letter_counting", {"min_words": 3, "max_words": 5}, SHORT),
    ("count_bits", {"max_n": 15}, SHORT),
    ("number_sequence", {"max_complexity": 1}, SHORT),
    ("simple_equations", {"min_terms": 2, "max_terms": 2, "max_value": 9}, SHORT),
]
"""Name, settings and system message."""


def measure(engine: TransformersEngine, task: ReasoningGym, args: Any) -> dict[str, Any]:
    """One row: the responses to the first problems of the task."""
    problems = gym.problems(task, args.problems, args.seed)
    prompts = [
        engine.tokenizer.apply_chat_template(
            gym.messages(task, problem.text), tokenize=False, add_generation_prompt=True
        )
        for problem in problems
    ]
    started = time.perf_counter()
    samples = engine.generate(prompts, Sampling(args.samples, 1.0, args.tokens), args.seed)
    seconds = time.perf_counter() - started
    correct_gk = np.array(
        [
            [gym.score(sample.text, problem.reference) == 1 for sample in of_one]
            for problem, of_one in zip(problems, samples, strict=True)
        ]
    )
    rate_g = correct_gk.mean(axis=1)
    interval = bootstrap_interval(rate_g, bootstrap_means(rate_g, np.random.default_rng(0)))
    every = [sample for of_one in samples for sample in of_one]
    return {
        "task": task.name,
        "settings": json.dumps(task.settings),
        "instruction": task.instruction,
        "problems": args.problems,
        "samples": args.samples,
        "accuracy": round(interval.value, 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
        "mixed_groups": round(float(((rate_g > 0) & (rate_g < 1)).mean()), 4),
        "length": round(float(np.mean([sample.tokens for sample in every])), 1),
        "finished": round(float(np.mean([sample.finished for sample in every])), 4),
        "max_new_tokens": args.tokens,
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Measure all tasks, and write each row as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="HuggingFaceTB/SmolLM2-135M-Instruct")
    parser.add_argument("--problems", type=int, default=16)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=24, help="of a response")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path)
    args = parser.parse_args()
    engine = TransformersEngine(local_or_hub("model", args.model))
    engine.batch_size = args.problems * args.samples
    rows: list[dict[str, Any]] = []
    for name, settings, instruction in TASKS:
        task = ReasoningGym(name=name, settings=settings, instruction=instruction)
        rows.append(measure(engine, task, args))
        print(json.dumps(rows[-1]), flush=True)
        if args.csv:
            with args.csv.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, rows[0])
                writer.writeheader()
                writer.writerows(rows)


if __name__ == "__main__":
    main()
