"""How well the demo's base models do, language by language and seed by seed, before any RL.

    python benchmarks/demo_base.py --seeds 3

Greedy and sampled accuracy, length and entropy on the 512 test problems, and the share of groups
with both right and wrong rollouts, of which GRPO learns. Pretrains the models that are not in the
cache. Appends one row a model to results/demo_base.csv.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from estimator import append_rows, machine
from transformers import AutoModelForCausalLM, AutoTokenizer

from ktae.demo import Language, language_named, language_names
from ktae.demo.evaluate import evaluate
from ktae.demo.model import one_thread
from ktae.demo.pretrain import base_model
from ktae.evaluation.generation import generate

G, PROMPTS = 16, 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    names = language_names()
    parser.add_argument("--languages", nargs="+", default=names, choices=names)
    csv = Path(__file__).parent / "results/demo_base.csv"
    parser.add_argument("--csv", type=Path, default=csv)
    arguments = parser.parse_args()
    for name in arguments.languages:
        for seed in range(arguments.seeds):
            row = {"language": name, "seed": str(seed)} | measured(language_named(name), seed)
            print(row, flush=True)
            append_rows(arguments.csv, [row | machine()])


def measured(language: Language[Any], seed: int) -> dict[str, str]:
    folder = base_model(language, seed)
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False)
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    scores = evaluate(language, model, tokenizer, language.test_problems(), seed=0)
    n_right = right_in_groups(language, model, tokenizer)
    groups = {
        "mixed_groups": np.mean((n_right > 0) & (n_right < G)),
        "all_wrong_groups": np.mean(n_right == 0),
    }
    return {name: f"{value:.4f}" for name, value in (scores._asdict() | groups).items()}


def right_in_groups(language: Language[Any], model: Any, tokenizer: Any) -> np.ndarray:
    """(PROMPTS,) right rollouts among the G of each of some training problems."""
    problems = [p for p in language.train_problems(PROMPTS, seed=0) for _ in range(G)]
    with one_thread():
        rollouts = generate(
            model,
            tokenizer,
            [problem.prompt for problem in problems],
            max_new_tokens=language.max_response_length,
            temperature=1.0,
            batch_size=256,
            seed=0,
        )
    right = [
        language.is_correct(text, problem.answer, finished)
        for text, problem, finished in zip(rollouts.texts, problems, rollouts.finished, strict=True)
    ]
    counts: np.ndarray = np.reshape(right, (PROMPTS, G)).sum(axis=1)
    return counts


if __name__ == "__main__":
    main()
