"""What the runs of a study reached, and what they took: tables."""

import statistics

import numpy as np
from scipy.stats import spearmanr

from ktae_lab.csv_files import read_csv
from ktae_lab.study.cells import key_of
from ktae_lab.study.results import count
from ktae_lab.study.statistics import pointwise_band
from ktae_lab.study.stored import read_trained_by
from ktae_lab.tables import run_curves, studies
from ktae_lab.tables.comparisons import OUTCOMES
from ktae_lab.tables.page import RESULTS, Table, digits_of, markdown, with_bounds

STEP_TIME = RESULTS / "step_time.csv"
INTERVALS = RESULTS / "study_intervals.csv"
FALL = 0.05
"""Of accuracy, from the last training steps to the end: two and a half times the standard
error that so many problems and rollouts have, so that noise alone seldom makes one."""


def runs(study: str, task: str) -> str:
    """Each method's outcomes: mean over seeds with the 95 % interval for these base models; and
    a token's mean absolute credit."""
    rows, sizes = [], run_curves.mean_credit(study)
    of_task = [row for row in studies.finished(study) if row["task"] == task]
    for method in dict.fromkeys(row["method"] for row in of_task):
        mine = [row for row in of_task if row["method"] == method]
        cells = [_mean_and_half(mine, outcome) for outcome in OUTCOMES]
        size = sizes.get((task, method))
        rows.append([f"`{method}`", str(len(mine)), *cells, "" if size is None else f"{size:.2f}"])
    return markdown(["method", "runs", *OUTCOMES.values(), "credit a token"], rows)


def bias(study: str, *columns: str) -> str:
    """What methods do to outcomes on each base model, by how well GRPO does there: columns are
    METHOD:OUTCOME, minus GRPO's, of the seeds that both have."""
    of_method: dict[tuple[str, str], dict[str, dict[str, str]]] = {}
    for row in studies.finished(study):
        base = f"{row['task']}, {row['base_model'].removeprefix('demo:')}"
        of_method.setdefault((base, row["method"]), {})[row["seed"]] = row

    def shift(base: str, method: str, outcome: str) -> float:
        its, grpos = of_method[base, method], of_method[base, "grpo"]
        return statistics.mean(
            float(its[seed][f"outcome.{outcome}"]) - float(grpos[seed][f"outcome.{outcome}"])
            for seed in its.keys() & grpos.keys()
        )

    accuracies = {
        base: statistics.mean(float(row["outcome.mean_accuracy"]) for row in rows.values())
        for (base, method), rows in of_method.items()
        if method == "grpo"
    }
    bases = sorted(accuracies, key=accuracies.__getitem__)
    accuracy = [accuracies[base] for base in bases]
    cells = [[*bases, "rank correlation with it"], [*(f"{x:.3f}" for x in accuracy), ""]]
    head = ["base model", "GRPO's mean accuracy over the run"]
    for column in columns:
        method, outcome = column.split(":")
        shifts = [shift(base, method, outcome) for base in bases]
        shown = [f"{shift:+.{digits_of(outcome)}f}" for shift in shifts]
        cells.append([*shown, f"{spearmanr(accuracy, shifts).statistic:.2f}"])
        head.append(f"`{method}`, {OUTCOMES[outcome]}")
    return markdown(head, [list(row) for row in zip(*cells, strict=True)])


def falls(*names: str) -> str:
    """Runs that end far below their own last training steps, of the methods that have any."""
    tasks = run_curves.tasks_of(names[0])
    rows = []
    for study in names:
        has_fallen: dict[str, dict[str, list[bool]]] = {}
        curves = run_curves.curves_of(study)
        for row in studies.finished(study):
            last = curves[key_of(row)]["accuracy"][-run_curves.WINDOW :].mean()
            of_method = has_fallen.setdefault(row["method"], {task: [] for task in tasks})
            of_method[row["task"]].append(float(row["outcome.sampled_accuracy"]) < last - FALL)
        for method, by_task in has_fallen.items():
            if any(map(any, by_task.values())):
                cells = [f"{sum(runs)} of {len(runs)}" for runs in by_task.values()]
                rows.append([study, f"`{method}`", *cells])
    return markdown(["study", "method", *tasks], rows)


