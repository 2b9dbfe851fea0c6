"""Held-out pairs on real rollouts: which estimator tells correct from incorrect ones?

    python benchmarks/held_out.py FOLDER --tokenizer PATH

FOLDER holds dumps, one rollout a line: group, response, reward. The groups of each are split into
two halves by a hash of their labels: estimators were developed on `development` and looked at once
on `confirmation`. Writes one row a file, half, part of the rollouts and estimator or baseline to
results/held_out.csv, with 95 % intervals over groups.
"""

import argparse
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from estimator import machine, write_rows

from ktae.estimators import PRESETS, preset
from ktae.inference import t_interval
from ktae.report import ReadOptions, inputs
from ktae.validity import held_out, prefixes
from ktae.validity.scores import HeldOut, Score

FILES = (
    "mathl5_8models_k8",
    "amc23_r1distill_qwen1p5b_runs",
    "game24_gpt4_cot_k100",
    "gsm8k_openai_example_solutions_k4",
    "qwen25math_math_cot_100_k8",
)
HALVES = ("development", "confirmation")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--files", nargs="+", default=FILES)
    path = Path(__file__).parent / "results/held_out.csv"
    parser.add_argument("--csv", type=Path, default=path)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.files:
        path = arguments.folder / f"{name}.jsonl.gz"
        dump = inputs.load(path, ReadOptions(arguments.tokenizer))
        for row in measure(dump):
            rows.append({"file": name} | row | machine())
            print(name, list(row.values()), flush=True)
    write_rows(arguments.csv, rows)


def measure(dump: inputs.Dump) -> list[dict[str, Any]]:
    """One row a half, part, and estimator or baseline."""
    half_b = np.array([half_of(group) for group in dump.rollouts["group"].to_pylist()])
    stated = prefixes.stated_answers(dump.rollouts)
    answers = np.array(list(prefixes.AskedAnswers(dump.rollouts, "stated")), dtype=object)
    before = prefixes.before_answer(dump.rollouts, dump.token_ids, dump.texts, stated)
    parts = {
        "whole": None,
        "first half": prefixes.first_share(dump.rollouts, 0.5),
        "before the answer": before.keep,
    }
    rows = []
    for number, half in enumerate(HALVES):
        own = half_b == number
        for part, keep in parts.items():
            found = held_out.held_out_pairs(
                dump.rollouts.filter(pa.array(own)),
                {name: preset(name) for name in PRESETS},
                keep=None if keep is None else keep[own],
                answers=answers[own].tolist(),
            )
            rows += [
                {"half": half, "part": part, "groups": found.groups, "pairs": found.pairs}
                | score_row(score)
                for score in (*found.estimators, *found.baselines)
            ]
            rows += [
                {"half": half, "part": part, "groups": found.groups, "pairs": found.pairs}
                | difference_row(found, "sharp-trigrams", other)
                for other in ("paper", "calibrated", "trigrams")
            ]
    return rows


def half_of(group: str) -> int:
    """0 or 1, the same wherever and whenever it is computed."""
    return int(hashlib.sha256(group.encode()).hexdigest(), 16) % 2


def difference_row(found: HeldOut, name: str, other: str) -> dict[str, str]:
    """The mean difference over groups of two estimators' shares, with Student's t interval, from
    whose width the mean over several dumps has its own."""
    of = {score.name: score.auc_g for score in found.estimators}
    interval = t_interval(of[name] - of[other])
    bounds = zip(("", "_low", "_high"), interval, strict=True)
    numbers = {f"auc{end}": f"{value:.4f}" for end, value in bounds}
    return {"estimator": f"{name} - {other}"} | numbers


def score_row(score: Score) -> dict[str, str]:
    """Means and intervals, rounded."""
    numbers = {
        f"{name}{end}": f"{value:.4f}"
        for name, interval in (("auc", score.auc), ("permuted", score.permuted))
        for end, value in zip(("", "_low", "_high"), interval, strict=True)
    }
    return {"estimator": score.name} | numbers


if __name__ == "__main__":
    main()
