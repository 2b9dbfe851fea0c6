"""Accuracy by temperature: tables of what `ktae-lab temperatures` wrote."""

import math
import statistics
from collections.abc import Callable

import numpy as np

from ktae_lab.csv_files import read_csv
from ktae_lab.tables import page
from ktae_lab.tables.page import Table, markdown, mean_with_bounds


def temperatures(study: str, task: str, column: str, baseline: str) -> str:
    """A column of temperatures.csv: the baseline's mean, and paired differences from it."""
    found = _by_temperature(study, task, column)
    of_baseline = found[baseline].values()
    n = str(len(next(iter(of_baseline))))
    rows = [[f"`{baseline}`", n, *(f"{statistics.mean(x.values()):.3f}" for x in of_baseline)]]
    for method, gains in _gains(found, baseline).items():
        pairs = str(len(next(iter(gains.values()))))
        rows.append([f"`{method}`", pairs, *map(mean_with_bounds, gains.values())])
    return markdown(["method", "pairs", *(f"T = {t}" for t in found[baseline])], rows)


def gaps(study: str, task: str, baseline: str) -> str:
    """Of accuracy: the gain at the highest temperature less that at each, and gains in log-odds."""
    found = _by_temperature(study, task, "accuracy")
    in_log_odds = _gains(found, baseline, lambda p: math.log(p / (1 - p)))
    rows = []
    for method, gains in _gains(found, baseline).items():
        highest = max(gains, key=float)
        lost = [mean_with_bounds(gains[highest] - gains[t]) if t != highest else "" for t in gains]
        rows.append([f"`{method}`, accuracy: gain at T = {highest} less gain here", *lost])
        there = map(mean_with_bounds, in_log_odds[method].values())
        rows.append([f"`{method}`, log-odds of accuracy: gain here", *there])
    return markdown(["", *(f"T = {t}" for t in found[baseline])], rows)


Values = dict[tuple[str, str], float]
"""By seed and base model."""


def _by_temperature(study: str, task: str, column: str) -> dict[str, dict[str, Values]]:
    """By method and temperature."""
    found: dict[str, dict[str, Values]] = {}
    for row in read_csv(page.RESULTS / study / "temperatures.csv"):
        if row["task"] == task:
            values = found.setdefault(row["method"], {}).setdefault(row["temperature"], {})
            values[row["seed"], row["base_model"]] = float(row[column])
    return found


def _gains(
    found: dict[str, dict[str, Values]], baseline: str, of: Callable[[float], float] = float
) -> dict[str, dict[str, np.ndarray]]:
    """Each method's differences from the baseline, paired; the same order at each temperature."""
    gains = {}
    for method, mine in found.items():
        if method != baseline:
            gains[method] = {
                t: np.array(
                    [of(mine[t][k]) - of(base[k]) for k in sorted(mine[t].keys() & base.keys())]
                )
                for t, base in found[baseline].items()
            }
    return gains


TABLES: dict[str, Table] = {
    "temperatures": temperatures,
    "temperature-gaps": gaps,
}
