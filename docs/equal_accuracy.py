"""Length and entropy at equal accuracy: a table of docs/results.md.

A method that learns more slowly has longer and less sure rollouts at a given step. Has it them at a
given accuracy too? Both runs of a pair are smoothed over `WINDOW` steps and compared at `LEVELS`
accuracies in the upper half of those that both go through, each when it first came so far.
"""

from typing import NamedTuple

import numpy as np
from page import STUDIES, markdown, read_csv, with_bounds

from ktae.study.statistics import mean_interval

WINDOW = 7
LEVELS = 20
LAST = 20
"""Smoothed steps at the end, whose accuracies stand beside."""
TRAITS = {"length": 1, "entropy": 3}
"""Digits."""

Curves = dict[str, np.ndarray]
"""A run's, smoothed, by column."""


class Pair(NamedTuple):
    """A seed's two runs."""

    treatment: Curves
    baseline: Curves


def table(study: str, baseline: str, *methods: str) -> str:
    """Each method minus the baseline: accuracy of the last steps, traits at equal accuracy."""
    curves = _curves(study)
    rows = []
    for task in dict.fromkeys(task for task, _, _ in curves):
        for method in methods:
            pairs = [
                Pair(mine, curves[task, baseline, seed])
                for (of_task, name, seed), mine in curves.items()
                if (of_task, name) == (task, method) and (task, baseline, seed) in curves
            ]
            cells = [_interval([_late(pair, "accuracy") for pair in pairs], 3)]
            for trait, digits in TRAITS.items():
                cells.append(_interval([_late(pair, trait) for pair in pairs], digits))
                cells.append(_interval([at_equal_accuracy(pair, trait) for pair in pairs], digits))
            rows.append([task, f"`{method}`", str(len(pairs)), *cells])
    traits = [f"{trait}{where}" for trait in TRAITS for where in ("", " at equal accuracy")]
    return markdown(["task", "method", "pairs", "accuracy", *traits], rows)


def at_equal_accuracy(pair: Pair, trait: str) -> float:
    """Mean difference of a trait over the levels of accuracy."""
    reached = [np.maximum.accumulate(run["accuracy"]) for run in pair]
    low, high = max(x[0] for x in reached), min(x[-1] for x in reached)
    levels = np.linspace((low + high) / 2, high, LEVELS)
    mine, base = (np.interp(levels, x, run[trait]) for x, run in zip(reached, pair, strict=True))
    return float(np.mean(mine - base))


def _late(pair: Pair, column: str) -> float:
    return float(pair.treatment[column][-LAST:].mean() - pair.baseline[column][-LAST:].mean())


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
