"""Length and entropy at equal accuracy: a table of docs/results.md.

A method that learns more slowly has longer and less sure rollouts at a given step. Has it them at a
given accuracy too? Both runs of a pair are smoothed over `WINDOW` steps and compared at the highest
accuracy that both reach: who stays behind at its best, the other when it first came so far.
"""

from typing import NamedTuple

import numpy as np
from page import STUDIES, markdown, read_csv, with_bounds

from ktae.study.statistics import mean_interval

WINDOW = 15
TRAITS = {"length": 1, "entropy": 3}
"""Digits."""

Curves = dict[str, np.ndarray]
"""A run's, smoothed, by column."""


class Pair(NamedTuple):
    """A seed's two runs."""

    treatment: Curves
    baseline: Curves


def table(study: str, baseline: str, *methods: str) -> str:
    """Each method minus the baseline: accuracy and traits at the end, traits at equal accuracy."""
    curves = _curves(study)
    rows = []
    for task in dict.fromkeys(task for task, _, _ in curves):
        for method in methods:
            pairs = [
                Pair(mine, curves[task, baseline, seed])
                for (of_task, name, seed), mine in curves.items()
                if (of_task, name) == (task, method) and (task, baseline, seed) in curves
            ]
            cells = [_interval([at_the_end(pair, "accuracy") for pair in pairs], 3)]
            for trait, digits in TRAITS.items():
                cells.append(_interval([at_the_end(pair, trait) for pair in pairs], digits))
                cells.append(_interval([at_equal_accuracy(pair, trait) for pair in pairs], digits))
            rows.append([task, f"`{method}`", str(len(pairs)), *cells])
    traits = [f"{trait}{where}" for trait in TRAITS for where in ("", " at equal accuracy")]
    return markdown(["task", "method", "pairs", "accuracy", *traits], rows)


def at_equal_accuracy(pair: Pair, trait: str) -> float:
    """A trait's difference at the highest accuracy that both reach."""
    reached = min(run["accuracy"].max() for run in pair)
    mine, base = (run[trait][np.argmax(run["accuracy"] >= reached)] for run in pair)
    return float(mine - base)


def at_the_end(pair: Pair, column: str) -> float:
    """Over the last `WINDOW` steps."""
    return float(pair.treatment[column][-1] - pair.baseline[column][-1])


def _interval(differences: list[float], digits: int) -> str:
    return with_bounds(*mean_interval(np.array(differences)), digits)


def _curves(study: str) -> dict[tuple[str, str, str], Curves]:
    """By task, method and seed."""
    found: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for row in read_csv(STUDIES / study / "curves.csv"):
        found.setdefault((row["task"], row["method"], row["seed"]), []).append(row)
    return {key: _smoothed(rows) for key, rows in found.items()}


def _smoothed(rows: list[dict[str, str]]) -> Curves:
    weights = np.full(WINDOW, 1 / WINDOW)
    ordered = sorted(rows, key=lambda row: int(row["step"]))
    return {
        column: np.convolve([float(row[column]) for row in ordered], weights, mode="valid")
        for column in ("accuracy", *TRAITS)
    }
