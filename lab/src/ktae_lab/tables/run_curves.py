"""The curves of a study's runs, and the lead of one method over another along them."""

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ktae_lab.csv_files import read_csv
from ktae_lab.study.cells import KEYS, key_of
from ktae_lab.tables import studies
from ktae_lab.tables.page import Table, digits_of, markdown, mean_with_bounds

WINDOW = 15
"""Steps over which curves are smoothed."""

Curves = dict[str, np.ndarray]
"""A run's, (steps,) each, by column."""

Run = tuple[str, ...]
"""Task, method, seed and base model, or some of these."""


class Pair(NamedTuple):
    """A seed's two runs."""

    treatment: Curves
    baseline: Curves


def curves_of(study: str) -> dict[Run, Curves]:
    """Of each run; NaN where it lacks a curve or a step of it."""
    return _read(studies.folder_of(study).curves_csv)


def pairs_of(study: str, baseline: str, method: str, task: str) -> list[Pair]:
    """The runs of a method on a task that the baseline has as well."""
    return list(pairs_by_run(study, baseline, method, task).values())


def pairs_by_run(study: str, baseline: str, method: str, task: str) -> dict[Run, Pair]:
    """The same, by what the two share: seed and base model."""
    curves = curves_of(study)
    return {
        tuple(run): Pair(mine, curves[task, baseline, *run])
        for (of_task, name, *run), mine in curves.items()
        if (of_task, name) == (task, method) and (task, baseline, *run) in curves
    }


def tasks_of(study: str) -> list[str]:
    """In the order of its runs."""
    return list(dict.fromkeys(task for task, *_ in curves_of(study)))


def mean_credit(study: str) -> dict[tuple[str, str], float]:
    """A token's mean absolute credit over all runs of a task and method that have credit."""
    found: dict[tuple[str, str], list[float]] = {}
    for (task, method, *_), curves in curves_of(study).items():
        if not np.isnan(curves["credit_abs"]).all():
            found.setdefault((task, method), []).append(float(np.nanmean(curves["credit_abs"])))
    return {key: float(np.mean(means)) for key, means in found.items()}


def leads(study: str, baseline: str, column: str, width: str, *methods: str) -> str:
    """A curve of the training's rollouts (such as `accuracy`) in windows of `width` steps: the
    baseline's, and what each method has more, by pairs."""
    n, digits, rows = int(width), digits_of(column), []
    for task in tasks_of(study):
        base = [_windows(run[column], n) for run, _ in pairs_of(study, baseline, baseline, task)]
        columns = [[f"{mean:.{digits}f}" for mean in np.mean(base, axis=0)]]
        for method in methods:
            differences = [
                _windows(mine[column], n) - _windows(theirs[column], n)
                for mine, theirs in pairs_of(study, baseline, method, task)
            ]
            columns.append([mean_with_bounds(d, digits) for d in np.transpose(differences)])
        for i, cells in enumerate(zip(*columns, strict=True)):
            rows.append([task, f"{1 + n * i} to {n * (i + 1)}", *cells])
    return markdown(["task", "steps", f"`{baseline}`", *(f"`{name}`" for name in methods)], rows)


def paces(study: str, baseline: str, steps: str, *methods: str) -> str:
    """Steps that each method needs for the baseline's accuracy after `steps` steps (with commas
    between them), as a share of the baseline's: median, lowest and highest of the pairs.

    Accuracy is that of the training's rollouts, the mean over the last `WINDOW` steps; the
    baseline may have had as much earlier, and that is when it counts as there.
    """
    after = [int(step) for step in steps.split(",")]
    if min(after) < WINDOW:
        raise ValueError(f"steps are {steps}; expected {WINDOW} or more, over which it is smoothed")
    rows = []
    for task in tasks_of(study):
        for method in methods:
            shares = [
                [pace(mine["accuracy"], base["accuracy"], step) for step in after]
                for mine, base in pairs_of(study, baseline, method, task)
            ]
            cells = [
                "{} ({} to {})".format(*map(_share, (np.median(column), min(column), max(column))))
                for column in zip(*shares, strict=True)
            ]
            rows.append([task, f"`{method}`", str(len(shares)), *cells])
    return markdown(["task", "method", "pairs", *(f"{baseline}'s step {n}" for n in after)], rows)


def pace(mine: np.ndarray, base: np.ndarray, step: int) -> float:
    """Of one pair of (steps,) accuracies; inf: never."""
    mine, base = smoothed(mine), smoothed(base)
    goal = base[step - WINDOW]
    reached = mine >= goal
    if not reached.any():
        return float("inf")
    return float((np.argmax(reached) + WINDOW) / (np.argmax(base >= goal) + WINDOW))


def smoothed(values: np.ndarray, width: int = WINDOW) -> np.ndarray:
    """(steps - width + 1,) means over `width` steps.

    Rounded, so that equal means are equal on every CPU: pages ask which is reached first.
    """
    return np.convolve(values, np.full(width, 1 / width), mode="valid").round(9)


def _share(value: float) -> str:
    return "never" if value == float("inf") else f"{value:.2f}"


def _windows(values: np.ndarray, width: int) -> np.ndarray:
    """(windows,) means; a rest of steps is left out."""
    means: np.ndarray = values[: values.size // width * width].reshape(-1, width).mean(axis=1)
    return means


@functools.cache
def _read(file: Path) -> dict[Run, Curves]:
    found: dict[Run, list[dict[str, str]]] = {}
    for row in read_csv(file):
        found.setdefault(key_of(row), []).append(row)
    return {run: _curves(rows) for run, rows in found.items()}


def _curves(rows: list[dict[str, str]]) -> Curves:
    ordered = sorted(rows, key=lambda row: int(row["step"]))
    columns = [name for name in ordered[0] if name not in (*KEYS, "step")]
    return {name: np.array([float(row[name] or "nan") for row in ordered]) for name in columns}


TABLES: dict[str, Table] = {
    "leads": leads,
    "paces": paces,
}
