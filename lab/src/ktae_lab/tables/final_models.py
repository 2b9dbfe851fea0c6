"""Two arms of a study with fresh base models: accuracy at the best temperature, and at 1.

It is `validated.csv` as tables and figures have it. The unit is the base model: one pair each.
"""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ktae.inference import mean_interval
from ktae_lab import svg
from ktae_lab.csv_files import read_csv
from ktae_lab.study.figures import COLORS
from ktae_lab.tables import comparisons, page
from ktae_lab.tables.page import markdown, with_bounds

TASKS = ("sums", "lists")
BASELINE = "grpo"
ANNOUNCED = "accuracy"
"""The column of the primary outcome."""
COLUMNS = {ANNOUNCED: "best temperature", "accuracy_at_1": "temperature 1"}

ByBase = dict[str, float]


def table(study: str, rows: Sequence[tuple[str, str]], names: Mapping[str, str]) -> str:
    """Differences in accuracy, mean over base models with 95 % interval.

    Bold: an announced difference that is shown (sign flips over base models, Holm over the study's
    announced ones; the interval leaves out 0).

    Args:
        rows: treatments and baselines.
        names: of the arms, as pages call them.
    """
    lines = []
    for treatment, baseline in rows:
        cells = [_cell(study, treatment, baseline, c, task) for task in TASKS for c in COLUMNS]
        lines.append([f"{names[treatment]} - {names[baseline]}", *cells])
    heads = [f"{task}, {name}" for task in TASKS for name in COLUMNS.values()]
    return markdown(["accuracy", *heads], lines)


def _cell(study: str, treatment: str, baseline: str, column: str, task: str) -> str:
    text = difference(study, treatment, baseline, column, task)
    return _marked(study, treatment, baseline, task, text) if column == ANNOUNCED else text


def mean_gain(study: str, treatment: str, task: str) -> str:
    """What an arm has more than GRPO at its best temperature; bold where it is shown."""
    text = f"{differences(study, treatment, BASELINE, ANNOUNCED, task).mean():+.3f}"
    return _marked(study, treatment, BASELINE, task, text)


def _marked(study: str, treatment: str, baseline: str, task: str, text: str) -> str:
    one = comparisons.comparison(study, treatment, baseline, "validated_accuracy", task)
    return comparisons.marked(one, text)


def difference(study: str, treatment: str, baseline: str, column: str, task: str) -> str:
    """The difference of two arms with its interval."""
    return with_bounds(*mean_interval(differences(study, treatment, baseline, column, task)))


def differences(study: str, treatment: str, baseline: str, column: str, task: str) -> np.ndarray:
    """(base models,) paired.

    Raises:
        ValueError: the arms do not have the same base models.
    """
    found = values(study, column)
    mine, theirs = found[task, treatment], found[task, baseline]
    if mine.keys() != theirs.keys():
        raise ValueError(f"{treatment} and {baseline} on {task} do not have the same base models")
    return np.array([mine[base] - theirs[base] for base in mine])


def values(study: str, column: str, file: str = "validated.csv") -> dict[tuple[str, str], ByBase]:
    """A column of a study's file by task and method, and in these by base model.

    Raises:
        ValueError: an arm has a base model twice.
    """
    return _read(page.RESULTS / study / file, column)


@functools.cache
def _read(path: Path, column: str) -> dict[tuple[str, str], ByBase]:
    found: dict[tuple[str, str], ByBase] = {}
    for row in read_csv(path, ("task", "method", "base_model", column)):
        of_arm = found.setdefault((row["task"], row["method"]), {})
        if row["base_model"] in of_arm:
            raise ValueError(f"{path} has {row['method']} on {row['base_model']} twice")
        of_arm[row["base_model"]] = float(row[column])
    return found


def draw(path: Path, study: str, names: Mapping[str, str]) -> None:
    """Each arm less GRPO, a panel a language: at its own best temperature, and at 1.

    Args:
        path: of the SVG.
        names: of the arms in their order, as the figure calls them; the baseline is left out.
    """
    from matplotlib.figure import Figure

    arms = [arm for arm in names if arm != BASELINE]
    figure = Figure(figsize=(9, 1.3 + 0.36 * len(arms)), layout="constrained")
    panels = figure.subplots(1, len(TASKS), sharey=True, sharex=True)
    for axis, task in zip(panels, TASKS, strict=True):
        looks = zip((-0.13, 0.13), COLORS, COLUMNS.items(), strict=False)
        for shift, color, (column, name) in looks:
            for y, arm in enumerate(arms):
                paired = differences(study, arm, BASELINE, column, task)
                center, low, high = mean_interval(paired)
                axis.plot([low, high], [y + shift, y + shift], color=color, linewidth=2)
                label = f"at {'its own ' if column == ANNOUNCED else ''}{name}"
                marker = "o" if column == ANNOUNCED else "s"
                axis.plot(
                    center, y + shift, marker=marker, linestyle="", color=color,
                    label=label if y == 0 else None,
                )  # fmt: skip
        axis.axvline(0, color="#6e6e6e", linewidth=0.8)
        axis.set_title(task, fontsize=10, loc="left")
        axis.locator_params(axis="x", nbins=5)
    panels[0].set_yticks(range(len(arms)), [names[arm] for arm in arms])
    panels[0].invert_yaxis()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, title="accuracy less GRPO's, mean and 95 % interval",
        loc="outside lower center", ncols=2, frameon=False, fontsize=9,
    )  # fmt: skip
    svg.save(figure, path)
