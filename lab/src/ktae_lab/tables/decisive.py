"""The decisive experiment: what each arm reaches at its own best temperature, and at 1."""

import statistics
from pathlib import Path

from ktae_lab.tables import final_models
from ktae_lab.tables.page import Number, Table

STUDY = "decisive"
ARMS = {
    "grpo": "GRPO",
    "trigrams": "trigrams",
    "centred": "trigrams, centred in the group",
    "offset": "the offset alone",
    "rollouts-centred": "whole rollouts, centred",
    "random-places": "trigrams on random tokens",
}
"""As pages call them."""
ROWS = (
    ("trigrams", "grpo"),
    ("trigrams", "offset"),
    ("trigrams", "random-places"),
    ("centred", "grpo"),
    ("offset", "grpo"),
)


def table() -> str:
    """The announced differences and the offset's."""
    return final_models.table(STUDY, ROWS, ARMS)


def mean(method: str, column: str, task: str) -> str:
    """An arm's mean of a column of validated.csv, in a sentence."""
    return f"{statistics.mean(final_models.values(STUDY, column)[task, method].values()):.3f}"


def difference(treatment: str, baseline: str, column: str, task: str) -> str:
    """The difference of two arms with its interval, in a sentence."""
    return final_models.difference(STUDY, treatment, baseline, column, task)


def cold() -> str:
    """How many models do best at temperature 0 or .25, in a sentence."""
    by_arm = final_models.values(STUDY, "temperature").values()
    found = [value for runs in by_arm for value in runs.values()]
    return f"{sum(value <= 0.25 for value in found)} of {len(found)}"


def draw(path: Path) -> None:
    """Each arm less GRPO."""
    final_models.draw(path, STUDY, ARMS)


TABLES: dict[str, Table] = {"decisive": table}
NUMBERS: dict[str, Number] = {
    "decisive-mean": mean,
    "decisive-difference": difference,
    "decisive-cold": cold,
}
