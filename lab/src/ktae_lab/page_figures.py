"""A figure of each study, from the committed results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ktae_lab.align.summary import COVERED
from ktae_lab.figures import Mark, Panels, forest
from ktae_lab.intervals import mean_interval
from ktae_lab.tables import (
    BASELINE,
    COLUMNS,
    EVIDENCE,
    RESULTS,
    TASKS,
    alignment,
    arms_of,
    interval_of,
    runs_of,
)

FAR_BELOW = "top-entropy"
"""The arm of rivals that its figure leaves out: it would hide the others."""


def draw() -> Iterator[Path]:
    """Draw a figure of each study, and yield its file."""
    title = "accuracy less GRPO's, mean and 95 % interval"
    for study, tasks in (("decisive", TASKS), ("rivals", TASKS), ("real-model", ("",))):
        yield _drawn(study, _arms_drawn(study, tasks), title)
    runs = runs_of("decisive-rates")
    by_rate: dict[str, dict[str, list[Mark]]] = {}
    for (task, method), of_rate in runs.groupby(["task", "method"], sort=False):
        marks = [
            Mark(f"at {name}", mean_interval(of_rate[f"validated.{column}"].to_numpy()))
            for column, name in COLUMNS.items()
        ]
        by_rate.setdefault(task, {})[method.replace("grpo-", "GRPO, ")] = marks
    title = "accuracy by learning rate, mean and 95 % interval over eight base models"
    yield _drawn("decisive-rates", by_rate, title, around=None)
    arms = [name for name in arms_of("real-model") if name != BASELINE]
    steps: dict[str, dict[str, list[Mark]]] = {}
    for arm in arms:
        for step, interval in zip(("0", "10", "20", "40"), alignment(arm), strict=True):
            steps.setdefault(f"after {step} steps", {})[arm] = [Mark("", interval)]
    title = f"cosine with the true gradient, less GRPO's; {COVERED}"
    yield _drawn("real-alignment", steps, title)


def _arms_drawn(study: str, tasks: Sequence[str]) -> Panels:
    panels: dict[str, dict[str, list[Mark]]] = {}
    for task in tasks:
        for arm, name in arms_of(study).items():
            if arm not in (BASELINE, FAR_BELOW):
                marks = [
                    Mark(f"at {words}", interval_of(study, arm, BASELINE, column, task))
                    for column, words in COLUMNS.items()
                ]
                panels.setdefault(task, {})[name.replace("`", "")] = marks
    return panels


def _drawn(study: str, panels: Panels, title: str, around: float | None = 0.0) -> Path:
    path = RESULTS / study / "figure.svg"
    if study == "decisive":  # of the documentation, which must not need the laboratory
        path = EVIDENCE.parent / "images" / "decisive.svg"
    forest(panels, title, path, around=around)
    return path
