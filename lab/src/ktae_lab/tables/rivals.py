"""All estimators beside each other: the rate that suits each, and what it reaches at that rate."""

import statistics
from pathlib import Path

from scipy.stats import spearmanr

from ktae_lab.tables import final_models
from ktae_lab.tables.final_models import BASELINE, TASKS
from ktae_lab.tables.page import Number, Table, markdown

STUDY = "rivals"
FIRST_STAGE = "rivals-rates"
RATES = ("5e-5", "7.5e-5", "10.6e-5")
"""In the order of which the first of equal ones is chosen."""
VALIDATION = tuple(f"validation_{t}" for t in ("0", "0.25", "0.5", "0.75", "1"))
"""The columns of validated.csv of which a model's best temperature has the largest."""
LATER = "low-entropy"
"""The arm that the first stage did not have."""
FAR_BELOW = "top-entropy"
"""The arm that the figure leaves out."""
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
TUNED = [arm for arm in ARMS if arm != LATER]
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
    for arm in TUNED:
        cells = []
        for task in TASKS:
            for rate in RATES:
                text = f"{found[task, arm, rate]:.3f}"
                cells.append(f"**{text}**" if own[task, arm] == rate else text)
        rows.append([ARMS[arm], *cells])
    return markdown(["", *(f"{task}, {rate}" for task in TASKS for rate in RATES)], rows)


def chosen_rates() -> dict[tuple[str, str], str]:
    """By language and arm: the most accurate on validation problems; of equal ones the smallest."""
    found = _by_rate()
    return {
        (task, arm): max(RATES, key=lambda rate: found[task, arm, rate])
        for task in TASKS
        for arm in TUNED
    }


def _by_rate() -> dict[tuple[str, str, str], float]:
    """By language, arm and rate: the mean over base models."""
    columns = [final_models.values(FIRST_STAGE, name) for name in VALIDATION]
    found = {}
    for key, of_bases in columns[0].items():
        task, _, rate = key[0].partition("-")
        best = [max(column[key][base] for column in columns) for base in of_bases]
        found[task, key[1], rate] = statistics.fmean(best)
    return found


def against_grpo() -> str:
    """Each arm less GRPO."""
    return final_models.table(STUDY, [(arm, BASELINE) for arm in ARMS if arm != BASELINE], ARMS)


def own_rates() -> str:
    """The differences of the decisive experiment, here each arm at its own rate."""
    return final_models.table(STUDY, OWN_RATES, ARMS)


def gains(arm: str) -> str:
    """What an arm has more than GRPO on sums and lists, in a cell; bold where it is shown."""
    return ", ".join(final_models.mean_gain(STUDY, arm, task) for task in TASKS)


def difference(treatment: str, baseline: str, column: str, task: str) -> str:
    """The difference of two arms with its interval, in a sentence."""
    return final_models.difference(STUDY, treatment, baseline, column, task)


def entropy_rank(column: str, task: str) -> str:
    """Rank correlation over all arms of the entropy at the end and the accuracy, in a sentence."""
    ends = final_models.values(STUDY, "outcome.end_entropy", "runs.csv")
    reached = final_models.values(STUDY, column)
    means = ([statistics.fmean(of[task, arm].values()) for arm in ARMS] for of in (ends, reached))
    return f"{spearmanr(*means).statistic:.2f}"


def draw(path: Path) -> None:
    """Each arm less GRPO, but for the one that lies far below and would hide the others."""
    plain = {arm: name.replace("`", "") for arm, name in ARMS.items() if arm != FAR_BELOW}
    final_models.draw(path, STUDY, plain | {"unscaled": "GRPO, rewards not scaled"})


TABLES: dict[str, Table] = {
    "rivals-rates": rates,
    "rivals": against_grpo,
    "rivals-own-rates": own_rates,
}
NUMBERS: dict[str, Number] = {
    "rivals-difference": difference,
    "rivals-entropy-rank": entropy_rank,
}
