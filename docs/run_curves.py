"""The curves of a study's runs, and the lead of one method over another along them."""

import numpy as np
from page import STUDIES, digits_of, markdown, mean_with_bounds, read_csv

WINDOW = 15
"""Steps over which curves are smoothed."""

NAMES = ("task", "method", "seed", "base_model")

Curves = dict[str, np.ndarray]
"""A run's, (steps,) each, by column."""


def curves_of(study: str) -> dict[tuple[str, ...], Curves]:
    """By task, method, seed and base model; NaN where a run lacks a curve or a step of it."""
    found: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in read_csv(STUDIES / study / "curves.csv"):
        found.setdefault(tuple(row[name] for name in NAMES), []).append(row)
    return {run: _curves(rows) for run, rows in found.items()}


def mean_terms(study: str) -> dict[tuple[str, str], float]:
    """The mean absolute term of a token over all runs of a task and method that have terms."""
    found: dict[tuple[str, str], list[float]] = {}
    for (task, method, *_), curves in curves_of(study).items():
        if not np.isnan(curves["term_abs"]).all():
            found.setdefault((task, method), []).append(float(np.nanmean(curves["term_abs"])))
    return {key: float(np.mean(means)) for key, means in found.items()}


def leads(study: str, baseline: str, column: str, width: str, *methods: str) -> str:
    """A curve of the training's rollouts (such as `accuracy`) in windows of so many steps: the
    baseline's, and what each method has more, by pairs."""
    curves, n = curves_of(study), int(width)
    digits, rows = digits_of(column), []
    for task in dict.fromkeys(task for task, *_ in curves):
        base = _windows(curves, task, baseline, column, n)
        columns = [
            [f"{mean:.{digits}f}" for mean in np.mean(list(base.values()), axis=0)],
            *(
                _differences(base, _windows(curves, task, method, column, n), digits)
                for method in methods
            ),
        ]
        for i, cells in enumerate(zip(*columns, strict=True)):
            rows.append([task, f"{1 + n * i} to {n * (i + 1)}", *cells])
    return markdown(["task", "steps", f"`{baseline}`", *(f"`{name}`" for name in methods)], rows)


def paces(study: str, baseline: str, steps: str, *methods: str) -> str:
    """Steps that each method needs for the accuracy of the baseline after so many (with commas
    between them), as a share of the baseline's: median, lowest and highest of the pairs.

    Accuracy is that of the training's rollouts, the mean over the last `WINDOW` steps; the
    baseline may have had as much earlier, and that is when it counts as there.
    """
    curves = curves_of(study)
    after = [int(step) for step in steps.split(",")]
    rows = []
    for task in dict.fromkeys(task for task, *_ in curves):
        for method in methods:
            shares = [
                [pace(mine["accuracy"], curves[task, baseline, *run]["accuracy"], n) for n in after]
                for (of_task, name, *run), mine in curves.items()
                if (of_task, name) == (task, method) and (task, baseline, *run) in curves
            ]
            cells = [
                f"{np.median(column):.2f} ({_share(min(column))} to {_share(max(column))})"
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


def smoothed(values: np.ndarray) -> np.ndarray:
    """(steps - WINDOW + 1,) means over `WINDOW` steps."""
    return np.convolve(values, np.full(WINDOW, 1 / WINDOW), mode="valid")


def _share(value: float) -> str:
    return "never" if value == float("inf") else f"{value:.2f}"


def _windows(
    curves: dict[tuple[str, ...], Curves], task: str, method: str, column: str, width: int
) -> dict[tuple[str, ...], np.ndarray]:
    """(windows,) means of a curve, by seed and base model; a rest of steps is left out."""
    return {
        run: found[column][: found[column].size // width * width].reshape(-1, width).mean(axis=1)
        for (of_task, name, *rest), found in curves.items()
        if (of_task, name) == (task, method) and (run := tuple(rest))
    }


def _differences(
    base: dict[tuple[str, ...], np.ndarray], mine: dict[tuple[str, ...], np.ndarray], digits: int
) -> list[str]:
    pairs = np.array([mine[run] - base[run] for run in mine if run in base])
    return [mean_with_bounds(differences, digits) for differences in pairs.T]


def _curves(rows: list[dict[str, str]]) -> Curves:
    ordered = sorted(rows, key=lambda row: int(row["step"]))
    columns = [name for name in ordered[0] if name not in (*NAMES, "step")]
    return {name: np.array([float(row[name] or "nan") for row in ordered]) for name in columns}
