"""Is credit true on real tokens? Advantages by continuation on SmolLM2-135M's sums.

    python benchmarks/real_tokens.py [-e NAME ...]

results/real_tokens_samples.csv holds groups of 8 responses at temperature 1 to sums of two numbers.
V of every prefix is known from 32 continuations by the model itself, two independent halves of 16;
the advantage of a token is V(prefix and token) less V(prefix), and after the last token V is the
reward. Of each estimator's credit this prints the rank correlation with these advantages, average
precision and sign at key tokens, and the share of what exact advantages would add to the cosine of
the batch's policy gradient with that of exact advantages (`token_scores.py`).
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import token_scores as scores
from estimator import machine, read_rows, write_rows

from ktae import preset
from ktae.estimators import PermutedLabels, RandomPlaces, as_estimator

RESULTS = Path(__file__).parent / "results"
SAMPLES = RESULTS / "real_tokens_samples.csv"
ESTIMATORS = (
    *("backoff", "paper", "calibrated", "trigrams", "sharp-trigrams", "conflict-tokens", "tempo"),
)
MEASURES, SUFFIXES = ("rank", "precision", "sign", "share", "best_share"), ("", "_low", "_high")
DRAWS = 5
"""Of each control."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-e", "--estimators", nargs="+", metavar="NAME", default=ESTIMATORS)
    parser.add_argument("--samples", type=Path, nargs="+", default=[SAMPLES])
    parser.add_argument("--resamples", type=int, default=400)
    parser.add_argument("--csv", type=Path, help="also write the table")
    arguments = parser.parse_args()
    samples = [row for path in arguments.samples for row in read_rows(path)]
    rows = score(samples, arguments.estimators, arguments.resamples)
    print("{groups} groups, {tokens} tokens, {key_tokens} key tokens".format(**rows[0]))
    print(f"{'':16s}", *(f"{measure:23s}" for measure in MEASURES), "weight")
    for row in rows:
        spans = ["{} ({} to {})".format(*(row[m + x] for x in SUFFIXES)) for m in MEASURES]
        print(f"{row['estimator']:16s}", *(f"{span:23s}" for span in spans), row["best_weight"])
    if arguments.csv:
        write_rows(arguments.csv, [row | machine() for row in rows])


def score(
    samples: Sequence[dict[str, str]], names: Sequence[str], resamples: int
) -> list[dict[str, str]]:
    """A row for GRPO, controls, each estimator and exact advantages.

    Of GRPO's own row the first columns judge its rollout advantages themselves. Controls are of
    `paper`, the mean over several draws.
    """
    by_group: dict[str, list[dict[str, str]]] = {}
    for row in samples:
        by_group.setdefault(row["group"], []).append(row)
    groups = [scores.group_of(rows) for rows in by_group.values()]
    exact = scores.exact_row(groups)
    nothing = [np.zeros(len(group.grpo)) for group in groups]
    grpo = np.concatenate([group.grpo for group in groups])
    table = {"grpo": [scores.row_of(groups, nothing)._replace(pointing=(grpo, grpo))]}
    paper = preset("paper")
    for name, control in (("random places", RandomPlaces), ("permuted labels", PermutedLabels)):
        drawn = [scores.credits(groups, control(paper, seed=seed)) for seed in range(DRAWS)]
        table[name] = [scores.row_of(groups, credit) for credit in drawn]
    for name in names:
        table[name] = [scores.row_of(groups, scores.credits(groups, as_estimator(name)))]
    table["exact"] = [exact]
    n_keys = sum(key.sum() for group in groups for key in group.keys) / 2
    sizes = {"groups": len(groups), "tokens": len(grpo), "key_tokens": n_keys}
    rows = []
    for name, several in table.items():

        def measure(drawn: Any, several: list[Any] = several) -> dict[str, float]:
            every = [scores.scores(groups, row, exact, drawn) for row in several]
            return {key: float(np.mean([each[key] for each in every])) for key in every[0]}

        measured = scores.with_intervals(measure, len(groups), resamples)
        rows.append({"estimator": name} | {k: str(v) for k, v in sizes.items()} | measured)
    return rows


if __name__ == "__main__":
    main()