def counts(study: str) -> str:
    """How many runs there are, what became of them, and on what they ran."""
    rows = [[what, str(n)] for what, n in count(studies.runs_of(study)).items()]
    for machine in read_trained_by(studies.folder_of(study)):
        what = f"{machine['cpu']}, {machine['cores']} cores, {machine['versions']}"
        rows.append([f"{machine['runs']} of them at commit `{machine['commit']}`", what])
    return markdown(["runs", ""], rows)


def step_time(study: str) -> str:
    """Seconds a training step, medians over runs of their medians, and the estimator's share."""
    rows = []
    finished = studies.finished(study)
    for method in dict.fromkeys(row["method"] for row in finished):
        mine = [row for row in finished if row["method"] == method]
        step = statistics.median(float(row["seconds_per_step"]) for row in mine)
        ktae = [float(r["credit_seconds_per_step"]) for r in mine if r["credit_seconds_per_step"]]
        own = statistics.median(ktae) if ktae else None
        shown = ["", ""] if own is None else [f"{1000 * own:.1f} ms", f"{own / step:.2%}"]
        rows.append([f"`{method}`", str(len(mine)), f"{step:.2f} s", *shown])
    return markdown(["method", "runs", "a step", "the estimator in it", "its share"], rows)


def step_time_alone(*_: str) -> str:
    """results/step_time.csv: methods in turns on a machine that does nothing else."""
    found, rows = read_csv(STEP_TIME), []
    seconds = {(r["shape"], r["method"]): float(r["seconds"]) for r in found}
    for r in found:
        own, step = float(r["credit_seconds"]), float(r["seconds"])
        estimator = [f"{1000 * own:.1f} ms ({own / step:.2%})", ""] if own else ["", ""]
        if r["baseline"]:
            added, low, high = (float(r[key]) for key in ("added", "added_low", "added_high"))
            share = added / seconds[r["shape"], r["baseline"]]
            estimator[1] = f"{with_bounds(added, low, high)} s, {share:+.1%}"
        what = f"{r['shape']}, {r['rollouts']} × {r['mean_length']} tokens, {r['device']}"
        spread = f"{step:.2f} s ({float(r['seconds_20']):.2f} to {float(r['seconds_80']):.2f})"
        rows.append([what, f"`{r['method']}`", r["rounds"], spread, *estimator])
    head = ["model, rollouts", "method", "rounds", "a step (20 % to 80 %)", "the estimator in it"]
    return markdown([*head, "more than without it, by round (95 %)"], rows)


def _mean_and_half(rows: list[dict[str, str]], outcome: str) -> str:
    digits = digits_of(outcome)
    values = np.array([[float(row[f"outcome.{outcome}"])] for row in rows])
    mean, _, high = pointwise_band(values, [row["base_model"] for row in rows])
    return f"{mean[0]:.{digits}f} ± {high[0] - mean[0]:.{digits}f}"


def intervals(*_: str) -> str:
    """results/study_intervals.csv: how often each kind of interval holds the true mean."""
    found = read_csv(INTERVALS)
    kinds = list(dict.fromkeys(row["interval"] for row in found))
    rows: dict[tuple[str, str], list[str]] = {}
    for row in found:
        cells = rows.setdefault((row["differences"], row["seeds"]), [])
        cells.append(f"{100 * float(row['holds_the_mean']):.1f} %")
    return markdown(["differences", "seeds", *kinds], [[*key, *row] for key, row in rows.items()])


TABLES: dict[str, Table] = {
    "runs": runs,
    "counts": counts,
    "bias": bias,
    "falls": falls,
    "step-time": step_time,
    "step-time-alone": step_time_alone,
    "intervals": intervals,
}
