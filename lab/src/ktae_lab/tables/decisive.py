"""The decisive experiment: what each arm reaches at its own best temperature, and at 1."""

import functools
import statistics
from pathlib import Path

import numpy as np

from ktae.inference import mean_interval
from ktae_lab import svg
from ktae_lab.csv_files import read_csv
from ktae_lab.study.figures import COLORS
from ktae_lab.tables import comparisons, page
from ktae_lab.tables.page import Number, Table, markdown, with_bounds

STUDY = "decisive"
TASKS = ("sums", "lists")
ANNOUNCED = "accuracy"
"""The column of the primary outcome."""
COLUMNS = {ANNOUNCED: "best temperature", "accuracy_at_1": "temperature 1"}
ARMS = {
    "trigrams": "trigrams",
    "centred": "trigrams, centred in the group",
    "offset": "the offset alone",
    "rollouts-centred": "whole rollouts, centred",
    "random-places": "trigrams on random tokens",
}
"""All but the baseline, as pages call them."""
ROWS = (
    ("trigrams", "grpo"),
    ("trigrams", "offset"),
    ("trigrams", "random-places"),
    ("centred", "grpo"),
    ("offset", "grpo"),
)

ByBase = dict[str, float]


def table() -> str:
    """Differences in accuracy, mean over base models with 95 % interval.

    Bold: an announced difference that is shown (sign flips over base models, Holm over the eight;
    the interval leaves out 0).
    """
    rows = []
    for treatment, baseline in ROWS:
        cells = [_cell(treatment, baseline, column, task) for task in TASKS for column in COLUMNS]
        of = "GRPO" if baseline == "grpo" else ARMS[baseline]
        rows.append([f"{ARMS[treatment]} - {of}", *cells])
    heads = [f"{task}, {name}" for task in TASKS for name in COLUMNS.values()]
    return markdown(["accuracy", *heads], rows)


def mean(method: str, column: str, task: str) -> str:
    """An arm's mean of a column of validated.csv, in a sentence."""
    return f"{statistics.mean(_values(column)[task, method].values()):.3f}"


def difference(treatment: str, baseline: str, column: str, task: str) -> str:
    """The difference of two arms with its interval, in a sentence."""
    return with_bounds(*mean_interval(_differences(treatment, baseline, column, task)))


def cold() -> str:
    """How many models do best at temperature 0 or .25, in a sentence."""
    found = [value for runs in _values("temperature").values() for value in runs.values()]
    return f"{sum(value <= 0.25 for value in found)} of {len(found)}"


def draw(path: Path) -> None:
    """Each arm less GRPO, a panel a language: at its own best temperature, and at 1."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.1), layout="constrained")
    panels = figure.subplots(1, len(TASKS), sharey=True, sharex=True)
    for axis, task in zip(panels, TASKS, strict=True):
        looks = zip((-0.13, 0.13), COLORS, COLUMNS.items(), strict=False)
        for shift, color, (column, name) in looks:
            for y, arm in enumerate(ARMS):
                center, low, high = mean_interval(_differences(arm, "grpo", column, task))
                axis.plot([low, high], [y + shift, y + shift], color=color, linewidth=2)
                label = f"at {'its own ' if column == ANNOUNCED else ''}{name}"
                marker = "o" if column == ANNOUNCED else "s"
                axis.plot(
                    center, y + shift, marker=marker, linestyle="", color=color,
                    label=label if y == 0 else None,
                )  # fmt: skip
        axis.axvline(0, color="#6e6e6e", linewidth=0.8)
        axis.set_title(task, fontsize=10, loc="left")
        axis.set_xlabel("accuracy less GRPO's, mean and 95 % interval")
    panels[0].set_yticks(range(len(ARMS)), list(ARMS.values()))
    panels[0].invert_yaxis()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    svg.save(figure, path)


def _cell(treatment: str, baseline: str, column: str, task: str) -> str:
    text = with_bounds(*mean_interval(_differences(treatment, baseline, column, task)))
    if column != ANNOUNCED:
        return text
    one = comparisons.comparison(STUDY, treatment, baseline, "validated_accuracy", task)
    return f"**{text}**" if one.kind == "confirmatory" and one.shown else text


def _differences(treatment: str, baseline: str, column: str, task: str) -> np.ndarray:
    """(base models,) paired."""
    values = _values(column)
    mine, theirs = values[task, treatment], values[task, baseline]
    if mine.keys() != theirs.keys():
        raise ValueError(f"{treatment} and {baseline} on {task} do not have the same base models")
    return np.array([mine[base] - theirs[base] for base in mine])


def _values(column: str) -> dict[tuple[str, str], ByBase]:
    return _read(page.RESULTS / STUDY / "validated.csv", column)


@functools.cache
def _read(path: Path, column: str) -> dict[tuple[str, str], ByBase]:
    """A column of validated.csv by task and method, and in these by base model."""
    found: dict[tuple[str, str], ByBase] = {}
    for row in read_csv(path, ("task", "method", "base_model", column)):
        of_arm = found.setdefault((row["task"], row["method"]), {})
        if row["base_model"] in of_arm:
            raise ValueError(f"{path} has {row['method']} on {row['base_model']} twice")
        of_arm[row["base_model"]] = float(row[column])
    return found


TABLES: dict[str, Table] = {"decisive": table}
NUMBERS: dict[str, Number] = {
    "decisive-mean": mean,
    "decisive-difference": difference,
    "decisive-cold": cold,
}
