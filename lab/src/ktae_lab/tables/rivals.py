"""All estimators beside each other: the rate that suits each, and what it reaches at that rate."""

from pathlib import Path

import numpy as np

from ktae_lab.csv_files import read_csv
from ktae_lab.tables import final_models, page
from ktae_lab.tables.final_models import BASELINE, TASKS
from ktae_lab.tables.page import Number, Table, markdown

STUDY = "rivals"
FIRST_STAGE = "rivals-rates"
RATES = ("5e-5", "7.5e-5", "10.6e-5")
"""In the order of which the first of equal ones is chosen."""
LATER = "low-entropy"
"""The arm that the first stage did not have."""
ARMS = {
    "grpo": "GRPO",
    "unscaled": "GRPO, rewards not divided by their standard deviation",
    LATER: "GRPO with a penalty on the entropy",
    "top-entropy": "80/20",
    "paper": "`paper`",
    "released": "`released`",
    "calibrated": "`calibrated`",
    "trigrams": "`trigrams`",
    "sharp-trigrams": "`sharp-trigrams`",
    "tempo": "`tempo`",
    "conflict-tokens": "`conflict-tokens`",
    "offset": "the offset alone",
    "centred": "`trigrams`, centred in the group",
    "rollouts-centred": "whole rollouts, centred",
    "random-places": "`trigrams` on random tokens",
}
"""As pages call them."""
OWN_RATES = (
    ("trigrams", "grpo"),
    ("trigrams", "offset"),
    ("trigrams", "random-places"),
    ("centred", "grpo"),
)
"""What the decisive experiment announced at one rate for all."""


def rates() -> str:
    """Accuracy on validation problems at the best temperature, by learning rate; chosen in bold."""
    found, own = _by_rate(), chosen_rates()
    rows = []
    for arm, name in ARMS.items():
        if arm == LATER:
            continue
        cells = []
        for task in TASKS:
            for rate in RATES:
                text = f"{found[task, arm, rate]:.3f}"
                cells.append(f"**{text}**" if own[task, arm] == rate else text)
        rows.append([name, *cells])
    return markdown(["", *(f"{task}, {rate}" for task in TASKS for rate in RATES)], rows)


def chosen_rates() -> dict[tuple[str, str], str]:
    """By language and arm: the most accurate on validation problems; of equal ones the smallest."""
    found = _by_rate()
    return {
        (task, arm): max(RATES, key=lambda rate: found[task, arm, rate])
        for task in TASKS
        for arm in ARMS
        if arm != LATER
    }


def _by_rate() -> dict[tuple[str, str, str], float]:
    """By language, arm and rate: the mean over base models."""
    path = page.RESULTS / FIRST_STAGE / "validated.csv"
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in read_csv(path, ("task", "method")):
        task, _, rate = row["task"].partition("-")
        best = max(float(row[name]) for name in row if name.startswith("validation_0"))
        best = max(best, float(row["validation_1"]))
        found.setdefault((task, row["method"], rate), []).append(best)
    return {key: float(np.mean(values)) for key, values in found.items()}


def against_grpo() -> str:
    """Each arm less GRPO."""
    return final_models.table(STUDY, [(arm, BASELINE) for arm in ARMS if arm != BASELINE], ARMS)


def own_rates() -> str:
    """The differences of the decisive experiment, here each arm at its own rate."""
    return final_models.table(STUDY, OWN_RATES, ARMS)


def difference(treatment: str, baseline: str, column: str, task: str) -> str:
    """The difference of two arms with its interval, in a sentence."""
    return final_models.difference(STUDY, treatment, baseline, column, task)


def draw(path: Path) -> None:
    """Each arm less GRPO."""
    plain = {arm: name.replace("`", "") for arm, name in ARMS.items()}
    final_models.draw(path, STUDY, plain)


TABLES: dict[str, Table] = {
    "rivals-rates": rates,
    "rivals": against_grpo,
    "rivals-own-rates": own_rates,
}
NUMBERS: dict[str, Number] = {"rivals-difference": difference}
