"""Held-out pairs on real rollouts: which estimator tells correct from incorrect responses?

    python benchmarks/held_out.py FOLDER --tokenizer PATH

FOLDER holds dumps, one rollout a line: group, response, reward. The groups of each are split into
two halves by a hash of their labels: estimators were developed on `development` and looked at once
on `confirmation`. Writes one row a file, half, part of the responses and estimator or baseline to
results/held_out.csv, with 95 % intervals over groups.
"""

import argparse
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from estimator import machine, write_rows

from ktae.estimators import PRESETS, preset
from ktae.inference import t_interval
from ktae.report import inputs
from ktae.rollouts.options import ReadOptions
from ktae.validity import held_out, prefixes

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
        for row in measure(inputs.load(path, ReadOptions(arguments.tokenizer))):
            rows.append({"file": name} | row | machine())
            print(name, list(row.values()), flush=True)
    write_rows(arguments.csv, rows)


def measure(dump: inputs.Dump) -> Iterator[dict[str, Any]]:
    """One row a half, part, and estimator, baseline or difference of two estimators."""
    half_b = np.array([half_of(group) for group in dump.rollouts["group"].to_pylist()])
    stated = prefixes.stated_answers(dump.rollouts)
    answers = np.array(list(prefixes.AskedAnswers(dump.rollouts, "stated")), dtype=object)
    lengths = pc.list_value_length(dump.rollouts["token_ids"]).to_numpy()
    before = prefixes.before_answer(dump.rollouts, dump.token_ids, dump.texts, stated)
    parts = {
        "whole": None,
        "first half": np.ceil(lengths / 2).astype(np.int64),
        "before the answer": before.keep,
    }
    for number, half in enumerate(HALVES):
        in_half = half_b == number
        for part, keep in parts.items():
            pairs = held_out.held_out_pairs(
                dump.rollouts.filter(pa.array(in_half)),
                {name: preset(name) for name in PRESETS},
                keep=None if keep is None else keep[in_half],
                answers=answers[in_half].tolist(),
            )
            about = {"half": half, "part": part, "groups": pairs.groups, "pairs": pairs.pairs}
            for score in (*pairs.estimators, *pairs.baselines):
                numbers = columns("auc", score.auc) | columns("permuted", score.permuted)
                yield about | {"estimator": score.name} | numbers
            share_g = {score.name: score.auc_g for score in pairs.estimators}
            for other in ("paper", "calibrated", "trigrams"):
                # From the interval's width the mean over several dumps has its own.
                difference = t_interval(share_g["sharp-trigrams"] - share_g[other])
                name = {"estimator": f"sharp-trigrams - {other}"}
                yield about | name | columns("auc", difference)


def half_of(group: str) -> int:
    """0 or 1, the same wherever and whenever it is computed."""
    return int(hashlib.sha256(group.encode()).hexdigest(), 16) % 2


def columns(name: str, interval: Any) -> dict[str, str]:
    """A value and the ends of its interval, rounded."""
    ends = zip(("", "_low", "_high"), interval, strict=True)
    return {f"{name}{end}": f"{value:.4f}" for end, value in ends}


if __name__ == "__main__":
    main()
