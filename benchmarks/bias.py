"""The mean credit of each estimator when labels are permuted: its bias, and its noise.

    python benchmarks/bias.py

Samples groups of 16 rollouts from the demo's base model, forgets how they were graded, and draws
labels with a given number of correct ones at random: a mean credit other than 0 is then a bias.
Writes one row an estimator, number of correct rollouts and token frequency to results/bias.csv.
"""

import argparse
from pathlib import Path

import numpy as np
from estimator import write_rows
from transformers import AutoModelForCausalLM, AutoTokenizer

from ktae import Estimator, preset, token_credit
from ktae.estimators import PresenceZ, Scaled
from ktae.experiments.demo import SUMS
from ktae.experiments.demo.pretrain import base_model
from ktae.experiments.generation import generate

G = 16
CORRECT = (2, 5, 8, 11, 14)
FREQUENCIES = ((1, 1), (2, 4), (5, 11), (12, 15), (16, 16))
ESTIMATORS = {
    "paper": preset("paper"),
    "released": preset("released"),
    "no-tf": preset("no-tf"),
    "calibrated, tokens": Scaled(PresenceZ(), 0.3),
    "calibrated": preset("calibrated"),
    "trigrams": preset("trigrams"),
    "sharp-trigrams": preset("sharp-trigrams"),
    "tempo": preset("tempo"),
    "conflict-tokens": preset("conflict-tokens"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=64)
    parser.add_argument("--permutations", type=int, default=200)
    parser.add_argument("--csv", type=Path, default=Path(__file__).parent / "results/bias.csv")
    arguments = parser.parse_args()
    ids, mask, groups = sample(arguments.groups)
    held = held_by(ids, mask, groups)
    rows = [
        {"estimator": name, "correct": n_true} | row
        for name, estimator in ESTIMATORS.items()
        for n_true in CORRECT
        for row in bias(ids, mask, groups, held, estimator, n_true, arguments.permutations)
    ]
    write_rows(arguments.csv, rows)


def sample(n_groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(B, T) token ids and mask, and (B,) groups, of the base model at temperature 1."""
    folder = base_model(SUMS)
    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False),
        AutoTokenizer.from_pretrained(folder, trust_remote_code=False),
    )
    prompts = [problem.prompt for problem in SUMS.train_problems(n_groups, 1) for _ in range(G)]
    found = generate(
        model, tokenizer, prompts, max_new_tokens=64, temperature=1.0, batch_size=256, seed=0
    ).token_ids
    mask = np.arange(64) < np.array([len(row) for row in found])[:, None]
    ids = np.zeros(mask.shape, dtype=np.int64)
    ids[mask] = np.concatenate(found)
    return ids, mask, np.repeat(np.arange(n_groups), G)


def held_by(ids: np.ndarray, mask: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """(B, T) how many rollouts of its group hold the token; 0 where masked."""
    held = np.zeros(ids.shape, dtype=np.int64)
    for group in range(groups[-1] + 1):
        rows = np.flatnonzero(groups == group)
        contains = np.zeros((len(rows), ids.max() + 1), dtype=bool)
        for row, i in enumerate(rows):
            contains[row, ids[i, mask[i]]] = True
        held[rows] = contains.sum(axis=0)[ids[rows]] * mask[rows]
    return held


def bias(
    ids: np.ndarray,
    mask: np.ndarray,
    groups: np.ndarray,
    held: np.ndarray,
    estimator: Estimator,
    n_true: int,
    permutations: int,
) -> list[dict[str, str]]:
    """For each frequency the mean and mean absolute credit of its tokens, and the mean's error."""
    rng = np.random.default_rng(n_true)
    bins = [(low <= held) & (held <= high) for low, high in FREQUENCIES]
    means, sizes = np.zeros((2, permutations, len(bins)))
    for i in range(permutations):
        order = rng.random((groups[-1] + 1, G)).argsort(axis=1)
        credit = token_credit(ids, mask, (order < n_true).ravel(), groups, estimator)
        means[i] = [credit[tokens].mean() for tokens in bins]
        sizes[i] = [np.abs(credit[tokens]).mean() for tokens in bins]
    errors = means.std(axis=0, ddof=1) / permutations**0.5
    return [
        {
            "held_by": f"{low}-{high}",
            "tokens": str(tokens.sum()),
            "mean_credit": f"{mean:.4f}",
            "standard_error": f"{error:.4f}",
            "mean_abs_credit": f"{size:.4f}",
        }
        for (low, high), tokens, mean, error, size in zip(
            FREQUENCIES, bins, means.mean(axis=0), errors, sizes.mean(axis=0), strict=True
        )
    ]


if __name__ == "__main__":
    main()
