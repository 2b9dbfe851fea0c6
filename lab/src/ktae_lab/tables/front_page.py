"""Studies of several rounds with the base model as the unit."""

import statistics
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from ktae.inference import LEVEL, t_test
from ktae_lab.csv_files import read_csv
from ktae_lab.tables import comparisons, page, studies
from ktae_lab.tables.page import Table, markdown, with_bounds

TASKS = ("sums", "lists")
OUTCOME = "sampled_accuracy"
HALF_RATE = (
    ("GRPO + `paper`", "GRPO", (("goal", "grpo-ktae", "grpo"),)),
    (
        "GRPO + `calibrated`",
        "GRPO",
        (("rates", "calibrated", "grpo"), ("models", "calibrated", "grpo")),
    ),
    (
        "GRPO + `trigrams`",
        "GRPO",
        (
            ("rates", "trigrams", "grpo"),
            ("goal", "grpo-trigrams", "grpo"),
            ("models", "trigrams", "grpo"),
        ),
    ),
    (
        "DAPO + `trigrams`",
        "DAPO",
        (("goal", "dapo-trigrams", "dapo"), ("models-dapo", "dapo-trigrams", "dapo")),
    ),
)
"""Treatment and baseline as the page calls them, and the studies at a learning rate of 7.5e-5."""


def base_models() -> str:
    """Final accuracy at temperature 1, by base model: mean differences with Student's t interval.

    Bold: significant at 5 % after correction for all announced tests (Bonferroni), those of studies
    under way too. Each test is Student's t over base models.
    """
    family = comparisons.family()
    rows = []
    for treatment, baseline, sides in HALF_RATE:
        means = [np.array(list(_by_base_model(sides, task))) for task in TASKS]
        rows.append(_row(f"{treatment} - {baseline}", means, family))
    gains = [_of_temperature(task) for task in TASKS]
    rows.append(_row("plain GRPO at temperature .75 - at 1", gains, None))
    return markdown(["accuracy", "base models", *TASKS], rows)


def _by_base_model(sides: tuple[tuple[str, str, str], ...], task: str) -> Iterator[float]:
    """The mean difference of each base model, over all pairs of all these studies."""
    found: dict[str, list[float]] = defaultdict(list)
    for study, treatment, baseline in sides:
        by_place = {
            (run.cell.method, run.cell.seed, run.cell.base): run.outcomes[OUTCOME]
            for run in studies.runs_of(study)
            if run.cell.task == task
        }
        for (method, seed, base), value in by_place.items():
            other = by_place.get((baseline, seed, base))
            if method == treatment and value is not None and other is not None:
                found[base].append(value - other)
    yield from (statistics.mean(values) for values in found.values())


def _row(label: str, means: list[np.ndarray], family: int | None) -> list[str]:
    """The differences of each base model, by task; `family` is None where nothing was announced."""
    n = {len(of_task) for of_task in means}
    if len(n) != 1:
        raise ValueError(f"{label}: tasks have {sorted(n)} base models; expected one number")
    return [label, str(n.pop()), *(_cell(of_task, family) for of_task in means)]


def _cell(means: np.ndarray, family: int | None) -> str:
    interval, p_value = t_test(means)
    text = with_bounds(*interval)
    return f"**{text}**" if family is not None and p_value * family < LEVEL else text


def _of_temperature(task: str) -> np.ndarray:
    """(base models,) of `main`, whose rate is twice that of the rows above."""
    of_base: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in read_csv(page.RESULTS / "main" / "temperatures.csv"):
        if (row["task"], row["method"]) == (task, "grpo"):
            of_base[row["base_model"]][row["temperature"]].append(float(row["accuracy"]))
    gains = [statistics.mean(t["0.75"]) - statistics.mean(t["1"]) for t in of_base.values()]
    return np.array(gains)


TABLES: dict[str, Table] = {"base-models": base_models}
