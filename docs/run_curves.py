"""The curves of a study's runs, and the lead of one method over another along them."""

import numpy as np
from page import STUDIES, markdown, mean_with_bounds, read_csv

NAMES = ("task", "method", "seed", "base_model")

Curves = dict[str, np.ndarray]
"""A run's, (steps,) each, by column."""


def curves_of(study: str) -> dict[tuple[str, ...], Curves]:
    """By task, method, seed and base model; NaN where a run lacks a curve or a step of it."""
    found: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in read_csv(STUDIES / study / "curves.csv"):
        found.setdefault(tuple(row[name] for name in NAMES), []).append(row)
    return {run: _curves(rows) for run, rows in found.items()}


def leads(study: str, baseline: str, width: str, *methods: str) -> str:
    """Accuracy of the training's rollouts in windows of so many steps: the baseline's, and what
    each method has more, by pairs."""
    curves, n = curves_of(study), int(width)
    rows = []
    for task in dict.fromkeys(task for task, *_ in curves):
        base = _windows(curves, task, baseline, n)
        steps = next(iter(base.values())).size
        columns = [
            [f"{mean:.3f}" for mean in np.mean(list(base.values()), axis=0)],
            *(_differences(base, _windows(curves, task, method, n)) for method in methods),
        ]
        first = [str(1 + n * i) for i in range(steps)]
        last = [str(n * (i + 1)) for i in range(steps)]
        for cells in zip(first, last, *columns, strict=True):
            rows.append([task, f"{cells[0]} to {cells[1]}", *cells[2:]])
    return markdown(["task", "steps", f"`{baseline}`", *(f"`{name}`" for name in methods)], rows)


def _windows(
    curves: dict[tuple[str, ...], Curves], task: str, method: str, width: int
) -> dict[tuple[str, ...], np.ndarray]:
    """(windows,) means of accuracy, by seed and base model; a rest of steps is left out."""
    return {
        run: found["accuracy"][: found["accuracy"].size // width * width]
        .reshape(-1, width)
        .mean(axis=1)
        for (of_task, name, *rest), found in curves.items()
        if (of_task, name) == (task, method) and (run := tuple(rest))
    }


def _differences(
    base: dict[tuple[str, ...], np.ndarray], mine: dict[tuple[str, ...], np.ndarray]
) -> list[str]:
    pairs = np.array([mine[run] - base[run] for run in mine if run in base])
    return [mean_with_bounds(differences) for differences in pairs.T]


def _curves(rows: list[dict[str, str]]) -> Curves:
    ordered = sorted(rows, key=lambda row: int(row["step"]))
    columns = [name for name in ordered[0] if name not in (*NAMES, "step")]
    return {name: np.array([float(row[name] or "nan") for row in ordered]) for name in columns}
